//! A network that delays, or swallows all that is sent.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// What is swallowed comes no more: as a network that has lost its way, connections open and nothing else.
pub const HOLE: u64 = u64::MAX;

/// A network in front of an origin: what it is given goes on after a while, or never.
pub struct Relay {
    address: SocketAddr,
    /// Milliseconds that each piece waits, or [`HOLE`].
    delay: Arc<AtomicU64>,
}

impl Relay {
    /// In front of this address.
    pub fn to(origin: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let delay = Arc::new(AtomicU64::new(0));
        let shared = delay.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(origin) else { continue };
                let (back, answers) =
                    (client.try_clone().expect("a copy"), server.try_clone().expect("a copy"));
                let (there, here) = (shared.clone(), shared.clone());
                thread::spawn(move || carry(client, server, &there));
                thread::spawn(move || carry(answers, back, &here));
            }
        });
        Self { address, delay }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on each piece waits so many milliseconds, or is swallowed ([`HOLE`]).
    pub fn set(&self, delay: u64) {
        self.delay.store(delay, Ordering::SeqCst);
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, delay: &AtomicU64) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        match delay.load(Ordering::SeqCst) {
            HOLE => continue,
            milliseconds => thread::sleep(Duration::from_millis(milliseconds)),
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
}
