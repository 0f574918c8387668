//! The content of a response as a list of parts: ranges of what is served, and the text between them (RFC 9110, 14.6
//! and 15.3.7).

use std::collections::VecDeque;

use crate::byte_range::ByteRange;

/// A part of the content of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Text of the gateway.
    Text(Vec<u8>),
    /// Bytes of the file or the stored response.
    Content(ByteRange),
}

/// The content of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentParts {
    /// Its parts, in order. None is empty.
    pub parts: VecDeque<Part>,
    /// The sum of their lengths in bytes.
    pub length: u64,
}

impl ContentParts {
    /// Returns the content of a 200: all of it.
    #[must_use]
    pub fn whole(length: u64) -> Self {
        let whole = (length > 0).then_some(Part::Content(ByteRange { start: 0, end: length }));
        Self { parts: whole.into_iter().collect(), length }
    }

    /// Returns the field lines and the content of a 206. `type_line` is the line of `Content-Type`, or empty; `lines`
    /// are the others of a 200. `boundary` separates several ranges, and must not occur in the content.
    #[must_use]
    pub fn ranges(
        type_line: &[u8],
        lines: &[u8],
        length: u64,
        ranges: &[ByteRange],
        boundary: &str,
    ) -> (Vec<u8>, Self) {
        if let [only] = ranges {
            let lines = [type_line, lines, content_range(*only, length).as_bytes()].concat();
            return (lines, Self { parts: VecDeque::from([Part::Content(*only)]), length: only.length() });
        }
        let mut head = format!("Content-Type: multipart/byteranges; boundary={boundary}\r\n").into_bytes();
        head.extend_from_slice(lines);
        let mut parts = VecDeque::with_capacity(ranges.len() * 2 + 1);
        let mut start = "";
        for range in ranges {
            let mut text = format!("{start}--{boundary}\r\n").into_bytes();
            text.extend_from_slice(type_line);
            text.extend_from_slice(content_range(*range, length).as_bytes());
            text.extend_from_slice(b"\r\n");
            parts.extend([Part::Text(text), Part::Content(*range)]);
            start = "\r\n";
        }
        parts.push_back(Part::Text(format!("\r\n--{boundary}--\r\n").into_bytes()));
        let lengths = parts.iter().map(|part| match part {
            Part::Text(text) => text.len() as u64,
            Part::Content(range) => range.length(),
        });
        let length = lengths.sum();
        (head, Self { parts, length })
    }
}

/// Returns the line of `Content-Range`, with its CRLF.
fn content_range(range: ByteRange, length: u64) -> String {
    format!("Content-Range: bytes {}-{}/{length}\r\n", range.start, range.end - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_and_multiple_ranges() {
        let range = |start, end| ByteRange { start, end };
        let (lines, content) =
            ContentParts::ranges(b"Content-Type: a/b\r\n", b"ETag: x\r\n", 9, &[range(2, 5)], "B");
        assert_eq!(
            String::from_utf8_lossy(&lines),
            "Content-Type: a/b\r\nETag: x\r\nContent-Range: bytes 2-4/9\r\n"
        );
        assert_eq!((content.length, content.parts.len()), (3, 1));
        let two = [range(0, 1), range(8, 9)];
        let (lines, content) = ContentParts::ranges(b"Content-Type: a/b\r\n", b"ETag: x\r\n", 9, &two, "B");
        let text: Vec<u8> = content
            .parts
            .iter()
            .flat_map(|part| match part {
                Part::Text(text) => text.clone(),
                Part::Content(range) => b"012345678"[range.start as usize..range.end as usize].to_vec(),
            })
            .collect();
        assert_eq!(
            String::from_utf8_lossy(&lines),
            "Content-Type: multipart/byteranges; boundary=B\r\nETag: x\r\n"
        );
        assert_eq!(
            String::from_utf8_lossy(&text),
            "--B\r\nContent-Type: a/b\r\nContent-Range: bytes 0-0/9\r\n\r\n0\r\n\
             --B\r\nContent-Type: a/b\r\nContent-Range: bytes 8-8/9\r\n\r\n8\r\n--B--\r\n"
        );
        assert_eq!(content.length, text.len() as u64);
        assert!(ContentParts::whole(0).parts.is_empty());
    }
}
