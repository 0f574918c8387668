//! A scriptable server for the generator's tests: one thread for each connection, one handler call for each
//! request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

/// A received request.
pub struct Asked {
    /// From 1, over all connections.
    pub number: u64,
    /// The lines of the head without their line ends.
    pub head: Vec<String>,
    pub body: Vec<u8>,
}

impl Asked {
    /// Returns a field's value.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.iter().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// The server's counters.
#[derive(Default)]
pub struct Counted {
    pub connections: AtomicU64,
    pub requests: AtomicU64,
}

/// Starts a server whose handler writes the answer. The connection closes when the handler returns `false`.
pub fn start<H>(handler: H) -> (SocketAddr, Arc<Counted>)
where
    H: Fn(&Asked, &mut TcpStream) -> bool + Send + Sync + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let counted = Arc::new(Counted::default());
    let (handler, counts) = (Arc::new(handler), Arc::clone(&counted));
    // The threads end with the test's process.
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            counts.connections.fetch_add(1, Relaxed);
            let (handler, counts) = (Arc::clone(&handler), Arc::clone(&counts));
            thread::spawn(move || serve(stream, &*handler, &counts));
        }
    });
    (address, counted)
}

fn serve(
    mut stream: TcpStream,
    handler: &dyn Fn(&Asked, &mut TcpStream) -> bool,
    counted: &Counted,
) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut input = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if input.read_line(&mut line).ok()? == 0 {
                return None;
            }
            match line.trim_end() {
                "" => break,
                text => head.push(text.to_owned()),
            }
        }
        let number = counted.requests.fetch_add(1, Relaxed) + 1;
        let mut asked = Asked { number, head, body: Vec::new() };
        let length = asked.field("content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
        asked.body = vec![0; length];
        input.read_exact(&mut asked.body).ok()?;
        if !handler(&asked, &mut stream) {
            return None;
        }
    }
}

/// Answers 200 with a body.
pub fn ok(stream: &mut TcpStream, body: &str) -> bool {
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).is_ok()
}
