//! An origin that follows a script.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::gateway::PATIENCE;

/// An origin: runs the script on its own thread for each connection, with the connection's number from 0.
pub struct Origin {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Origin {
    pub fn new(script: impl Fn(Connection, usize) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (connections, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (count, all, script) = (connections.clone(), seen.clone(), Arc::new(script));
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                let number = count.fetch_add(1, Ordering::Relaxed);
                let connection = Connection { stream, seen: all.clone() };
                let script = script.clone();
                std::thread::spawn(move || script(connection, number));
            }
        });
        Self { address, connections, seen }
    }

    /// Returns an origin that answers every request with `ok`. Bodies may be up to 64 KiB.
    pub fn ok() -> Self {
        Self::new(|mut connection, _| {
            while connection.request() {
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            }
        })
    }

    pub fn to(&self) -> String {
        self.address.to_string()
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Returns every byte received, over all connections.
    pub fn seen(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().expect("the bytes")).into_owned()
    }
}

pub struct Connection {
    pub stream: TcpStream,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Connection {
    /// Reads once. Returns the number of bytes; 0 at the end of the stream, however it ended.
    pub fn read(&mut self, buffer: &mut [u8]) -> usize {
        match self.stream.read(buffer) {
            Ok(count) => {
                self.seen.lock().expect("the bytes").extend_from_slice(&buffer[..count]);
                count
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("the origin received nothing"),
            Err(_) => 0,
        }
    }

    /// Reads one head and its body of declared length. Returns whether there was one.
    pub fn request(&mut self) -> bool {
        let (mut bytes, mut buffer) = (Vec::new(), [0; 65536]);
        loop {
            let count = self.read(&mut buffer);
            if count == 0 {
                return false;
            }
            bytes.extend_from_slice(&buffer[..count]);
            let Some(head) = bytes.windows(4).position(|part| part == b"\r\n\r\n") else { continue };
            let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
            let length = text.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
            let length = length.map_or(0, |length| length.parse::<usize>().expect("a length"));
            if bytes.len() >= head + 4 + length {
                return true;
            }
        }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // The gateway may be gone; the test itself checks that.
        let _ = self.stream.write_all(bytes.as_ref());
    }

    /// Closes with a reset.
    pub fn reset(self) {
        socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).expect("linger");
    }

    /// Waits until the gateway has closed its end.
    pub fn wait_for_end(&mut self) {
        while self.read(&mut [0; 65536]) > 0 {}
    }
}
