//! A network that delays or drops all bytes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// The delay of a network that drops everything: connections open, and nothing else happens.
pub const HOLE: u64 = u64::MAX;

/// A network in front of an origin. It forwards each piece after a delay, or never.
pub struct Relay {
    address: SocketAddr,
    /// The delay of each piece in milliseconds, or [`HOLE`].
    delay: Arc<AtomicU64>,
}

impl Relay {
    /// Starts a network in front of this address.
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

    /// Returns the address on which the network listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the delay of each piece in milliseconds; [`HOLE`] drops it.
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
