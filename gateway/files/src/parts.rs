//! The body of a response as a list of parts: ranges of the file, and the text between them.

use std::collections::VecDeque;

use crate::range::ByteRange;
use crate::served_file::ServedFile;

/// A part of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Text of the gateway.
    Text(Vec<u8>),
    /// Bytes of the file.
    File(ByteRange),
}

/// The body of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// Its parts, in order. None is empty.
    pub parts: VecDeque<Part>,
    /// The sum of their lengths in bytes.
    pub length: u64,
}

impl Body {
    /// Returns the body of a 200.
    #[must_use]
    pub fn whole(file: &ServedFile) -> Self {
        let length = file.length();
        let whole = (length > 0).then_some(Part::File(ByteRange { start: 0, end: length }));
        Self { parts: whole.into_iter().collect(), length }
    }

    /// Returns the field lines and the body of a 206. `boundary` separates several ranges, and must not occur in the
    /// file.
    #[must_use]
    pub fn ranges(file: &ServedFile, ranges: &[ByteRange], boundary: &str) -> (Vec<u8>, Self) {
        let of = file.length();
        if let [only] = ranges {
            let mut lines = file.lines().to_vec();
            lines.extend_from_slice(content_range(*only, of).as_bytes());
            return (lines, Self { parts: VecDeque::from([Part::File(*only)]), length: only.length() });
        }
        let mut lines = format!("Content-Type: multipart/byteranges; boundary={boundary}\r\n").into_bytes();
        lines.extend_from_slice(file.lines_without_type());
        let mut parts = VecDeque::with_capacity(ranges.len() * 2 + 1);
        let mut start = "";
        for range in ranges {
            let mut text = format!("{start}--{boundary}\r\n").into_bytes();
            text.extend_from_slice(file.type_line());
            text.extend_from_slice(content_range(*range, of).as_bytes());
            text.extend_from_slice(b"\r\n");
            parts.extend([Part::Text(text), Part::File(*range)]);
            start = "\r\n";
        }
        parts.push_back(Part::Text(format!("\r\n--{boundary}--\r\n").into_bytes()));
        let length = parts.iter().map(|part| match part {
            Part::Text(text) => text.len() as u64,
            Part::File(range) => range.length(),
        });
        let length = length.sum();
        (lines, Self { parts, length })
    }
}

/// Returns the line of `Content-Range`, with its CRLF.
fn content_range(range: ByteRange, length: u64) -> String {
    format!("Content-Range: bytes {}-{}/{length}\r\n", range.start, range.end - 1)
}
