//! Listening sockets, and connections accepted from them.

use crate::failure::Failure;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{self, Errno};
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, accept_with, bind, connect, getsockname, ipproto, listen,
    socket_with, sockopt,
};
use std::net::SocketAddr;

/// Length of the listen queue; the kernel reduces it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Creates a socket that listens on `address`. Returns also the bound address, which differs if the port was
/// 0.
///
/// With `shared`, other sockets may listen there too (`SO_REUSEPORT`), and the kernel spreads connections
/// over them.
pub(crate) fn listen_on(address: SocketAddr, shared: bool) -> Result<(OwnedFd, SocketAddr), Failure> {
    let open = || -> io::Result<(OwnedFd, SocketAddr)> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        if shared {
            sockopt::set_socket_reuseport(&socket, true)?;
        }
        // Accepted sockets inherit this, which saves a call for each.
        sockopt::set_tcp_nodelay(&socket, true)?;
        bind(&socket, &address)?;
        listen(&socket, BACKLOG)?;
        let bound = SocketAddr::try_from(getsockname(&socket)?)?;
        Ok((socket, bound))
    };
    open().map_err(|error| Failure::Listen(address, error.into()))
}

/// The result of an attempt to accept a connection.
#[derive(Debug)]
pub(crate) enum Accepted {
    /// A connection.
    Connection(OwnedFd),
    /// No connection is waiting.
    None,
    /// A connection is waiting, but this process may not open more descriptors.
    NoRoom,
}

/// Accepts a connection, if one is waiting.
pub(crate) fn accept(listener: impl AsFd) -> Result<Accepted, Failure> {
    loop {
        return match accept_with(&listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(socket) => Ok(Accepted::Connection(socket)),
            Err(Errno::AGAIN) => Ok(Accepted::None),
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => Ok(Accepted::NoRoom),
            // The client disconnected before the accept, or the network reported an error of its own
            // (accept(2)).
            Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO | Errno::PERM) => continue,
            Err(error) => Err(Failure::System("accept a connection", error.into())),
        };
    }
}

/// Turns the event for waiting connections of a listening socket, whose key is `mark`, on or off.
pub(crate) fn watch_for_accept(
    epoll: impl AsFd,
    listener: impl AsFd,
    mark: u64,
    on: bool,
) -> Result<(), Failure> {
    let flags = if on { EventFlags::IN } else { EventFlags::empty() };
    epoll::modify(epoll, listener, EventData::new_u64(mark), flags).map_err(Failure::system("watch a file"))
}

/// Starts to connect, with Nagle's algorithm off.
pub(crate) fn connect_to(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    #[test]
    fn accepted_sockets_send_at_once() {
        let (listener, address) = listen_on(SocketAddr::from(([127, 0, 0, 1], 0)), false).unwrap();
        assert!(matches!(accept(&listener).unwrap(), Accepted::None));
        let _client = TcpStream::connect(address).unwrap();
        let Accepted::Connection(socket) = accept(&listener).unwrap() else { panic!("nothing accepted") };
        assert!(sockopt::tcp_nodelay(&socket).unwrap());
    }

    #[test]
    fn a_taken_address_is_named() {
        let (_first, address) = listen_on(SocketAddr::from(([127, 0, 0, 1], 0)), false).unwrap();
        let failure = listen_on(address, false).unwrap_err().to_string();
        assert!(failure.contains(&address.to_string()) && failure.contains("another server"), "{failure}");
        assert!(listen_on(address, true).is_err(), "a port is shared only if all who listen want it");
    }
}
