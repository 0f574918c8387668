//! Connected sockets that no poller knows.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::Stream;
use crate::tls::Tls;

/// A connected socket that no poller knows, as it was accepted or taken off one: it can go to another thread, whose
/// poller takes it.
#[derive(Debug)]
pub struct Detached(pub(crate) Socket);

#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// What lies under it, and the rest.
    Tls(Box<Socket>, Box<Tls>),
    #[cfg(feature = "simulate")]
    Simulated(crate::simulated::Socket),
}

impl From<TcpStream> for Detached {
    /// Of a non-blocking socket.
    fn from(stream: TcpStream) -> Self {
        Self(Socket::Tcp(stream))
    }
}

impl From<UnixStream> for Detached {
    /// Of a non-blocking socket.
    fn from(stream: UnixStream) -> Self {
        Self(Socket::Unix(stream))
    }
}

impl Detached {
    /// Whether nothing has come that was not read: no byte, no end, no error. Asks the kernel.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.0.is_quiet()
    }

    /// Registers it with this thread's runtime.
    ///
    /// # Errors
    /// When the poller refuses the socket, which is closed then.
    pub fn attach(self) -> io::Result<Stream> {
        Stream::attach(self.0)
    }

    /// Sends a short answer, as far as it is taken at once, and closes. Who is gone already does not read it.
    pub fn turn_away(self, answer: &[u8]) {
        match self.0 {
            // It fits any send queue.
            Socket::Tcp(stream) => turn_away(&stream, answer, || stream.shutdown(Shutdown::Write)),
            Socket::Unix(stream) => turn_away(&stream, answer, || stream.shutdown(Shutdown::Write)),
            // In plain text it would be no answer.
            Socket::Tls(..) => {}
            #[cfg(feature = "simulate")]
            Socket::Simulated(socket) => socket.turn_away(answer),
        }
    }
}

impl Socket {
    fn is_quiet(&self) -> bool {
        match self {
            Self::Tcp(stream) => is_quiet(stream.as_fd()),
            Self::Unix(stream) => is_quiet(stream.as_fd()),
            Self::Tls(socket, tls) => tls.is_quiet() && socket.is_quiet(),
            #[cfg(feature = "simulate")]
            Self::Simulated(socket) => socket.peek().is_none(),
        }
    }
}

fn is_quiet(socket: BorrowedFd<'_>) -> bool {
    recv(socket, &mut [0; 1], RecvFlags::PEEK).is_err_and(|error| error == Errno::WOULDBLOCK)
}

fn turn_away<S: Read + Write>(mut stream: S, answer: &[u8], shutdown: impl FnOnce() -> io::Result<()>) {
    let _ = stream.write_all(answer);
    let _ = shutdown();
    // Closing with unread bytes would send a reset, which can overtake the answer.
    let _ = stream.read(&mut [0; 4096]);
}
