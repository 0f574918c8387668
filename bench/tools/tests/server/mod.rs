//! A small HTTP/1 server that counts requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// The server's counters.
#[derive(Default)]
pub struct Seen {
    connections: AtomicU64,
    requests: AtomicU64,
    /// The last request's head, and its body.
    last: Mutex<(String, Vec<u8>)>,
    stopped: AtomicBool,
}

/// A server that stops when dropped.
pub struct Server {
    address: SocketAddr,
    seen: Arc<Seen>,
    listening: Option<JoinHandle<()>>,
}

pub const BODY: &str = "0123456789";

impl Server {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, seen) = (listener.local_addr().unwrap(), Arc::<Seen>::default());
        let shared = seen.clone();
        let listening = thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let (stream, shared) = (stream.unwrap(), shared.clone());
                shared.connections.fetch_add(1, Ordering::SeqCst);
                // A tool that disconnects during a request is not a failure of the server.
                thread::spawn(move || _ = serve(&stream, &shared));
            }
        });
        Self { address, seen, listening: Some(listening) }
    }

    /// Returns the URL of a path: `/` answers 200, `/404` answers 404, and so on.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn connections(&self) -> u64 {
        self.seen.connections.load(Ordering::SeqCst)
    }

    pub fn requests(&self) -> u64 {
        self.seen.requests.load(Ordering::SeqCst)
    }

    pub fn last(&self) -> (String, Vec<u8>) {
        self.seen.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.seen.stopped.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        // The port is free only after the join.
        let _ = self.listening.take().map(JoinHandle::join);
    }
}

fn serve(stream: &TcpStream, seen: &Seen) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut input = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if input.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        let field = |name: &str| {
            head.lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(field, _)| field.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.trim().to_ascii_lowercase())
        };
        let length = field("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        input.read_exact(&mut body)?;
        let mut words = head.split([' ', '\r']);
        let (method, path, version) = (words.next(), words.next().unwrap_or_default(), words.next());
        let status = path.trim_start_matches('/').parse::<u16>().unwrap_or(200);
        let option = field("connection").unwrap_or_default();
        let keep = if version == Some("HTTP/1.0") { option == "keep-alive" } else { option != "close" };
        let connection = if keep { "keep-alive" } else { "close" };
        let head_only = method == Some("HEAD");
        seen.requests.fetch_add(1, Ordering::SeqCst);
        *seen.last.lock().unwrap_or_else(PoisonError::into_inner) = (head, body);
        let text = if head_only { "" } else { BODY };
        let length = BODY.len();
        // A single write: a second part would wait for the client's acknowledgement.
        let answer = format!(
            "HTTP/1.1 {status} Answer\r\nContent-Length: {length}\r\nConnection: {connection}\r\n\r\n{text}"
        );
        let mut output = stream;
        output.write_all(answer.as_bytes())?;
        if !keep {
            return stream.shutdown(Shutdown::Both);
        }
    }
}
