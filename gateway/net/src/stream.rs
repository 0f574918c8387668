//! A connected byte stream: TCP, a Unix socket, TLS on either, or simulated.
//!
//! The data path uses [`Stream`] for clients and endpoints alike. It issues system calls itself and uses
//! tokio only for readiness, which saves instructions on each request. [`Stream::peek`] and its relatives
//! look for an end or for unexpected bytes without consuming anything.

mod peek;

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};

use rustix::fs::sendfile;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg};
use tokio::io::{AsyncWrite, Interest};
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tokio::task::coop::{has_budget_remaining, poll_proceed};

use crate::detached::{DetachedSocket, reset_on_close};
use crate::look_up::connect_by_name;
#[cfg(feature = "simulate")]
use crate::simulated;
use crate::tls::TlsStream;
use crate::{Address, DetachedStream, HandshakeError, Negotiated, self_connection};

/// A connected byte stream with its own poll methods, because the data path owns its buffers and its waits.
///
/// If the socket may be ready, it tries the system call first, and registers a waker only if it has to wait. tokio's
/// `poll_read` and `poll_write` do both each time, which costs five times as much (callgrind). As with tokio's methods,
/// a short read or write clears the readiness. A loop over `try_read` would need one more system call for that.
#[derive(Debug)]
pub struct Stream {
    kind: StreamKind,
    /// The task whose waker is with the poller, for the next read event. Only this type leaves wakers there,
    /// and `try_io` sees the event that takes it away before any task can wait again.
    registered_task: Cell<Option<usize>>,
    /// Whether the stream was opened to an address at which this process listens.
    is_self_connection: bool,
    /// Whether bytes may be in the socket although the poller's readiness is clear.
    /// [`Self::poll_peer_closed`] clears it to wait for the event after them. The next read makes its system
    /// call whatever the readiness is.
    may_have_unread: Cell<bool>,
    /// Flags of [`Self::write`].
    send_flags: SendFlags,
}

#[derive(Debug)]
enum StreamKind {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// Boxed, so that plain connections do not pay for its size.
    Tls(Box<TlsStream>),
    #[cfg(feature = "simulate")]
    Simulated(simulated::SimulatedSocket),
}

impl From<StreamKind> for Stream {
    fn from(kind: StreamKind) -> Self {
        Self {
            kind,
            registered_task: Cell::new(None),
            may_have_unread: Cell::new(false),
            // With NOSIGNAL, a closed peer is an error here instead of SIGPIPE.
            send_flags: SendFlags::NOSIGNAL,
            is_self_connection: false,
        }
    }
}

impl Stream {
    /// Connects to an address. A name is resolved first, and its addresses are tried in order.
    ///
    /// # Errors
    /// The error of the resolver, or of the last address tried; [`io::ErrorKind::NotFound`] if a name does
    /// not resolve.
    pub async fn connect(address: &Address) -> io::Result<Self> {
        Self::connect_from(address, None).await
    }

    /// As [`connect`](Self::connect), from an address of this machine. Addresses of the other family are
    /// skipped.
    ///
    /// # Errors
    /// As [`connect`](Self::connect); [`io::ErrorKind::AddrNotAvailable`] if this machine does not have the
    /// address, or the peer has none of its family.
    pub async fn connect_from(address: &Address, source: Option<IpAddr>) -> io::Result<Self> {
        #[cfg(feature = "simulate")]
        if simulated::is_active() {
            return Self::connect_simulated(address).await;
        }
        match address {
            Address::Socket(address) => Self::connect_tcp(*address, source).await,
            Address::Unix(path) => {
                let stream = UnixStream::connect(path).await?;
                Ok(Self {
                    is_self_connection: self_connection::is_own_socket(path),
                    ..StreamKind::Unix(stream).into()
                })
            }
            Address::Name { host, port } => {
                connect_by_name(host, *port, async |address| Self::connect_tcp(address, source).await).await
            }
        }
    }

    /// Whether the stream was opened to an address at which this process itself
    /// [listens](crate::set_own_addresses). A TLS connection has lost this information.
    #[must_use]
    pub fn is_self_connection(&self) -> bool {
        self.is_self_connection
    }

    async fn connect_tcp(address: SocketAddr, source: Option<IpAddr>) -> io::Result<Self> {
        let stream = match source {
            None => TcpStream::connect(address).await?,
            Some(source) if source.is_ipv4() == address.is_ipv4() => {
                let socket = if source.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
                socket.bind(SocketAddr::new(source, 0))?;
                socket.connect(address).await?
            }
            Some(_) => return Err(io::ErrorKind::AddrNotAvailable.into()),
        };
        // A message is one write, so Nagle's algorithm could only delay its last segment.
        stream.set_nodelay(true)?;
        let is_self_connection =
            self_connection::is_own_address(address, || stream.local_addr().ok().map(|from| from.ip()));
        Ok(Self { is_self_connection, ..StreamKind::Tcp(stream).into() })
    }

    #[cfg(feature = "simulate")]
    async fn connect_simulated(address: &Address) -> io::Result<Self> {
        let addresses = match address {
            Address::Socket(address) => vec![*address],
            Address::Name { host, port } => {
                simulated::look_up(host).into_iter().map(|ip| SocketAddr::new(ip, *port)).collect()
            }
            // The simulated world has no Unix sockets.
            Address::Unix(_) => return Err(io::ErrorKind::ConnectionRefused.into()),
        };
        let mut last = io::ErrorKind::NotFound.into();
        for address in addresses {
            match simulated::connect(address).await {
                Ok(socket) => return Ok(Self::simulated(socket)),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    #[cfg(feature = "simulate")]
    pub(crate) fn simulated(socket: simulated::SimulatedSocket) -> Self {
        StreamKind::Simulated(socket).into()
    }

    #[cfg(feature = "simulate")]
    pub(crate) fn as_simulated(&self) -> Option<&simulated::SimulatedSocket> {
        match &self.kind {
            StreamKind::Simulated(socket) => Some(socket),
            StreamKind::Tls(tls) => tls.as_simulated(),
            _ => None,
        }
    }

    /// Wraps the stream as the server side of a TLS connection, of whose first bytes `received` were already
    /// read. [`Self::poll_handshake`] then does the handshake.
    ///
    /// # Errors
    /// If the configuration cannot be used.
    pub fn accept_tls(self, config: Arc<ServerConfig>, received: Vec<u8>) -> Result<Self, HandshakeError> {
        Ok(StreamKind::Tls(Box::new(TlsStream::server(self, config, received)?)).into())
    }

    /// Wraps the stream as the client side of a TLS connection. [`Self::poll_handshake`] then does the
    /// handshake. The peer's certificate must contain `name`.
    ///
    /// # Errors
    /// If the configuration cannot be used.
    pub fn connect_tls(
        self,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Self, HandshakeError> {
        Ok(StreamKind::Tls(Box::new(TlsStream::client(self, config, name)?)).into())
    }

    /// Continues the TLS handshake. Until it returns ready, no other method may be called.
    ///
    /// # Errors
    /// If the handshake fails. An alert was sent to the peer if possible.
    pub fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), HandshakeError>> {
        match &mut self.kind {
            StreamKind::Tls(tls) => tls.poll_handshake(cx),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// The parameters that the TLS handshake negotiated; `None` on a plain stream, or before its end.
    #[must_use]
    pub fn tls(&self) -> Option<&Negotiated> {
        match &self.kind {
            StreamKind::Tls(tls) => tls.negotiated(),
            _ => None,
        }
    }

    /// Whether it is a TLS connection, even before the end of the handshake.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        matches!(self.kind, StreamKind::Tls(_))
    }

    /// The protocol that ALPN selected; `None` on a plain stream, or if the client offered none.
    #[must_use]
    pub fn alpn(&self) -> Option<&[u8]> {
        self.tls()?.alpn.as_deref()
    }

    /// The local address, to which the peer has connected; `None` on a Unix socket.
    #[must_use]
    pub fn local_address(&self) -> Option<SocketAddr> {
        match &self.kind {
            StreamKind::Tcp(stream) => stream.local_addr().ok(),
            StreamKind::Unix(_) => None,
            StreamKind::Tls(tls) => tls.local_address(),
            #[cfg(feature = "simulate")]
            StreamKind::Simulated(_) => None,
        }
    }

    /// Registers a socket with this thread's runtime.
    pub(crate) fn attach(socket: DetachedSocket) -> io::Result<Self> {
        Ok(match socket {
            DetachedSocket::Tcp(stream) => StreamKind::Tcp(TcpStream::from_std(stream)?).into(),
            DetachedSocket::Unix(stream) => StreamKind::Unix(UnixStream::from_std(stream)?).into(),
            DetachedSocket::Tls(socket, mut tls) => {
                tls.put_socket(Self::attach(*socket)?);
                StreamKind::Tls(tls).into()
            }
            #[cfg(feature = "simulate")]
            DetachedSocket::Simulated(socket) => {
                socket.adopt();
                Self::simulated(socket)
            }
        })
    }

    /// Removes the socket from this thread's poller.
    ///
    /// # Errors
    /// If the poller cannot release it; the socket is then closed.
    pub fn detach(self) -> io::Result<DetachedStream> {
        Ok(DetachedStream(match self.kind {
            StreamKind::Tcp(stream) => DetachedSocket::Tcp(stream.into_std()?),
            StreamKind::Unix(stream) => DetachedSocket::Unix(stream.into_std()?),
            StreamKind::Tls(mut tls) => {
                let socket = tls.take_socket().ok_or(io::ErrorKind::NotConnected)?;
                DetachedSocket::Tls(Box::new(socket.detach()?.0), tls)
            }
            #[cfg(feature = "simulate")]
            StreamKind::Simulated(socket) => DetachedSocket::Simulated(socket),
        }))
    }

    /// Reads once into `buffer`; 0 is the end of the peer's direction. Also pending if the task has used its
    /// cooperative budget (tokio's), so that a peer that never pauses cannot keep a worker from others.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        #[cfg(feature = "simulate")]
        if let StreamKind::Simulated(socket) = &self.kind {
            return socket.poll_read(cx, buffer);
        }
        if let StreamKind::Tls(tls) = &mut self.kind {
            return tls.poll_read(cx, buffer);
        }
        let share = ready!(poll_proceed(cx));
        let wanted = buffer.len();
        loop {
            let call = |socket: BorrowedFd<'_>| {
                recv(socket, &mut *buffer, RecvFlags::empty()).map(|(count, _)| count)
            };
            if let Some(read) = self.try_io(Interest::READABLE, wanted, call) {
                share.made_progress();
                return Poll::Ready(read);
            }
            ready!(self.poll_read_event(cx))?;
        }
    }

    /// Reads without waiting; `None` if nothing is available. Works on the socket itself, below TLS.
    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> Option<io::Result<usize>> {
        #[cfg(feature = "simulate")]
        if let StreamKind::Simulated(socket) = &self.kind {
            let read = socket.poll_read(&mut Context::from_waker(std::task::Waker::noop()), buffer);
            return if let Poll::Ready(read) = read { Some(read) } else { None };
        }
        let wanted = buffer.len();
        let call =
            |socket: BorrowedFd<'_>| recv(socket, &mut *buffer, RecvFlags::empty()).map(|(count, _)| count);
        self.try_io(Interest::READABLE, wanted, call)
    }

    /// Waits until something is available, and copies it without consuming it; 0 is the end. Works on the
    /// socket itself, below TLS.
    pub(crate) fn poll_peek_into(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        #[cfg(feature = "simulate")]
        if self.as_simulated().is_some() {
            return Poll::Ready(Err(io::ErrorKind::Unsupported.into()));
        }
        loop {
            // Nothing is consumed, so the result says nothing about readiness.
            let call =
                |socket: BorrowedFd<'_>| recv(socket, &mut *buffer, RecvFlags::PEEK).map(|(count, _)| count);
            if let Some(peeked) = self.try_io(Interest::READABLE, 0, call) {
                return Poll::Ready(peeked);
            }
            ready!(self.poll_read_event(cx))?;
        }
    }

    /// Makes one system call unless the poller's readiness says that it would block. Returns `None` if it
    /// would block or did.
    #[inline]
    fn try_io(
        &self,
        interest: Interest,
        wanted: usize,
        call: impl FnOnce(BorrowedFd<'_>) -> rustix::io::Result<usize>,
    ) -> Option<io::Result<usize>> {
        if interest.is_readable() && self.may_have_unread.get() {
            return self.try_io_despite_readiness(wanted, call);
        }
        let mut done = None;
        let call = |socket| {
            if interest.is_readable() {
                self.registered_task.set(None);
            }
            // `WouldBlock` makes tokio clear the readiness.
            match call(socket) {
                Err(Errno::WOULDBLOCK) => Err(io::ErrorKind::WouldBlock.into()),
                Ok(count) if 0 < count && count < wanted => {
                    // The socket is drained, or its send queue is full: the next event tells when there is
                    // more.
                    done = Some(Ok(count));
                    Err(io::ErrorKind::WouldBlock.into())
                }
                result => {
                    done = Some(result.map_err(io::Error::from));
                    Ok(())
                }
            }
        };
        let result: io::Result<()> = match &self.kind {
            StreamKind::Tcp(stream) => stream.try_io(interest, || call(stream.as_fd())),
            StreamKind::Unix(stream) => stream.try_io(interest, || call(stream.as_fd())),
            // Callers handle TLS before.
            StreamKind::Tls(_) => return None,
            #[cfg(feature = "simulate")]
            StreamKind::Simulated(_) => return None,
        };
        // The error has nothing to free; dropping it would still cost a call.
        std::mem::forget(result);
        done
    }

    /// As [`Self::try_io`], for a read that ignores the poller's readiness.
    #[cold]
    fn try_io_despite_readiness(
        &self,
        wanted: usize,
        call: impl FnOnce(BorrowedFd<'_>) -> rustix::io::Result<usize>,
    ) -> Option<io::Result<usize>> {
        // An event since then may have taken the waker.
        self.registered_task.set(None);
        let result = match &self.kind {
            StreamKind::Tcp(stream) => call(stream.as_fd()),
            StreamKind::Unix(stream) => call(stream.as_fd()),
            StreamKind::Tls(_) => return None,
            #[cfg(feature = "simulate")]
            StreamKind::Simulated(_) => return None,
        };
        // Fewer bytes than asked for: the socket is empty.
        self.may_have_unread.set(result.is_ok_and(|count| count == 0 || count == wanted));
        match result {
            Err(Errno::WOULDBLOCK) => None,
            result => Some(result.map_err(io::Error::from)),
        }
    }

    /// Waits for a read event, unless one was reported that no call has consumed.
    fn poll_read_event(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let task = Some(cx.waker().data().addr());
        if self.registered_task.get() == task {
            return Poll::Pending;
        }
        // Without budget, tokio leaves no waker and has the task polled again.
        let leaves_waker = has_budget_remaining();
        let event = match &self.kind {
            StreamKind::Tcp(stream) => stream.poll_read_ready(cx),
            StreamKind::Unix(stream) => stream.poll_read_ready(cx),
            StreamKind::Tls(tls) => return tls.poll_readable(cx),
            #[cfg(feature = "simulate")]
            StreamKind::Simulated(socket) => return socket.poll_readable(cx).map(Ok),
        };
        if event.is_pending() && leaves_waker {
            self.registered_task.set(task);
        }
        event
    }

    /// Whether a part of a TLS record has arrived, from which nothing can be read before its remainder
    /// arrives.
    #[must_use]
    pub fn has_partial_record(&self) -> bool {
        match &self.kind {
            StreamKind::Tls(tls) => tls.has_partial_record(),
            _ => false,
        }
    }

    /// Waits until something (bytes, an end, an error) can be read. Makes no system call.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        #[cfg(feature = "simulate")]
        if let StreamKind::Simulated(socket) = &self.kind {
            return socket.poll_readable(cx).map(Ok);
        }
        if let StreamKind::Tls(tls) = &self.kind {
            return tls.poll_readable(cx);
        }
        match self.try_io(Interest::READABLE, 0, |_| Ok(0)) {
            Some(_) => Poll::Ready(Ok(())),
            None => self.poll_read_event(cx),
        }
    }

    /// Writes the pieces with one system call. Writes fewer bytes than given, possibly none, if the send
    /// queue is full. Registers no waker: [`Self::poll_write`] waits for room.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        #[cfg(feature = "simulate")]
        if let StreamKind::Simulated(socket) = &self.kind {
            return socket.write(pieces);
        }
        if let StreamKind::Tls(tls) = &mut self.kind {
            return tls.write(pieces);
        }
        let wanted = pieces.iter().map(|piece| piece.len()).sum();
        let flags = self.send_flags;
        let written = self.try_io(Interest::WRITABLE, wanted, |socket| match pieces {
            [piece] => send(socket, piece, flags),
            _ => sendmsg(socket, pieces, &mut SendAncillaryBuffer::default(), flags),
        });
        written.unwrap_or(Ok(0))
    }

    /// Announces that the next [`Self::write`] is the last, and that the stream is closed or shut down right after
    /// it. The kernel then sends the last bytes and the end (FIN) in one segment, which saves both sides a segment
    /// and the peer a wake-up. A plain stream that stays open after all would hold its last bytes back for up to
    /// 200 ms (`MSG_MORE`, tcp(7)).
    #[inline]
    pub fn close_follows(&mut self) {
        self.send_flags |= SendFlags::MORE;
    }

    /// Writes once; fewer bytes than given if the send queue is full.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.kind {
            StreamKind::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            StreamKind::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            StreamKind::Tls(tls) => tls.poll_write(cx, bytes),
            #[cfg(feature = "simulate")]
            StreamKind::Simulated(socket) => socket.poll_write(cx, bytes),
        }
    }

    /// Whether [`Self::poll_send_file`] works: the kernel copies a file only into a socket without TLS.
    #[must_use]
    pub fn can_send_file(&self) -> bool {
        matches!(self.kind, StreamKind::Tcp(_) | StreamKind::Unix(_))
    }

    /// Sends a part of a file without copying it through this process (`sendfile`). Sends fewer bytes than `count` if
    /// the send queue is full, and 0 at the end of the file. Waits for the disk if the part is not in memory.
    ///
    /// # Errors
    /// If the connection is broken, if the file cannot be read, or if the stream [cannot](Self::can_send_file) do it.
    pub fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: BorrowedFd<'_>,
        offset: u64,
        count: usize,
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut position = offset;
            let call = |socket: BorrowedFd<'_>| sendfile(socket, file, Some(&mut position), count);
            if let Some(sent) = self.try_io(Interest::WRITABLE, count, call) {
                return Poll::Ready(sent);
            }
            match &self.kind {
                StreamKind::Tcp(stream) => ready!(stream.poll_write_ready(cx))?,
                StreamKind::Unix(stream) => ready!(stream.poll_write_ready(cx))?,
                _ => return Poll::Ready(Err(io::ErrorKind::Unsupported.into())),
            }
        }
    }

    /// Closes this side's direction (FIN); reading can continue.
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.kind {
            StreamKind::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            StreamKind::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            StreamKind::Tls(tls) => tls.poll_shutdown(cx),
            #[cfg(feature = "simulate")]
            StreamKind::Simulated(socket) => Poll::Ready(socket.shutdown()),
        }
    }

    /// Makes the kernel accept no more data while it holds this many unsent bytes. Otherwise it would accept
    /// megabytes for a peer that reads nothing (`net.ipv4.tcp_wmem`).
    pub fn limit_unsent(&self, bytes: u32) {
        match &self.kind {
            // A failure is harmless: the kernel then keeps more for peers that read nothing.
            StreamKind::Tcp(stream) => drop(socket2::SockRef::from(stream).set_tcp_notsent_lowat(bytes)),
            StreamKind::Tls(tls) => tls.limit_unsent(bytes),
            StreamKind::Unix(_) => {}
            #[cfg(feature = "simulate")]
            StreamKind::Simulated(_) => {}
        }
    }

    /// Makes closing send a reset, so that a peer that reads until the end of the stream sees that the
    /// message was cut.
    pub fn reset_on_close(&self) {
        #[cfg(feature = "simulate")]
        if let StreamKind::Simulated(socket) = &self.kind {
            socket.reset_on_close();
        }
        if let StreamKind::Tls(tls) = &self.kind {
            tls.reset_on_close();
        }
        if let StreamKind::Tcp(stream) = &self.kind {
            reset_on_close(stream);
        }
    }
}

#[cfg(test)]
mod tests;
