//! Addresses that no other test uses, and addresses that refuse or ignore connections.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

/// Returns an unused address on a loopback IP of its own (all of 127.0.0.0/8 is local on Linux). Gateways
/// bind with `SO_REUSEPORT`; because of the separate IPs, tests that run in parallel never share a port by
/// accident.
///
/// # Panics
/// Panics if the machine has no IPv4 loopback.
#[must_use]
pub fn free_address() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let byte = |v: u32| u8::try_from(v % 250 + 1).expect("at most 250");
    let ip = Ipv4Addr::new(127, byte(std::process::id()), byte(n / 250 + 10), byte(n));
    let listener = TcpListener::bind((ip, 0)).expect("loopback");
    listener.local_addr().expect("bound")
}

/// Returns an unused port for a server that listens on 127.0.0.1 or on all addresses. The port is outside the
/// ephemeral range, so that no client connection of another test can occupy it before the server binds it.
///
/// # Panics
/// Panics if the machine has none.
#[must_use]
pub fn free_port() -> u16 {
    tollgate_lab_meter::ports::free_ports(1).expect("a port")[0]
}

/// Returns an address that refuses connections.
#[must_use]
pub fn refused_address() -> SocketAddr {
    free_address()
}

/// Returns the address of a listener whose backlog is full, so that a further connect gets no answer. The
/// caller keeps the returned sockets open for as long as the backlog must stay full.
///
/// # Panics
/// Panics if sockets cannot be made.
#[must_use]
pub fn full_backlog() -> (SocketAddr, Vec<Socket>) {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("socket");
    listener.bind(&free_address().into()).expect("bind");
    listener.listen(0).expect("listen");
    let address = listener.local_addr().expect("bound").as_socket().expect("ipv4");
    let mut kept = vec![listener];
    for _ in 0..8 {
        match TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
            Ok(stream) => kept.push(stream.into()),
            Err(_) => break,
        }
    }
    (address, kept)
}
