//! A client with one keep-alive connection.

use crate::origin::{body, head};
use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;
use tollgate_lab_system::credentials::header_lines;

pub struct Client(BufReader<TcpStream>);

/// Returns the header lines of a known client.
fn credentials() -> String {
    header_lines().into_iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect()
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

impl Client {
    pub fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
        stream.set_nodelay(true).expect("set");
        Self(BufReader::new(stream))
    }

    pub fn get(&mut self, host: &str, path: &str) -> Answer {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{}\r\n", credentials()))
    }

    pub fn post(&mut self, host: &str, path: &str, body: &str) -> Answer {
        let length = body.len();
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\n{}Content-Length: {length}\r\n\r\n{body}",
            credentials()
        ))
    }

    fn send(&mut self, request: &str) -> Answer {
        self.0.get_mut().write_all(request.as_bytes()).expect("written");
        let head = head(&mut self.0)
            .unwrap_or_else(|| panic!("the connection ended instead of an answer to {request}"));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        let body = body(&mut self.0, &head).expect("a body");
        Answer { status, body: String::from_utf8(body).expect("text") }
    }
}
