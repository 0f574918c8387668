//! A listening socket.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::task::{Context, Poll, ready};

use rustix::net::{SocketFlags, acceptfrom_with};
use tokio::io::unix::AsyncFd;

/// A listening socket, registered with this thread's runtime.
///
/// tokio's own listener registers what it accepts at once. Here a connection may yet go to another worker, so it is
/// accepted bare, with one system call that makes it non-blocking too.
#[derive(Debug)]
pub struct Listener(AsyncFd<TcpListener>);

impl Listener {
    /// Registers a bound, non-blocking socket.
    ///
    /// # Errors
    /// When the poller refuses the socket.
    #[expect(
        deprecated,
        reason = "its safe successor demands I/O safety, which std's listener has, through unsafe code"
    )]
    pub fn from_std(listener: TcpListener) -> io::Result<Self> {
        AsyncFd::new(listener).map(Self)
    }

    /// The next connection, not registered, and its peer's address.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        loop {
            let mut guard = ready!(self.0.poll_read_ready(cx))?;
            if let Ok(accepted) = guard.try_io(|listener| accept(listener.get_ref())) {
                return Poll::Ready(accepted);
            }
        }
    }

    /// A connection that is in the kernel's queue now, whether the poller has told of it or not.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when there is none; else as accept(2).
    pub fn accept_queued(&self) -> io::Result<(TcpStream, SocketAddr)> {
        accept(self.0.get_ref())
    }
}

fn accept(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, peer) = acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
    let peer = peer.ok_or_else(|| io::Error::other("the peer has no IP address"))?;
    Ok((TcpStream::from(stream), peer))
}
