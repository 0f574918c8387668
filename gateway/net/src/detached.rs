//! Connected sockets that no poller has registered. Accepting returns them, and workers exchange them when a
//! connection is handed over or an idle upstream connection is shared.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use socket2::SockRef;

use crate::Stream;
use crate::tls::TlsStream;

/// A connected socket that is registered with no poller, because it was just accepted or detached. It can
/// move to another thread, whose runtime then registers it.
#[derive(Debug)]
pub struct DetachedStream(pub(crate) DetachedSocket);

#[derive(Debug)]
pub(crate) enum DetachedSocket {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// The underlying socket, and the state of its TLS session.
    Tls(Box<DetachedSocket>, Box<TlsStream>),
    #[cfg(feature = "simulate")]
    Simulated(crate::simulated::SimulatedSocket),
}

impl From<TcpStream> for DetachedStream {
    /// The socket must be non-blocking.
    fn from(stream: TcpStream) -> Self {
        Self(DetachedSocket::Tcp(stream))
    }
}

impl From<UnixStream> for DetachedStream {
    /// The socket must be non-blocking.
    fn from(stream: UnixStream) -> Self {
        Self(DetachedSocket::Unix(stream))
    }
}

impl DetachedStream {
    /// Whether nothing unread has arrived: no byte, end or error. Makes a system call.
    #[must_use]
    pub fn has_nothing_unread(&self) -> bool {
        self.0.has_nothing_unread()
    }

    /// Registers the socket with this thread's runtime.
    ///
    /// # Errors
    /// If the poller refuses the socket, which is then closed.
    pub fn attach(self) -> io::Result<Stream> {
        Stream::attach(self.0)
    }

    /// Closes with a reset, so that the peer does not take it for the orderly end of a message.
    pub fn reset(self) {
        self.0.reset_on_close();
    }

    /// Writes the part of a short response that the kernel accepts at once, and closes. Ignores errors.
    pub fn reject(self, answer: &[u8]) {
        match self.0 {
            // The response fits into any send queue.
            DetachedSocket::Tcp(stream) => reject(&stream, answer, || stream.shutdown(Shutdown::Write)),
            DetachedSocket::Unix(stream) => reject(&stream, answer, || stream.shutdown(Shutdown::Write)),
            // A response in plain text would make no sense to a TLS client.
            DetachedSocket::Tls(..) => {}
            #[cfg(feature = "simulate")]
            DetachedSocket::Simulated(socket) => socket.reject(answer),
        }
    }
}

impl DetachedSocket {
    fn reset_on_close(&self) {
        match self {
            Self::Tcp(stream) => reset_on_close(stream),
            // A local socket has no reset.
            Self::Unix(_) => {}
            Self::Tls(socket, _) => socket.reset_on_close(),
            #[cfg(feature = "simulate")]
            Self::Simulated(socket) => socket.reset_on_close(),
        }
    }

    fn has_nothing_unread(&self) -> bool {
        match self {
            Self::Tcp(stream) => has_nothing_unread(stream.as_fd()),
            Self::Unix(stream) => has_nothing_unread(stream.as_fd()),
            Self::Tls(socket, tls) => tls.has_nothing_unread() && socket.has_nothing_unread(),
            #[cfg(feature = "simulate")]
            Self::Simulated(socket) => socket.peek().is_none(),
        }
    }
}

/// Makes the kernel send a reset when a TCP socket is closed. On failure the peer sees an orderly end; nothing better can
/// be done.
pub(crate) fn reset_on_close(socket: &impl AsFd) {
    let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
}

fn has_nothing_unread(socket: BorrowedFd<'_>) -> bool {
    recv(socket, &mut [0; 1], RecvFlags::PEEK).is_err_and(|error| error == Errno::WOULDBLOCK)
}

fn reject<S: Read + Write>(mut stream: S, answer: &[u8], shutdown: impl FnOnce() -> io::Result<()>) {
    let _ = stream.write_all(answer);
    let _ = shutdown();
    // Closing with unread bytes sends a reset, which can overtake the response.
    let _ = stream.read(&mut [0; 4096]);
}
