//! Server-sent events (the HTML standard, section 9.2) over HTTP/1.1. Each event counts as one response.

use super::connect::connect;
use super::{Answer, Shared, digested};
use crate::clock::now;
use crate::digest::digest;
use crate::expect::Fault;
use crate::parts::Parts;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use std::cell::Cell;
use tokio::task::spawn_local;

/// One stream of events.
#[derive(Default)]
pub(super) struct Feed {
    body: Option<Incoming>,
    events: Events,
}

impl Feed {
    /// Waits for the next event. Opens the stream if it is not open.
    pub(super) async fn next(
        &mut self,
        shared: &Shared,
        parts: &Parts,
        sent: &Cell<u64>,
    ) -> Result<Answer, Fault> {
        if self.body.is_none() {
            let io = TokioIo::new(connect(shared).await?);
            let (mut sender, connection) = handshake(io).await.map_err(|_| Fault::Connect)?;
            spawn_local(async move { connection.await.ok() });
            let mut request =
                Request::builder().method(parts.method.as_str()).uri(&parts.path).header("host", &parts.host);
            if !parts.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("accept")) {
                request = request.header("accept", "text/event-stream");
            }
            for (name, value) in &parts.headers {
                request = request.header(name, value);
            }
            let body = Full::new(Bytes::from(parts.body.clone().unwrap_or_default()));
            let request = request.body(body).map_err(|_| Fault::Write)?;
            sent.set(now());
            let response = sender.send_request(request).await.map_err(|_| Fault::Read)?;
            if response.status() != 200 {
                return Err(Fault::Status);
            }
            self.body = Some(response.into_body());
        }
        if sent.get() == 0 {
            sent.set(now());
        }
        let body = self.body.as_mut().ok_or(Fault::Read)?;
        loop {
            if let Some(data) = self.events.take() {
                return Ok(Answer::good(data.len(), if digested(&shared.plan) { digest(&data) } else { 0 }));
            }
            match body.frame().await {
                Some(Ok(frame)) => {
                    if let Some(bytes) = frame.data_ref() {
                        self.events.push(bytes)?;
                    }
                }
                Some(Err(_)) | None => return Err(Fault::Read),
            }
        }
    }

    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}

/// The longest event, in bytes.
const EVENT_MAX_BYTES: usize = 16 << 20;

/// Divides a stream of bytes into events.
#[derive(Default)]
struct Events {
    /// Complete events that were not taken yet, the first one first.
    ready: std::collections::VecDeque<Vec<u8>>,
    /// The data lines of the event that is not complete.
    data: Vec<u8>,
    has_data: bool,
    line: Vec<u8>,
    after_cr: bool,
}

impl Events {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        for byte in bytes {
            // A line ends with CR, LF, or CR LF.
            let second_half = std::mem::replace(&mut self.after_cr, *byte == b'\r') && *byte == b'\n';
            match byte {
                _ if second_half => {}
                b'\r' | b'\n' => self.end_line(),
                byte => self.line.push(*byte),
            }
            if self.line.len() + self.data.len() > EVENT_MAX_BYTES {
                return Err(Fault::Protocol);
            }
        }
        Ok(())
    }

    fn end_line(&mut self) {
        if self.line.is_empty() {
            // An event without data is not dispatched.
            let data = std::mem::take(&mut self.data);
            if std::mem::take(&mut self.has_data) {
                self.ready.push_back(data);
            }
        } else if self.line == b"data" {
            self.has_data = true;
        } else if let Some(data) = self.line.strip_prefix(b"data:") {
            self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
            self.has_data = true;
        }
        self.line.clear();
    }

    fn take(&mut self) -> Option<Vec<u8>> {
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_divided_however_their_bytes_arrive() {
        let text = b": comment\n\nid: 1\ndata: one\n\ndata: two\r\ndata:more\r\n\r\nevent: x\n\ndatabase\n\ndata\r\rdata: cut";
        for size in [1, 2, 7, text.len()] {
            let mut events = Events::default();
            for part in text.chunks(size) {
                events.push(part).unwrap();
            }
            let all: Vec<Vec<u8>> = std::iter::from_fn(|| events.take()).collect();
            assert_eq!(all, [b"one".to_vec(), b"twomore".to_vec(), b"".to_vec()], "{size}");
        }
    }
}
