//! A minimal origin that answers with its name, echoes bodies, and shows what it received.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// An origin that stops at the end of the test.
pub struct Origin {
    pub port: u16,
    connections: Arc<AtomicUsize>,
}

impl Origin {
    /// Starts an origin that answers unknown paths with `name`.
    pub fn start(name: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || serve(stream, name));
            }
        });
        Self { port, connections }
    }

    /// Returns the connections accepted so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Serves one connection until it ends or the peer violates the protocol.
fn serve(stream: TcpStream, name: &str) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut writer = stream.try_clone().ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let head = head(&mut reader)?;
        let body = body(&mut reader, &head)?;
        let target = head.split(' ').nth(1).unwrap_or_default();
        let answer = match target.split('?').next().unwrap_or_default() {
            "/seen" => head.clone().into_bytes(),
            "/echo" => body,
            _ => name.as_bytes().to_vec(),
        };
        let mut message = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n",
            answer.len()
        )
        .into_bytes();
        message.extend_from_slice(&answer);
        writer.write_all(&message).ok()?;
    }
}

/// Reads the lines up to the empty one.
pub fn head(reader: &mut impl BufRead) -> Option<String> {
    let mut head = String::new();
    loop {
        let before = head.len();
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
        if head[before..].trim().is_empty() {
            return Some(head);
        }
    }
}

/// Reads the body that a head announces, by length or chunked.
pub fn body(reader: &mut impl BufRead, head: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    if field(head, "transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let size = usize::from_str_radix(line.trim(), 16).ok()?;
            let mut chunk = vec![0; size + 2];
            reader.read_exact(&mut chunk).ok()?;
            bytes.extend_from_slice(&chunk[..size]);
            if size == 0 {
                return Some(bytes);
            }
        }
    }
    let length = field(head, "content-length").map_or(Ok(0), |value| value.parse()).ok()?;
    bytes.resize(length, 0);
    reader.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

/// Returns the value of a header field.
pub fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}
