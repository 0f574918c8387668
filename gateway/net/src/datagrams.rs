//! Sockets for datagrams (UDP): those of listeners, and those of sessions, which are connected to an endpoint.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll, ready};

use rustix::net::{SendFlags, send, sendto};
use tokio::io::ReadBuf;
use tokio::net::UdpSocket;

use crate::Address;
use crate::look_up::connect_by_name;
use crate::self_connection::accepts;

/// A socket for datagrams that is registered with this thread's runtime.
#[derive(Debug)]
pub struct Datagrams(UdpSocket);

impl Datagrams {
    /// Registers a bound socket of a listener.
    ///
    /// # Errors
    /// If the poller refuses the socket.
    pub fn register(socket: std::net::UdpSocket) -> io::Result<Self> {
        UdpSocket::from_std(socket).map(Self)
    }

    /// Opens a socket that sends to one address, and receives from that address alone. A name is resolved first; its
    /// first usable address counts. `source` is the address of this machine to send from.
    ///
    /// # Errors
    /// The error of the resolver or of the socket; [`io::ErrorKind::NotFound`] if a name does not resolve.
    pub async fn connect(address: &Address, source: Option<IpAddr>) -> io::Result<Self> {
        match address {
            Address::Socket(address) => Self::connect_to(*address, source).await,
            Address::Name { host, port } => {
                connect_by_name(host, *port, async |address| Self::connect_to(address, source).await).await
            }
            Address::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    async fn connect_to(address: SocketAddr, source: Option<IpAddr>) -> io::Result<Self> {
        let any: IpAddr = match address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let source = source.unwrap_or(any);
        if source.is_ipv4() != address.is_ipv4() {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        let socket = UdpSocket::bind((source, 0)).await?;
        socket.connect(address).await?;
        Ok(Self(socket))
    }

    /// Whether what this connected socket sends arrives at the listener `own` of this process.
    #[must_use]
    pub fn leads_to(&self, own: SocketAddr) -> bool {
        // A machine sends from an address to itself.
        let source = || self.0.local_addr().ok().map(|from| from.ip());
        self.0.peer_addr().is_ok_and(|to| accepts(own, to, &source))
    }

    /// Receives one datagram, and the address of its sender.
    pub fn poll_receive_from(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        let mut buffer = ReadBuf::new(buffer);
        let from = ready!(self.0.poll_recv_from(cx, &mut buffer))?;
        Poll::Ready(Ok((buffer.filled().len(), from)))
    }

    /// Receives one datagram of a connected socket.
    pub fn poll_receive(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        ready!(self.0.poll_recv(cx, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    /// Sends one datagram to an address, if the send queue has room.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if it has none; otherwise the errors of sendto(2).
    pub fn send_to(&self, datagram: &[u8], to: SocketAddr) -> io::Result<()> {
        // Not through tokio, which knows only after a turn of its poller that a new socket is writable.
        Ok(sendto(&self.0, datagram, SendFlags::DONTWAIT, &to).map(drop)?)
    }

    /// As [`send_to`](Self::send_to), to the address of a connected socket.
    ///
    /// # Errors
    /// As [`send_to`](Self::send_to); [`io::ErrorKind::ConnectionRefused`] if the peer's machine has answered that the
    /// port is closed.
    pub fn send(&self, datagram: &[u8]) -> io::Result<()> {
        Ok(send(&self.0, datagram, SendFlags::DONTWAIT).map(drop)?)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[test]
    fn datagrams_go_both_ways() {
        let runtime = crate::Runtime::new().expect("a runtime");
        runtime.run(async {
            let bound = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
            bound.set_nonblocking(true).expect("an option");
            let address = bound.local_addr().expect("bound");
            let server = Datagrams::register(bound).expect("registered");
            let client = Datagrams::connect(&Address::Socket(address), None).await.expect("a socket");
            client.send(b"ask").expect("sent");
            let mut buffer = [0; 16];
            let (count, from) =
                poll_fn(|cx| server.poll_receive_from(cx, &mut buffer)).await.expect("received");
            assert_eq!(&buffer[..count], b"ask");
            server.send_to(b"answer", from).expect("sent");
            let count = poll_fn(|cx| client.poll_receive(cx, &mut buffer)).await.expect("received");
            assert_eq!(&buffer[..count], b"answer");
            drop(server);
            client.send(b"ask").expect("sent");
            let refused = poll_fn(|cx| client.poll_receive(cx, &mut buffer)).await;
            assert_eq!(refused.expect_err("closed").kind(), io::ErrorKind::ConnectionRefused);
            let name = Address::Name { host: "no.such.name.invalid".to_owned(), port: 53 };
            let unknown = Datagrams::connect(&name, None).await.expect_err("unknown");
            assert_eq!(unknown.kind(), io::ErrorKind::NotFound);
        });
    }
}
