//! Reads a head line by line, from however few bytes at a time, and looks at no byte twice.
//!
//! What is wrong is said at the first byte that is, and bytes past a limit are not looked at. So the result depends
//! on the bytes alone and not on the reads that brought them.

use crate::chars::{is_value, text_length, token_length};
use crate::{Field, Head, HeadError, HeadLimits, Name, Range};

/// What a parser made of the bytes so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The head has not ended.
    Partial,
    /// The head ends before this offset; what follows is not part of it.
    Complete(usize),
}

/// Where reading a head stands, by offset: the buffer may move between calls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lines {
    /// The first byte of the line being read.
    line: usize,
    /// Bytes before this one were looked at and may stand there.
    seen: usize,
    /// The colon of the line being read; 0, where none can stand, until it is found.
    colon: usize,
}

impl Lines {
    /// Whether no line has ended yet.
    pub(super) fn at_start(&self) -> bool {
        self.line == 0
    }

    /// Offset past the last whole line.
    pub(super) fn whole(&self) -> usize {
        self.line
    }

    /// Reads the start line. Gives the offset of its CRLF, `None` if that has not come.
    pub(super) fn start_line(&mut self, bytes: &[u8]) -> Result<Option<usize>, HeadError> {
        let end = self.line_end(bytes).map_err(|error| match error {
            HeadError::Field => HeadError::StartLine,
            other => other,
        })?;
        if let Some(end) = end {
            self.begin_line(end + 2);
        }
        Ok(end)
    }

    /// Reads field lines until the empty line that ends the head. A field line is a token, at once a colon, and a
    /// value (RFC 9112, section 5). A line that begins with white space is a folded one (5.2) and refused.
    pub(super) fn fields(
        &mut self,
        bytes: &[u8],
        head: &mut Head,
        limits: &HeadLimits,
    ) -> Result<Progress, HeadError> {
        // A copy, which the compiler keeps in registers.
        let mut lines = *self;
        let result = lines.read_fields(bytes, head, limits);
        *self = lines;
        result
    }

    #[inline(always)]
    fn read_fields(
        &mut self,
        bytes: &[u8],
        head: &mut Head,
        limits: &HeadLimits,
    ) -> Result<Progress, HeadError> {
        let bytes = limits.within_head(bytes);
        // A limit that was lowered between two calls.
        if self.seen > bytes.len() {
            return Err(HeadError::TooLarge);
        }
        loop {
            let mut id = None;
            if self.colon == 0 {
                let line = &bytes[self.line..];
                match line {
                    [] | [b'\r'] => break,
                    [b'\r', b'\n', ..] => {
                        self.begin_line(self.line + 2);
                        return Ok(Progress::Complete(self.line));
                    }
                    _ if head.fields.len() >= limits.fields => return Err(HeadError::TooMany),
                    _ => {}
                }
                if let Some((name, length)) = Name::before_colon(line) {
                    let is_known = !matches!(name, Name::Other | Name::Alias);
                    if !is_known && (length == 0 || token_length(&line[..length]) < length) {
                        return Err(HeadError::Field);
                    }
                    id = Some(name);
                    self.seen = self.line + length;
                } else {
                    self.seen += token_length(&bytes[self.seen..]);
                    match bytes.get(self.seen) {
                        None => break,
                        Some(b':') if self.seen > self.line => {}
                        Some(_) => return Err(HeadError::Field),
                    }
                }
                self.colon = self.seen;
                self.seen += 1;
            }
            let Some(end) = self.line_end(bytes)? else { break };
            let id = id.unwrap_or_else(|| Name::of(&bytes[self.line..self.colon]));
            head.push(field_at(bytes, id, self.line, self.colon, end));
            self.begin_line(end + 2);
        }
        if limits.is_head_full(bytes) { Err(HeadError::TooLarge) } else { Ok(Progress::Partial) }
    }

    fn begin_line(&mut self, at: usize) {
        *self = Self { line: at, seen: at, colon: 0 };
    }

    /// Offset of the CRLF that ends the line being read, if it is there. A bare LF is refused, because two readers
    /// would not agree on whether it ends a line (RFC 9112, 2.2 allows both), and so is every other control byte.
    fn line_end(&mut self, bytes: &[u8]) -> Result<Option<usize>, HeadError> {
        self.seen += text_length(bytes.get(self.seen..).ok_or(HeadError::TooLarge)?);
        match &bytes[self.seen..] {
            [] | [b'\r'] => Ok(None),
            [b'\r', b'\n', ..] => Ok(Some(self.seen)),
            _ => Err(HeadError::Field),
        }
    }
}

/// The field line between these offsets, without CRLF.
pub(super) fn field(bytes: &[u8], start: usize, end: usize) -> Result<Field, HeadError> {
    let text = &bytes[start..end];
    let name = token_length(text);
    if name == 0 || text.get(name) != Some(&b':') || !is_value(&text[name + 1..]) {
        return Err(HeadError::Field);
    }
    Ok(field_at(bytes, Name::of(&text[..name]), start, start + name, end))
}

/// The field line between these offsets, whose name is a token and whose value has nothing that may not be there.
#[inline(always)]
fn field_at(bytes: &[u8], id: Name, start: usize, colon: usize, end: usize) -> Field {
    let mut value = &bytes[colon + 1..end];
    // Space and tab are the only bytes up to the space that a value has.
    while let [..=b' ', rest @ ..] = value {
        value = rest;
    }
    let value_start = end - value.len();
    while let [rest @ .., ..=b' '] = value {
        value = rest;
    }
    Field {
        id,
        nominated: false,
        name: Range::new(start, colon),
        value: Range::new(value_start, value_start + value.len()),
        line_end: end as u32 + 2,
    }
}
