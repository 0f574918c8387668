//! Listening sockets.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that wait to be accepted; the kernel cuts it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Opens one listening socket for each of `workers` workers on one address. With several, the kernel spreads new
/// connections over them (SO_REUSEPORT), and no worker wakes for another's.
///
/// # Errors
/// When the address is in use (by this gateway's own twin too: sharing its port would take half of its traffic
/// without a word) or not this machine's.
pub fn bind(address: SocketAddr, workers: usize) -> io::Result<Vec<TcpListener>> {
    let first = socket(address)?;
    // Without SO_REUSEPORT the kernel says whether anyone else listens here.
    first.bind(&address.into())?;
    if workers == 1 {
        return listen(first).map(|listener| vec![listener]);
    }
    // Port 0 has become a real one; the others must have the same.
    let address = first.local_addr()?.as_socket().unwrap_or(address);
    drop(first);
    let shared = || {
        let socket = socket(address)?;
        socket.set_reuse_port(true)?;
        socket.bind(&address.into())?;
        listen(socket)
    };
    (0..workers).map(|_| shared()).collect()
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    // Accepted sockets inherit it, which saves a system call a connection. A message is one write: Nagle's
    // algorithm could only delay its last segment.
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn listen(socket: Socket) -> io::Result<TcpListener> {
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        }
        Ok(())
    }
}
