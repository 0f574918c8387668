//! The recorded heads of the last requests.

use crate::head::{Refusal, split};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A request as it arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// The number of its connection, from 1, in the order in which the origin accepted them.
    pub connection: u64,
    /// `HTTP/1.1` or `HTTP/1.0`.
    pub version: String,
    /// The method.
    pub method: String,
    /// The request target as sent.
    pub target: String,
    /// Name and value of each field in their order and spelling. Only the white space around values is
    /// removed. Bytes that are not UTF-8 appear as U+FFFD.
    pub headers: Vec<(String, String)>,
}

/// The last request heads.
#[derive(Debug)]
pub(crate) struct Recorder {
    most: usize,
    heads: Mutex<VecDeque<(u64, Vec<u8>)>>,
}

impl Recorder {
    /// Creates a recorder that keeps the last `most` heads.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, heads: Mutex::new(VecDeque::with_capacity(most)) }
    }

    /// Keeps a head and drops the oldest one if the recorder is full.
    pub(crate) fn keep(&self, connection: u64, head: &[u8]) {
        if self.most == 0 {
            return;
        }
        let mut heads = self.heads();
        let mut bytes =
            if heads.len() == self.most { heads.pop_front().unwrap_or_default().1 } else { Vec::new() };
        bytes.clear();
        bytes.extend_from_slice(head);
        heads.push_back((connection, bytes));
    }

    /// Drops all heads.
    pub(crate) fn clear(&self) {
        self.heads().clear();
    }

    /// Returns all heads, the oldest first. They are parsed only here, so that recording costs little.
    pub(crate) fn all(&self) -> Vec<Recorded> {
        let heads = self.heads().clone();
        heads.iter().filter_map(|(connection, head)| taken_apart(*connection, head).ok()).collect()
    }

    fn heads(&self) -> MutexGuard<'_, VecDeque<(u64, Vec<u8>)>> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn taken_apart(connection: u64, head: &[u8]) -> Result<Recorded, Refusal> {
    let (line, mut fields) = split(head)?;
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let mut headers = Vec::new();
    while let Some((name, value)) = fields.next()? {
        headers.push((text(name), text(value)));
    }
    Ok(Recorded {
        connection,
        version: if line.http10 { "HTTP/1.0" } else { "HTTP/1.1" }.to_owned(),
        method: text(line.method),
        target: text(line.target),
        headers,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_stay_as_they_were() {
        let recorder = Recorder::new(2);
        for (connection, path) in [(1, "/first"), (2, "/second-and-longer"), (1, "/third")] {
            let head = format!("GET {path} HTTP/1.0\r\nHOST:  a \r\nX: 1\r\nX: \u{e9}\r\n\r\n");
            recorder.keep(connection, head.as_bytes());
        }
        let all = recorder.all();
        let places: Vec<_> = all.iter().map(|it| (it.connection, it.target.as_str())).collect();
        assert_eq!(places, [(2, "/second-and-longer"), (1, "/third")]);
        assert_eq!((all[0].version.as_str(), all[0].method.as_str()), ("HTTP/1.0", "GET"));
        let headers = [("HOST", "a"), ("X", "1"), ("X", "\u{e9}")];
        assert_eq!(all[0].headers, headers.map(|(name, value)| (name.to_owned(), value.to_owned())));
        recorder.clear();
        assert!(recorder.all().is_empty());
        let none = Recorder::new(0);
        none.keep(1, b"GET / HTTP/1.0\r\n\r\n");
        assert!(none.all().is_empty());
    }
}
