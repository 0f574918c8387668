//! The part of a response that a request asks for: its status, its field lines and its range.
//!
//! [`respond`](super::respond) and [`slices`](super::slices) answer with it, and [`admission`](super::admission) decides with
//! it what the client of a fetch gets.

use std::ops::Range;

use tollgate_cache::{Moment, StoredHead, not_modified_lines};
use tollgate_http::Answer;
use tollgate_http::h1::write_decimal;

/// The part of a stored response that a client gets.
pub(super) struct Part {
    pub status: u16,
    /// The field lines, if they differ from the stored ones.
    pub lines: Option<Vec<u8>>,
    pub range: Range<u64>,
    /// Whether the head states its length in `Content-Length`.
    pub has_length: bool,
    pub has_body: bool,
}

impl Part {
    /// Returns the value of `Content-Range`, if the response has one. `length`: the length of the whole response.
    pub fn content_range(&self, length: u64) -> Option<(Option<(u64, u64)>, u64)> {
        match self.status {
            206 => Some((Some((self.range.start, self.range.end)), length)),
            416 => Some((None, length)),
            _ => None,
        }
    }
}

/// Returns the part that an answer consists of. `length`: the length of the whole response.
pub(super) fn part(head: &StoredHead, length: u64, answer: Answer) -> Part {
    let status = head.status();
    let bodiless = matches!(status, 204 | 304);
    let whole = Part { status, lines: None, range: 0..length, has_length: !bodiless, has_body: !bodiless };
    match answer {
        Answer::Ranges(ranges) => match ranges[..] {
            [range] => {
                let lines = without_content_range(head);
                Part { status: 206, lines, range: range.start..range.end, ..whole }
            }
            // RFC 9110, 14.2: a server may ignore `Range`. The caller has answered several ranges of what is stored.
            _ => whole,
        },
        Answer::NotModified => {
            let mut lines = Vec::with_capacity(head.lines().len());
            not_modified_lines(head, &mut lines);
            Part { status: 304, lines: Some(lines), range: 0..0, has_length: false, has_body: false }
        }
        Answer::NotSatisfiable => {
            let date = tollgate_http::format_date(Moment::from(tollgate_net::wall_clock()).seconds());
            let lines = Some(format!("Date: {date}\r\n").into_bytes());
            Part { status: 416, lines, range: 0..0, has_length: true, has_body: false }
        }
        Answer::Whole | Answer::PreconditionFailed => whole,
    }
}

/// Appends the line of `Content-Range`. `range`: its start and end; `None`: no range can be satisfied. `length`: the length of
/// the whole response.
pub(super) fn write_content_range(out: &mut Vec<u8>, range: Option<(u64, u64)>, length: u64) {
    out.extend_from_slice(b"Content-Range: bytes ");
    match range {
        Some((start, end)) => {
            write_decimal(out, start);
            out.push(b'-');
            write_decimal(out, end - 1);
        }
        None => out.push(b'*'),
    }
    out.push(b'/');
    write_decimal(out, length);
    out.extend_from_slice(b"\r\n");
}

/// Whether a field of a stored 200 is `Content-Range`. It has no meaning there (RFC 9110, 14.4), and in a 206 it would
/// contradict the gateway's own.
pub(super) fn is_content_range(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"content-range")
}

/// Returns the lines without `Content-Range`; `None`: there is no such line.
fn without_content_range(head: &StoredHead) -> Option<Vec<u8>> {
    head.get(b"content-range")?;
    let mut lines = Vec::with_capacity(head.lines().len());
    head.write_lines(&mut lines, |name| !is_content_range(name));
    Some(lines)
}
