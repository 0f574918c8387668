//! Listening sockets of workers. A [`BoundListener`] socket comes from the program or from a simulation, and
//! becomes a [`Listener`] on the worker's thread.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::task::{Context, Poll, ready};

use rustix::net::{SocketFlags, acceptfrom_with};
use tokio::io::unix::AsyncFd;

use crate::DetachedStream;
#[cfg(feature = "simulate")]
use crate::{detached::DetachedSocket, simulated::SimulatedListener};

/// A listening socket that is not registered with a runtime.
#[derive(Debug)]
pub struct BoundListener(Listening);

#[derive(Debug)]
enum Listening {
    Real(TcpListener),
    #[cfg(feature = "simulate")]
    Simulated(SimulatedListener),
}

impl From<TcpListener> for BoundListener {
    /// The socket must be bound and non-blocking.
    fn from(listener: TcpListener) -> Self {
        Self(Listening::Real(listener))
    }
}

#[cfg(feature = "simulate")]
impl BoundListener {
    pub(crate) fn simulated(acceptor: SimulatedListener) -> Self {
        Self(Listening::Simulated(acceptor))
    }
}

/// A listening socket that is registered with this thread's runtime.
///
/// tokio's listener registers each accepted socket at once. Here a connection may still be handed to another
/// worker, so it is accepted unregistered, with one system call that also makes it non-blocking.
#[derive(Debug)]
pub struct Listener(Registered);

#[derive(Debug)]
enum Registered {
    Real(AsyncFd<TcpListener>),
    #[cfg(feature = "simulate")]
    Simulated(SimulatedListener),
}

impl Listener {
    /// Registers a listening socket with this thread's runtime.
    ///
    /// # Errors
    /// If the poller refuses the socket.
    #[expect(
        deprecated,
        reason = "its safe successor demands I/O safety, which std's listener has, through unsafe code"
    )]
    pub fn register(bound: BoundListener) -> io::Result<Self> {
        match bound.0 {
            Listening::Real(listener) => AsyncFd::new(listener).map(|fd| Self(Registered::Real(fd))),
            #[cfg(feature = "simulate")]
            Listening::Simulated(acceptor) => {
                acceptor.adopt();
                Ok(Self(Registered::Simulated(acceptor)))
            }
        }
    }

    /// Accepts the next connection. Returns it unregistered, with its peer's address.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(DetachedStream, SocketAddr)>> {
        match &self.0 {
            Registered::Real(fd) => loop {
                let mut guard = ready!(fd.poll_read_ready(cx))?;
                if let Ok(accepted) = guard.try_io(|listener| accept(listener.get_ref())) {
                    return Poll::Ready(accepted);
                }
            },
            #[cfg(feature = "simulate")]
            Registered::Simulated(acceptor) => {
                let accepted = acceptor.poll_accept(cx);
                accepted.map(|(socket, peer)| Ok((DetachedStream(DetachedSocket::Simulated(socket)), peer)))
            }
        }
    }

    /// Accepts a connection that is in the kernel's queue now, whether or not the poller has reported it.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if the queue is empty; otherwise the errors of accept(2).
    pub fn accept_queued(&self) -> io::Result<(DetachedStream, SocketAddr)> {
        match &self.0 {
            Registered::Real(fd) => accept(fd.get_ref()),
            #[cfg(feature = "simulate")]
            Registered::Simulated(acceptor) => {
                let (socket, peer) = acceptor.accept_queued()?;
                Ok((DetachedStream(DetachedSocket::Simulated(socket)), peer))
            }
        }
    }
}

fn accept(listener: &TcpListener) -> io::Result<(DetachedStream, SocketAddr)> {
    let (stream, peer) = acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
    match peer.and_then(|peer| SocketAddr::try_from(peer).ok()) {
        Some(peer) => Ok((TcpStream::from(stream).into(), peer)),
        // The peer of a Unix socket has no IP address, so 0.0.0.0:0 takes its place.
        None => Ok((UnixStream::from(stream).into(), SocketAddr::from(([0, 0, 0, 0], 0)))),
    }
}
