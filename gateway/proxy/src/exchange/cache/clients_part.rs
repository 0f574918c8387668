//! The part of a response that a client asked for, cut out of the whole as it arrives.
//!
//! A client that leads a fetch may want a range, or no body if it has the current response. The gateway still fetches the
//! whole for the store. The [`tap`](super::tap) changes the head to the one of the part, and passes on the bytes that belong
//! to it, so the client waits for no others. Invariant: what the client gets has the length that its head announces.

use std::ops::Range;

use tollgate_cache::{StoredHead, is_of_content};
use tollgate_http::h1::{write_decimal, write_status_line};

use super::part::{Part, write_content_range};

/// The part of a response that a client gets while the whole is fetched.
#[derive(Debug)]
pub(super) struct ClientsPart {
    /// 206 or 304.
    pub status: u16,
    range: Range<u64>,
    /// The length of the whole.
    length: u64,
    /// Whether the whole has an `ETag`.
    has_etag: bool,
    /// How much of the whole has arrived.
    arrived: u64,
    /// How much of the part was passed on.
    pub sent: u64,
    /// Whether the end of the part was passed on, and the head before it.
    pub is_complete: bool,
}

impl ClientsPart {
    /// Returns the part of the response with this head that can be sent as it arrives. `None`: the part has to be made of the
    /// stored response.
    pub fn new(head: &StoredHead, length: u64, part: &Part) -> Option<Self> {
        let &Part { status, ref range, .. } = part;
        let (range, has_etag) = (range.clone(), head.etag().is_some());
        matches!(status, 206 | 304).then(|| Self {
            status,
            range,
            length,
            has_etag,
            arrived: 0,
            sent: 0,
            is_complete: false,
        })
    }

    /// Makes the head of the part of the head of the whole, a 200.
    pub fn change_head(&self, head: &mut Vec<u8>) {
        let is_dropped = |name: &[u8]| match self.status {
            // A 304 has no framing.
            304 => is_of_content(name, self.has_etag) || name.eq_ignore_ascii_case(b"transfer-encoding"),
            _ => [&b"content-length"[..], b"content-range"].iter().any(|own| own.eq_ignore_ascii_case(name)),
        };
        let mut changed = Vec::with_capacity(head.len() + 64);
        write_status_line(&mut changed, self.status);
        for line in head.split_inclusive(|byte| *byte == b'\n').skip(1).filter(|line| *line != b"\r\n") {
            let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
            if !is_dropped(name) {
                changed.extend_from_slice(line);
            }
        }
        if self.status == 206 {
            write_content_range(&mut changed, Some((self.range.start, self.range.end)), self.length);
            changed.extend_from_slice(b"Content-Length: ");
            write_decimal(&mut changed, self.range.end - self.range.start);
            changed.extend_from_slice(b"\r\n");
        }
        changed.extend_from_slice(b"\r\n");
        head.clear();
        head.append(&mut changed);
    }

    /// Takes the next data of the whole. Returns what of it belongs to the part.
    pub fn take<'d>(&mut self, data: &'d [u8]) -> &'d [u8] {
        let (from, to) = (self.arrived, self.arrived + data.len() as u64);
        self.arrived = to;
        let (start, end) = (self.range.start.clamp(from, to), self.range.end.clamp(from, to));
        let wanted = &data[(start - from) as usize..(end - from).max(start - from) as usize];
        self.sent += wanted.len() as u64;
        wanted
    }

    /// Whether all of the part has arrived.
    pub fn has_arrived(&self) -> bool {
        self.arrived >= self.range.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(status: u16, range: Range<u64>) -> ClientsPart {
        ClientsPart { status, range, length: 20, has_etag: true, arrived: 0, sent: 0, is_complete: false }
    }

    #[test]
    fn the_bytes_of_the_range_are_cut_out() {
        let whole: Vec<u8> = (0..20).collect();
        for (range, pieces) in
            [(0..5, 20), (3..9, 1), (3..9, 4), (8..16, 8), (19..20, 7), (0..20, 3), (0..0, 6)]
        {
            let mut part = part(206, range.clone());
            let mut got = Vec::new();
            for piece in whole.chunks(pieces) {
                let was_there = part.has_arrived();
                let wanted = part.take(piece);
                assert!(!was_there || wanted.is_empty(), "nothing follows the end");
                got.extend_from_slice(wanted);
            }
            assert_eq!(got, &whole[range.start as usize..range.end as usize], "{range:?} in {pieces}");
            assert!(part.has_arrived() && part.sent == got.len() as u64);
        }
    }

    #[test]
    fn the_head_of_a_part() {
        const WHOLE: &[u8] =
            b"HTTP/1.1 200 OK\r\nDate: x\r\nContent-Type: a/b\r\nContent-Length: 20\r\ncontent-range: y\r\n\
            Last-Modified: z\r\nConnection: close\r\n\r\n";
        const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nETag: x\r\n\r\n";
        for (status, range, changed) in [
            (
                206,
                2..5,
                "HTTP/1.1 206 Partial Content\r\nDate: x\r\nContent-Type: a/b\r\nLast-Modified: z\r\nConnection: close\r\n\
                 Content-Range: bytes 2-4/20\r\nContent-Length: 3\r\n\r\n",
            ),
            (304, 0..0, "HTTP/1.1 304 Not Modified\r\nDate: x\r\nConnection: close\r\n\r\n"),
        ] {
            let mut head = WHOLE.to_vec();
            part(status, range).change_head(&mut head);
            assert_eq!(String::from_utf8_lossy(&head), changed);
        }
        let mut head = CHUNKED.to_vec();
        part(304, 0..0).change_head(&mut head);
        assert_eq!(String::from_utf8_lossy(&head), "HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n");
    }
}
