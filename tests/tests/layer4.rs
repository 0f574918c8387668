//! Layer 4: connections that are relayed as bytes, TLS that passes through by its server name, and datagrams.

mod bounds;
mod control;
mod passthrough;
mod relay;
mod udp;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::Value;
use tollgate_tests::{DEADLINE, Gateway, eventually, free_address};

/// A server of any protocol. A script plays each of its connections.
struct Server {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
}

impl Server {
    fn play(script: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        let accepted = Arc::new(AtomicUsize::new(0));
        let (script, count) = (Arc::new(script), accepted.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (script, stream) = (script.clone(), stream.expect("a connection"));
                count.fetch_add(1, Ordering::SeqCst);
                stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
                thread::spawn(move || script(stream));
            }
        });
        Self { address, accepted }
    }

    /// Sends everything back, and then its own end.
    fn echo() -> Self {
        Self::play(|mut stream| {
            let mut buffer = [0; 16 * 1024];
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                if stream.write_all(&buffer[..count]).is_err() {
                    return;
                }
            }
            let _ = stream.shutdown(Shutdown::Write);
        })
    }

    /// Says a word to each client at once, then sends everything back.
    fn named(name: &'static str) -> Self {
        Self::play(move |mut stream| {
            let _ = stream.write_all(name.as_bytes());
            let mut buffer = [0; 1024];
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                if stream.write_all(&buffer[..count]).is_err() {
                    return;
                }
            }
        })
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

/// A gateway with a listener of layer 4 at an address of its own, beside one of HTTP.
struct Relay {
    gateway: Gateway,
    address: SocketAddr,
}

impl Relay {
    /// Starts one whose listener has these keys, such as `to: 127.0.0.1:80`. `more` has further top-level keys.
    fn start(keys: &str, more: &str) -> Self {
        let address = free_address();
        let gateway = Gateway::start(&config(address, keys, more));
        Self { gateway, address }
    }

    /// Starts a gateway that relays to a server.
    fn to(server: &Server) -> Self {
        Self::start(&format!("to: {:?}", server.address.to_string()), "")
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("the gateway accepts");
        stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
        stream
    }

    /// Waits until the log has this number of records, and returns the last one.
    fn record(&self, number: usize) -> Value {
        self.gateway.wait_records(number).pop().expect("a record")
    }

    fn sum(&self, name: &str, labels: &str) -> f64 {
        self.gateway.metrics().sum(name, labels).unwrap_or_default()
    }

    /// Waits until this many streams are open.
    fn await_active(&self, number: usize) {
        eventually(&format!("{number} open streams"), || {
            self.sum("tollgate_streams_active", "") == number as f64
        });
    }
}

fn config(address: SocketAddr, keys: &str, more: &str) -> String {
    let keys = if keys.is_empty() { String::new() } else { format!(", {keys}") };
    format!("listen: [$LISTEN, {{bind: \"{address}\", name: l4, protocol: tcp{keys}}}]\nroutes: []\n{more}\n")
}

/// Reads exactly the length of the text, and compares.
fn expect(stream: &mut TcpStream, text: &str) {
    let mut buffer = vec![0; text.len()];
    stream.read_exact(&mut buffer).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    assert_eq!(String::from_utf8_lossy(&buffer), text);
}

/// Reads to the end, or to the error.
fn rest(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).map(|_| all)
}

/// Resets the connection.
fn reset(stream: TcpStream) {
    socket2::SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO)).expect("an option");
}
