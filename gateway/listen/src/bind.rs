//! Binds the listening sockets of workers. The program calls [`bind`] for new addresses, and
//! [`bind_shared_port`] for ports that this process or its predecessor already uses.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// Length of the accept queue. The kernel caps it at `net.core.somaxconn`.
pub const BACKLOG: i32 = 4096;

/// Opens one listening socket on the address for each of `workers` workers. The kernel spreads new
/// connections over them (SO_REUSEPORT), so a connection wakes only one worker. `[::]` also accepts IPv4,
/// whatever `net.ipv6.bindv6only` says. On a machine without IPv6 it falls back to `0.0.0.0`.
///
/// # Errors
/// If the address is in use or is not this machine's. A second instance of this gateway counts as in use too:
/// sharing the port would silently take half of the traffic.
pub fn bind(address: SocketAddr, workers: usize) -> io::Result<Vec<TcpListener>> {
    let sockets = reserve(address, workers)?;
    // Listen immediately: the check in `reserve`, made by a second gateway, only notices sockets that listen.
    sockets.iter().try_for_each(listen)?;
    Ok(sockets)
}

/// As [`bind`], but no client can connect before [`listen`] is called.
///
/// # Errors
/// As [`bind`].
pub fn reserve(address: SocketAddr, workers: usize) -> io::Result<Vec<TcpListener>> {
    bind_or_fall_back_to_ipv4(address, |address| {
        let alone = socket(address)?;
        // Without SO_REUSEPORT the kernel refuses the bind if another socket listens here.
        alone.bind(&address.into())?;
        // Port 0 is now a real port; all sockets must share it.
        let address = alone.local_addr()?.as_socket().unwrap_or(address);
        drop(alone);
        bind_reuse_port(address, workers)
    })
}

/// As [`bind`], for a port that this process or its predecessor already uses, at this address or at a wider
/// one. The kernel gives these sockets no connections before [`listen`] is called.
///
/// # Errors
/// If another user's process has the address, or the existing sockets were opened without SO_REUSEPORT.
pub fn bind_shared_port(address: SocketAddr, workers: usize) -> io::Result<Vec<TcpListener>> {
    bind_or_fall_back_to_ipv4(address, |address| bind_reuse_port(address, workers))
}

/// Makes the socket listen, so that it gets its share of new connections. Does nothing to a socket that
/// already listens.
///
/// # Errors
/// If another socket, without SO_REUSEPORT, now listens there.
pub fn listen(socket: &TcpListener) -> io::Result<()> {
    let socket = SockRef::from(socket);
    match socket.r#type()? {
        // It receives datagrams since it was bound.
        Type::DGRAM => Ok(()),
        _ => socket.listen(BACKLOG),
    }
}

/// Opens one socket for datagrams on the address for each of `workers` workers. The kernel spreads clients over them by
/// address and port (SO_REUSEPORT). The sockets have the type of TCP listeners, as all sockets of listeners have.
/// `is_shared`: this process or its predecessor already uses the port.
///
/// # Errors
/// As [`bind`].
pub fn bind_datagrams(address: SocketAddr, workers: usize, is_shared: bool) -> io::Result<Vec<TcpListener>> {
    bind_or_fall_back_to_ipv4(address, |address| {
        let socket = |is_shared: bool, address: SocketAddr| {
            let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
            if address.is_ipv6() {
                socket.set_only_v6(false)?;
            }
            socket.set_reuse_port(is_shared)?;
            socket.set_nonblocking(true)?;
            socket.bind(&address.into())?;
            io::Result::Ok(socket)
        };
        let mut address = address;
        if !is_shared {
            // Without SO_REUSEPORT the kernel refuses the bind if another socket has the port.
            let alone = socket(false, address)?;
            address = alone.local_addr()?.as_socket().unwrap_or(address);
        }
        (0..workers).map(|_| Ok(std::os::fd::OwnedFd::from(socket(true, address)?).into())).collect()
    })
}

fn bind_or_fall_back_to_ipv4(
    address: SocketAddr,
    bind: impl Fn(SocketAddr) -> io::Result<Vec<TcpListener>>,
) -> io::Result<Vec<TcpListener>> {
    bind(address).or_else(|error| match without_ipv6(address, &error) {
        Some(address) => bind(address),
        None => Err(error),
    })
}

/// The IPv4 equivalent of `[::]`, if binding failed because the machine has no IPv6.
fn without_ipv6(address: SocketAddr, error: &io::Error) -> Option<SocketAddr> {
    use rustix::io::Errno;
    let error = error.raw_os_error().map(Errno::from_raw_os_error);
    let missing = matches!(error, Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL));
    let everywhere = address.ip() == IpAddr::from(Ipv6Addr::UNSPECIFIED);
    (missing && everywhere).then(|| SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())))
}

/// Sets SO_REUSEPORT for a single worker too, because a successor process may have more.
fn bind_reuse_port(address: SocketAddr, workers: usize) -> io::Result<Vec<TcpListener>> {
    let shared = || {
        let socket = socket(address)?;
        socket.set_reuse_port(true)?;
        socket.bind(&address.into())?;
        Ok(socket.into())
    };
    (0..workers).map(|_| shared()).collect()
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    // Accepted sockets inherit it, which saves a system call for each connection. A message is one write, so
    // Nagle's algorithm could only delay its last segment.
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_takes_ipv4_too() -> io::Result<()> {
        let listeners = bind("[::]:0".parse().expect("an address"), 2)?;
        let port = listeners[0].local_addr()?.port();
        std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map(drop)
    }

    #[test]
    fn datagrams_reach_one_of_the_sockets() -> io::Result<()> {
        let sockets = bind_datagrams("[::]:0".parse().expect("an address"), 2, false)?;
        let address = sockets[0].local_addr()?;
        assert!(bind_datagrams(address, 1, false).is_err(), "a second gateway");
        assert_eq!(bind_datagrams(address, 1, true)?.len(), 1, "this process");
        sockets.iter().try_for_each(listen)?;
        let client = std::net::UdpSocket::bind("127.0.0.1:0")?;
        client.send_to(b"x", (Ipv4Addr::LOCALHOST, address.port()))?;
        let sockets = sockets.into_iter().map(|it| std::net::UdpSocket::from(std::os::fd::OwnedFd::from(it)));
        let sockets: Vec<_> = sockets.collect();
        let start = std::time::Instant::now();
        while !sockets.iter().any(|socket| socket.recv(&mut [0]).is_ok()) {
            assert!(start.elapsed() < std::time::Duration::from_secs(10), "nothing arrives");
        }
        Ok(())
    }

    #[test]
    fn without_ipv6_every_address_is_every_ipv4_address() {
        let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let missing = io::Error::from_raw_os_error(rustix::io::Errno::AFNOSUPPORT.raw_os_error());
        assert_eq!(without_ipv6(address("[::]:80"), &missing), Some(address("0.0.0.0:80")));
        assert_eq!(without_ipv6(address("[::1]:80"), &missing), None);
        assert_eq!(without_ipv6(address("0.0.0.0:80"), &missing), None);
        let used = io::Error::from_raw_os_error(rustix::io::Errno::ADDRINUSE.raw_os_error());
        assert_eq!(without_ipv6(address("[::]:80"), &used), None);
    }

    #[test]
    fn an_address_in_use_is_an_error() -> io::Result<()> {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        for workers in [1, 2] {
            let listeners = bind(any, workers)?;
            let address = listeners[0].local_addr()?;
            assert!(
                listeners.iter().all(|listener| listener.local_addr().is_ok_and(|other| other == address))
            );
            for twin in [1, 2] {
                let error = bind(address, twin).expect_err("a second gateway on the same port");
                assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
            }
            let beside = bind_shared_port(address, 1)?;
            assert_eq!(beside[0].local_addr()?, address, "a process may have more sockets of its own");
        }
        Ok(())
    }

    #[test]
    fn a_reserved_address_is_refused_to_clients_until_it_listens() -> io::Result<()> {
        let sockets = reserve(SocketAddr::from(([127, 0, 0, 1], 0)), 2)?;
        let address = sockets[0].local_addr()?;
        assert!(std::net::TcpStream::connect(address).is_err(), "nobody listens");
        sockets.iter().try_for_each(listen)?;
        assert!(reserve(address, 1).is_err(), "in use");
        std::net::TcpStream::connect(address).map(drop)
    }

    #[test]
    fn a_bound_socket_gets_no_connection_before_it_listens() -> io::Result<()> {
        let first = bind(SocketAddr::from(([127, 0, 0, 1], 0)), 1)?.remove(0);
        first.set_nonblocking(false)?;
        let address = first.local_addr()?;
        let beside = bind_shared_port(address, 8)?;
        let ask = || std::net::TcpStream::connect(address);
        let clients: Vec<_> = (0..32).map(|_| ask()).collect::<Result<_, _>>()?;
        for _ in &clients {
            first.accept()?;
        }
        drop(first);
        assert!(ask().is_err(), "nobody listens");
        beside.iter().try_for_each(listen)?;
        ask().map(drop)
    }
}
