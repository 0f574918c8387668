//! Listening sockets of workers. A [`BoundListener`] socket comes from the program or from a simulation, and
//! becomes a [`Listener`] on the worker's thread.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::task::{Context, Poll, ready};

use rustix::net::{SocketFlags, acceptfrom_with};
use tokio::io::unix::AsyncFd;

use crate::{Datagrams, DetachedStream};
#[cfg(feature = "simulate")]
use crate::{detached::DetachedSocket, simulated::SimulatedListener};

/// A listening socket that is not registered with a runtime.
#[derive(Debug)]
pub struct BoundListener(Listening);

#[derive(Debug)]
enum Listening {
    Real(TcpListener),
    Datagrams(UdpSocket),
    #[cfg(feature = "simulate")]
    Simulated(SimulatedListener),
}

impl From<TcpListener> for BoundListener {
    /// The socket must be bound and non-blocking.
    fn from(listener: TcpListener) -> Self {
        Self(Listening::Real(listener))
    }
}

impl From<UdpSocket> for BoundListener {
    /// The socket must be bound and non-blocking.
    fn from(socket: UdpSocket) -> Self {
        Self(Listening::Datagrams(socket))
    }
}

/// A socket of a listener that is registered with this thread's runtime.
#[derive(Debug)]
pub enum RegisteredListener {
    /// It accepts connections.
    Connections(Listener),
    /// It receives datagrams.
    Datagrams(Datagrams),
}

impl BoundListener {
    /// Registers the socket with this thread's runtime.
    ///
    /// # Errors
    /// If the poller refuses the socket.
    #[expect(
        deprecated,
        reason = "its safe successor demands I/O safety, which std's listener has, through unsafe code"
    )]
    pub fn register(self) -> io::Result<RegisteredListener> {
        let registered = match self.0 {
            Listening::Real(listener) => Registered::Real(AsyncFd::new(listener)?),
            Listening::Datagrams(socket) => {
                return Datagrams::register(socket).map(RegisteredListener::Datagrams);
            }
            #[cfg(feature = "simulate")]
            Listening::Simulated(acceptor) => {
                acceptor.adopt();
                Registered::Simulated(acceptor)
            }
        };
        Ok(RegisteredListener::Connections(Listener(registered)))
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
