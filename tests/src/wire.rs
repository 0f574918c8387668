//! One end of an HTTP/1 connection. It sends bytes and parses messages strictly by RFC 9112.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::DEADLINE;
use crate::message::{Framing, Headers, Request, Response};

/// How many received bytes a connection records: more than any test that looks at them needs.
const RECORD_CAP: usize = 4 << 20;

/// Why a message could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The peer ended the connection before the first byte of a message.
    Closed,
    /// The peer ended or reset the connection within a message.
    Truncated,
    /// The peer broke the grammar.
    Malformed(String),
    /// Nothing arrived within the deadline.
    TimedOut,
}

/// A connection with the received bytes that no message has used yet.
#[derive(Debug)]
pub struct Wire {
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
    record: Option<Arc<Mutex<Vec<u8>>>>,
    deadline: Duration,
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&b| char::from(b)).collect()
}

fn malformed<T>(what: impl Into<String>) -> Result<T, ReadError> {
    Err(ReadError::Malformed(what.into()))
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

impl Wire {
    /// Takes over a connected stream. All received bytes are also appended to `record`, up to 4 MiB.
    ///
    /// # Panics
    /// Panics if the socket's options cannot be set.
    #[must_use]
    pub fn new(stream: TcpStream, record: Option<Arc<Mutex<Vec<u8>>>>) -> Self {
        stream.set_nodelay(true).expect("nodelay");
        stream.set_write_timeout(Some(DEADLINE)).expect("write timeout");
        Self { stream: Some(stream), buffer: Vec::new(), record, deadline: DEADLINE }
    }

    /// Returns the socket; `None` after a reset.
    #[must_use]
    pub fn stream(&self) -> Option<&TcpStream> {
        self.stream.as_ref()
    }

    /// Sets how long a read may take.
    pub fn set_deadline(&mut self, deadline: Duration) {
        self.deadline = deadline;
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// Returns the socket's error, and `BrokenPipe` after a reset.
    pub fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match &mut self.stream {
            Some(stream) => stream.write_all(bytes),
            None => Err(ErrorKind::BrokenPipe.into()),
        }
    }

    /// Waits for bytes and receives at least one. Returns `false` at the end of the stream.
    ///
    /// # Errors
    /// [`ReadError::Truncated`] after a reset, [`ReadError::TimedOut`].
    ///
    /// # Panics
    /// Panics if the socket's options cannot be set.
    pub fn fill(&mut self) -> Result<bool, ReadError> {
        let start = Instant::now();
        let mut chunk = [0; 65536];
        let Some(stream) = &mut self.stream else { return Err(ReadError::Truncated) };
        loop {
            let left = self.deadline.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Err(ReadError::TimedOut);
            }
            stream.set_read_timeout(Some(left)).expect("read timeout");
            match stream.read(&mut chunk) {
                Ok(0) => return Ok(false),
                Ok(n) => {
                    if let Some(record) = &self.record {
                        let mut record = record.lock().expect("record");
                        let room = RECORD_CAP.saturating_sub(record.len());
                        record.extend_from_slice(&chunk[..n.min(room)]);
                    }
                    self.buffer.extend_from_slice(&chunk[..n]);
                    return Ok(true);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Err(ReadError::TimedOut);
                }
                Err(_) => return Err(ReadError::Truncated),
            }
        }
    }

    /// Returns the received bytes that no message has used yet.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        &self.buffer
    }

    /// Takes the received bytes that no message has used yet.
    pub fn take_pending(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Waits for the first byte of a message. Returns `false` if the peer ends the connection instead.
    ///
    /// # Errors
    /// As [`Wire::fill`].
    pub fn wait_data(&mut self) -> Result<bool, ReadError> {
        if self.buffer.is_empty() { self.fill() } else { Ok(true) }
    }

    /// Takes exactly `n` bytes.
    ///
    /// # Errors
    /// As [`Wire::fill`], and [`ReadError::Truncated`] at an early end.
    pub fn take(&mut self, n: usize) -> Result<Vec<u8>, ReadError> {
        while self.buffer.len() < n {
            if !self.fill()? {
                return Err(ReadError::Truncated);
            }
        }
        let rest = self.buffer.split_off(n);
        Ok(std::mem::replace(&mut self.buffer, rest))
    }

    /// Reads and drops exactly `n` bytes, in constant memory.
    ///
    /// # Errors
    /// As [`Wire::take`].
    pub fn discard(&mut self, mut n: u64) -> Result<(), ReadError> {
        while n > 0 {
            if self.buffer.is_empty() && !self.fill()? {
                return Err(ReadError::Truncated);
            }
            let now = usize::try_from(n).unwrap_or(usize::MAX).min(self.buffer.len());
            self.buffer.drain(..now);
            n -= now as u64;
        }
        Ok(())
    }

    /// Takes a line that ends in CR LF, without these two bytes. A bare CR or LF within it is malformed.
    fn line(&mut self) -> Result<Vec<u8>, ReadError> {
        let mut seen = 0;
        loop {
            if let Some(at) = self.buffer[seen..].iter().position(|&b| b == b'\n') {
                let mut line = self.take(seen + at + 1)?;
                line.pop();
                if line.pop() != Some(b'\r') {
                    return malformed("bare LF");
                }
                if line.contains(&b'\r') {
                    return malformed("bare CR");
                }
                return Ok(line);
            }
            seen = self.buffer.len();
            if !self.fill()? {
                return Err(ReadError::Truncated);
            }
        }
    }

    fn fields(&mut self) -> Result<Headers, ReadError> {
        let mut headers = Headers::default();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(headers);
            }
            let line = latin1(&line);
            let Some((name, value)) = line.split_once(':') else {
                return malformed(format!("field without colon: {line:?}"));
            };
            if !is_token(name) {
                return malformed(format!("field name {name:?}"));
            }
            let value = value.trim_matches([' ', '\t']);
            if value.chars().any(|c| (c.is_ascii_control() && c != '\t') || c == '\0') {
                return malformed(format!("control character in {name}: {value:?}"));
            }
            headers.0.push((name.to_owned(), value.to_owned()));
        }
    }

    fn framing(headers: &Headers) -> Result<Option<Framing>, ReadError> {
        let codings = headers.all("Transfer-Encoding");
        let lengths = headers.all("Content-Length");
        match (codings.as_slice(), lengths.as_slice()) {
            ([], []) => Ok(None),
            ([coding], []) if coding.eq_ignore_ascii_case("chunked") => Ok(Some(Framing::Chunked)),
            ([], [length]) if !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit()) => length
                .parse()
                .map(|n| Some(Framing::Length(n)))
                .map_err(|_| ReadError::Malformed("length overflows".into())),
            _ => malformed(format!("framing by {codings:?} and {lengths:?}")),
        }
    }

    /// Reads a request's head.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn request_head(&mut self) -> Result<Request, ReadError> {
        if !self.wait_data()? {
            return Err(ReadError::Closed);
        }
        let line = latin1(&self.line()?);
        let parts: Vec<&str> = line.split(' ').collect();
        let [method, target, version @ ("HTTP/1.1" | "HTTP/1.0")] = parts[..] else {
            return malformed(format!("request line {line:?}"));
        };
        if !is_token(method) || target.is_empty() || target.chars().any(|c| !c.is_ascii_graphic()) {
            return malformed(format!("request line {line:?}"));
        }
        let headers = self.fields()?;
        let framing = Self::framing(&headers)?.unwrap_or(Framing::None);
        if headers.all("Host").len() != 1 && version == "HTTP/1.1" {
            return malformed(format!("Host fields: {:?}", headers.all("Host")));
        }
        if version == "HTTP/1.0" && framing == Framing::Chunked {
            return malformed("chunked in HTTP/1.0");
        }
        Ok(Request {
            method: method.to_owned(),
            target: target.to_owned(),
            version: version.to_owned(),
            headers,
            framing,
            ..Request::default()
        })
    }

    /// Reads a response's head. `method` is the method of the request.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn response_head(&mut self, method: &str) -> Result<Response, ReadError> {
        if !self.wait_data()? {
            return Err(ReadError::Closed);
        }
        let line = latin1(&self.line()?);
        let mut parts = line.splitn(3, ' ');
        let (Some(version @ ("HTTP/1.1" | "HTTP/1.0")), Some(code), Some(phrase)) =
            (parts.next(), parts.next(), parts.next())
        else {
            return malformed(format!("status line {line:?}"));
        };
        let status = match code.parse::<u16>() {
            Ok(status) if code.len() == 3 && (100..600).contains(&status) => status,
            _ => return malformed(format!("status line {line:?}")),
        };
        let headers = self.fields()?;
        let framing = Self::framing(&headers)?;
        let bodiless = method == "HEAD" || status < 200 || status == 204 || status == 304;
        if (status < 200 || status == 204) && framing.is_some() {
            return malformed(format!("{status} with {framing:?}"));
        }
        let framing = if bodiless { Framing::None } else { framing.unwrap_or(Framing::Close) };
        Ok(Response {
            version: version.to_owned(),
            status,
            phrase: phrase.to_owned(),
            headers,
            framing,
            ..Response::default()
        })
    }

    /// Reads the next chunk: `Ok` holds its data; `Err` holds the trailer fields after the last chunk.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn chunk(&mut self) -> Result<Result<Vec<u8>, Headers>, ReadError> {
        let line = latin1(&self.line()?);
        let size = line.split(';').next().unwrap_or_default();
        let strict = !size.is_empty() && size.bytes().all(|b| b.is_ascii_hexdigit());
        let Some(size) = strict.then(|| usize::from_str_radix(size, 16).ok()).flatten() else {
            return malformed(format!("chunk size {line:?}"));
        };
        if size == 0 {
            return Ok(Err(self.fields()?));
        }
        let data = self.take(size)?;
        if self.take(2)? != b"\r\n" {
            return malformed("chunk data not followed by CR LF");
        }
        Ok(Ok(data))
    }

    /// Reads a body and hands every piece to `piece`. Returns the trailer fields.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn body(&mut self, framing: Framing, mut piece: impl FnMut(&[u8])) -> Result<Headers, ReadError> {
        match framing {
            Framing::None => {}
            Framing::Length(length) => {
                let mut left = length;
                while left > 0 {
                    if self.buffer.is_empty() && !self.fill()? {
                        return Err(ReadError::Truncated);
                    }
                    let now = usize::try_from(left).unwrap_or(usize::MAX).min(self.buffer.len());
                    piece(&self.buffer[..now]);
                    self.buffer.drain(..now);
                    left -= now as u64;
                }
            }
            Framing::Chunked => loop {
                match self.chunk()? {
                    Ok(data) => piece(&data),
                    Err(trailer) => return Ok(trailer),
                }
            },
            Framing::Close => loop {
                piece(&self.buffer);
                self.buffer.clear();
                if !self.fill()? {
                    break;
                }
            },
        }
        Ok(Headers::default())
    }

    /// Reads until the peer ends or resets the connection. Returns `false` if it does not within the
    /// deadline.
    pub fn wait_close(&mut self) -> bool {
        let start = Instant::now();
        loop {
            if start.elapsed() >= self.deadline {
                return false;
            }
            match self.fill() {
                Ok(true) => {}
                Ok(false) | Err(ReadError::Truncated) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Ends the connection with a reset, provided that no clone of the socket is left.
    pub fn reset(&mut self) {
        if let Some(stream) = self.stream.take() {
            // An error means that the peer has already closed the connection.
            let _ = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
        }
    }
}
