//! One connected byte stream.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use rustix::net::RecvFlags;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::coop::unconstrained;

use crate::Address;

/// One connected byte stream, polled by hand: the data path owns its buffers and its waits.
///
/// `poll_read` and `poll_write` clear the readiness themselves after a short read or write. A loop over
/// `try_read` would find that out with one more system call.
#[derive(Debug)]
pub struct Stream(Kind);

#[derive(Debug)]
enum Kind {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// What waits in a stream's receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peek {
    /// At least one byte.
    Data,
    /// The peer has ended its direction, and nothing is left to read.
    End,
    /// The peer has reset the connection.
    Reset,
}

fn peek(socket: impl AsFd, byte: &mut [u8; 1]) -> io::Result<usize> {
    Ok(rustix::net::recv(socket, byte, RecvFlags::PEEK)?.0)
}

impl Stream {
    /// Connects to an address; a name is resolved first, and its addresses are tried in order.
    ///
    /// # Errors
    /// What the resolver or the kernel says of the last address tried; [`io::ErrorKind::NotFound`] if a name
    /// does not resolve.
    pub async fn connect(address: &Address) -> io::Result<Self> {
        match address {
            Address::Socket(address) => Self::connect_tcp(*address).await,
            Address::Unix(path) => UnixStream::connect(path).await.map(|stream| Self(Kind::Unix(stream))),
            Address::Name { host, port } => {
                let not_found = |text: String| io::Error::new(io::ErrorKind::NotFound, text);
                let addresses = tokio::net::lookup_host((host.as_str(), *port))
                    .await
                    .map_err(|error| not_found(error.to_string()))?;
                let mut last = not_found(format!("{host} has no address"));
                for address in addresses {
                    match Self::connect_tcp(address).await {
                        Ok(stream) => return Ok(stream),
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
        }
    }

    async fn connect_tcp(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        // A message is one write: Nagle's algorithm could only delay its last segment.
        stream.set_nodelay(true)?;
        Ok(Self(Kind::Tcp(stream)))
    }

    /// Registers an accepted, non-blocking socket with this thread's runtime.
    ///
    /// # Errors
    /// When the poller refuses the socket.
    pub fn from_std(stream: std::net::TcpStream) -> io::Result<Self> {
        TcpStream::from_std(stream).map(|stream| Self(Kind::Tcp(stream)))
    }

    /// Reads once into `buffer`; 0 is the end of the peer's direction.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        ready!(match &mut self.0 {
            Kind::Tcp(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
            Kind::Unix(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
        })?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    /// Waits until something (bytes, an end, an error) is there to be read. Makes no system call.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.0 {
            Kind::Tcp(stream) => stream.poll_read_ready(cx),
            Kind::Unix(stream) => stream.poll_read_ready(cx),
        }
    }

    /// Waits until something is there to be read, and says what, without taking it. Makes a system call only if the
    /// poller has told of an event since the last short read.
    ///
    /// Pending means that nothing is there, never that the task has had its share (tokio's cooperative budget): a
    /// pool relies on it.
    pub fn poll_peek(&self, cx: &mut Context<'_>) -> Poll<Peek> {
        let peek = poll_fn(|cx| Poll::Ready(self.poll_peek_within_budget(cx)));
        match pin!(unconstrained(peek)).poll(cx) {
            Poll::Ready(peek) => peek,
            Poll::Pending => Poll::Pending,
        }
    }

    fn poll_peek_within_budget(&self, cx: &mut Context<'_>) -> Poll<Peek> {
        loop {
            if ready!(self.poll_readable(cx)).is_err() {
                return Poll::Ready(Peek::Reset);
            }
            let mut byte = [0];
            let peeked = match &self.0 {
                Kind::Tcp(stream) => stream.try_io(Interest::READABLE, || peek(stream, &mut byte)),
                Kind::Unix(stream) => stream.try_io(Interest::READABLE, || peek(stream, &mut byte)),
            };
            match peeked {
                Ok(0) => return Poll::Ready(Peek::End),
                Ok(_) => return Poll::Ready(Peek::Data),
                // An event that is over: the last read took all there was, exactly. Trying has cleared it.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Poll::Ready(Peek::Reset),
            }
        }
    }

    /// Writes once; fewer bytes than given when the send queue is full.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Kind::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Kind::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    /// Writes several pieces with one system call.
    pub fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Kind::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
            Kind::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
        }
    }

    /// Ends this side's direction (FIN); reading goes on.
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Kind::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Kind::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    /// Makes closing send a reset, so that a peer that reads to the end of the stream sees that the message was cut.
    pub fn reset_on_close(&self) {
        if let Kind::Tcp(stream) = &self.0 {
            // A failure only means that the peer sees an orderly end: nothing better can be done here.
            let _ = socket2::SockRef::from(stream).set_linger(Some(std::time::Duration::ZERO));
        }
    }
}
