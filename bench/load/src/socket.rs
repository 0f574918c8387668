//! Client sockets.

use rustix::event::epoll::EventFlags;
use rustix::fd::OwnedFd;
use rustix::io::{self, Errno};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, ipproto, socket_with, sockopt};
use std::net::{IpAddr, SocketAddr};

/// Epoll flags after which a read returns data, an end or an error.
pub(crate) const READABLE: EventFlags = EventFlags::from_bits_retain(
    EventFlags::IN.bits() | EventFlags::RDHUP.bits() | EventFlags::HUP.bits() | EventFlags::ERR.bits(),
);

/// Starts to connect. On loopback, the handshake is complete when this returns.
pub(crate) fn open(target: SocketAddr, source: Option<IpAddr>, no_delay: bool) -> io::Result<OwnedFd> {
    let family = if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    if no_delay {
        sockopt::set_tcp_nodelay(&socket, true)?;
    }
    if let Some(source) = source {
        bind(&socket, &SocketAddr::new(source, 0))?;
    }
    match connect(&socket, &target) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}
