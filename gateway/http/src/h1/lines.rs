//! Reads a head line by line, in pieces of any size, and examines each byte once.
//!
//! An error is reported at the first wrong byte, and bytes past a limit are not examined. So the result
//! depends only on the bytes, not on the reads that brought them.

use crate::chars::{is_value, plain_token_end, text_end, token_length};
use crate::{Field, Head, HeadError, HeadLimits, Name, Range, rejected_bytes};

/// How far a parser got with the bytes so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The head is incomplete.
    Partial,
    /// The head ends before this offset. The bytes from there on are not part of it.
    Complete(usize),
}

/// The state of reading a head. It holds offsets, because the buffer may move between calls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LineReader {
    /// Offset of the line that is being read.
    line: usize,
    /// Bytes before this offset were examined and are valid.
    examined: usize,
    /// Offset of the colon of the current line; 0, where no colon can be, until it is found.
    colon: usize,
    /// Offset of the end of the name if white space follows it, otherwise 0. Responses only.
    name_end: usize,
    /// Whether [`Head::normalize`] has to rewrite a line. Responses only.
    needs_normalizing: bool,
}

impl LineReader {
    /// Whether no line is complete yet.
    pub(super) fn at_start(&self) -> bool {
        self.line == 0
    }

    /// Offset past the last complete line.
    pub(super) fn complete_end(&self) -> usize {
        self.line
    }

    /// Whether [`Head::normalize`] has to rewrite the head.
    pub(super) fn needs_normalizing(&self) -> bool {
        self.needs_normalizing
    }

    /// Records that the head has to be rewritten.
    pub(super) fn mark_for_normalizing(&mut self) {
        self.needs_normalizing = true;
    }

    /// The bytes for which a head was refused.
    pub(super) fn rejected_bytes(&self, bytes: &[u8], error: HeadError, head: &Head) -> Option<Vec<u8>> {
        match error {
            // The line was complete, so its start is shown.
            HeadError::StartLine | HeadError::Version if self.line > 0 => {
                rejected_bytes::of_line(bytes, 0, 0)
            }
            HeadError::StartLine | HeadError::Version => rejected_bytes::of_line(bytes, 0, self.examined),
            HeadError::Field => rejected_bytes::of_field_line(bytes, self.line, self.examined),
            _ => {
                let fields = head.fields.iter();
                let pairs = fields.map(|field| (head.slice(field.name), head.slice(field.value)));
                rejected_bytes::of_fields(error, pairs)
            }
        }
    }

    /// Reads the start line. Returns the offset of its CRLF, or `None` if that has not arrived.
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

    /// Reads field lines up to the empty line that ends the head. A field line is a token, immediately a
    /// colon, and a value (RFC 9112, section 5). A line that begins with white space is a folded one (5.2)
    /// and is refused.
    ///
    /// `LENIENT`, for responses, accepts white space between the name and the colon (5.1), and folded lines
    /// (5.2). [`Head::normalize`] removes both.
    pub(super) fn fields<const LENIENT: bool>(
        &mut self,
        bytes: &[u8],
        head: &mut Head,
        limits: &HeadLimits,
    ) -> Result<Progress, HeadError> {
        // A copy, which the compiler keeps in registers.
        let mut lines = *self;
        let result = lines.read_fields::<LENIENT>(bytes, head, limits);
        *self = lines;
        result
    }

    #[inline(always)]
    fn read_fields<const LENIENT: bool>(
        &mut self,
        bytes: &[u8],
        head: &mut Head,
        limits: &HeadLimits,
    ) -> Result<Progress, HeadError> {
        let bytes = limits.within_head(bytes);
        // The limit was lowered between two calls.
        if self.examined > bytes.len() {
            return Err(HeadError::TooLarge);
        }
        loop {
            if self.colon == 0 {
                if self.examined == self.line {
                    self.plain_lines(bytes, head, limits);
                }
                match &bytes[self.line..] {
                    [] | [b'\r'] => break,
                    [b'\r', b'\n', ..] => {
                        self.begin_line(self.line + 2);
                        return Ok(Progress::Complete(self.line));
                    }
                    [b' ' | b'\t', ..] if LENIENT && !head.fields.is_empty() => {
                        let Some(end) = self.line_end(bytes)? else { break };
                        continue_field(bytes, head, self.line, end);
                        self.needs_normalizing = true;
                        self.begin_line(end + 2);
                        continue;
                    }
                    _ if head.fields.len() >= limits.fields => return Err(HeadError::TooMany),
                    _ => {}
                }
                if !LENIENT || self.name_end == 0 {
                    self.examined += token_length(&bytes[self.examined..]);
                }
                if LENIENT
                    && self.examined > self.line
                    && matches!(bytes.get(self.examined), Some(b' ' | b'\t'))
                {
                    if self.name_end == 0 {
                        self.name_end = self.examined;
                    }
                    let blanks =
                        bytes[self.examined..].iter().take_while(|byte| matches!(byte, b' ' | b'\t'));
                    self.examined += blanks.count();
                    self.needs_normalizing = true;
                }
                match bytes.get(self.examined) {
                    None => break,
                    Some(b':') if self.examined > self.line => {}
                    Some(_) => return Err(HeadError::Field),
                }
                self.colon = self.examined;
                self.examined += 1;
            }
            let Some(end) = self.line_end(bytes)? else { break };
            let name_end = if LENIENT && self.name_end > 0 { self.name_end } else { self.colon };
            let id = Name::of(&bytes[self.line..name_end]);
            let mut field = field_at(bytes, id, self.line, self.colon, end);
            field.name.end = name_end as u32;
            head.push(field);
            self.begin_line(end + 2);
        }
        if limits.is_head_full(bytes) { Err(HeadError::TooLarge) } else { Ok(Progress::Partial) }
    }

    /// Reads complete lines as long as [`plain_line`] understands them. The checks of unusual lines cost more
    /// than the line itself, so they run once for all of these.
    #[inline(always)]
    fn plain_lines(&mut self, bytes: &[u8], head: &mut Head, limits: &HeadLimits) {
        let mut at = self.line;
        while head.fields.len() < limits.fields
            && let Some(field) = plain_line(bytes, at)
        {
            head.push(field);
            at = field.line_end as usize;
        }
        self.begin_line(at);
    }

    fn begin_line(&mut self, at: usize) {
        *self =
            Self { line: at, examined: at, colon: 0, name_end: 0, needs_normalizing: self.needs_normalizing };
    }

    /// Returns the offset of the CRLF that ends the current line, or `None` if it has not arrived. A bare LF
    /// is refused, because readers disagree on whether it ends a line (RFC 9112, 2.2 allows both). All other
    /// control bytes are refused too.
    fn line_end(&mut self, bytes: &[u8]) -> Result<Option<usize>, HeadError> {
        self.examined = text_end(bytes, self.examined);
        match bytes.get(self.examined..).ok_or(HeadError::TooLarge)? {
            [] | [b'\r'] => Ok(None),
            [b'\r', b'\n', ..] => Ok(Some(self.examined)),
            _ => Err(HeadError::Field),
        }
    }
}

/// Parses the field line that begins at `start`, if it is complete and its name consists of letters, digits,
/// `-` and `_`, as in nearly all lines. `None` says nothing about the line.
#[inline(always)]
fn plain_line(bytes: &[u8], start: usize) -> Option<Field> {
    let colon = plain_token_end(bytes, start);
    if colon == start || *bytes.get(colon)? != b':' {
        return None;
    }
    let end = text_end(bytes, colon + 1);
    if !bytes.get(end..)?.starts_with(b"\r\n") {
        return None;
    }
    let id = Name::of_first(&bytes[start..], colon - start);
    Some(field_at(bytes, id, start, colon, end))
}

/// Appends the folded line between these offsets to the last field. The line end between its parts stays for
/// [`Head::normalize`].
fn continue_field(bytes: &[u8], head: &mut Head, start: usize, end: usize) {
    let Some(field) = head.fields.last_mut() else { return };
    let length = bytes[start..end].trim_ascii_end().len();
    if length > 0 {
        field.value.end = (start + length) as u32;
    }
    field.line_end = end as u32 + 2;
}

/// Parses the field line between these offsets, which exclude its CRLF.
pub(super) fn field(bytes: &[u8], start: usize, end: usize) -> Result<Field, HeadError> {
    let text = &bytes[start..end];
    let name = token_length(text);
    if name == 0 || text.get(name) != Some(&b':') || !is_value(&text[name + 1..]) {
        return Err(HeadError::Field);
    }
    Ok(field_at(bytes, Name::of(&text[..name]), start, start + name, end))
}

/// Builds the field for a line whose name is a token and whose value is valid.
#[inline(always)]
fn field_at(bytes: &[u8], id: Name, start: usize, colon: usize, end: usize) -> Field {
    let line = &bytes[..end];
    // Space and tab are the only bytes up to the space that a value can contain.
    let value_start = match &line[colon + 1..] {
        // The usual case.
        [b' ', next, ..] if *next > b' ' => colon + 2,
        text => colon + 1 + text.iter().take_while(|byte| **byte <= b' ').count(),
    };
    let mut value_end = end;
    while value_end > value_start && line[value_end - 1] <= b' ' {
        value_end -= 1;
    }
    Field {
        id,
        nominated: false,
        name: Range::new(start, colon),
        value: Range::new(value_start, value_end),
        line_end: end as u32 + 2,
    }
}
