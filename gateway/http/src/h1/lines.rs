//! Reads a head line by line, from however few bytes at a time, and looks at no byte twice.
//!
//! What is wrong is said at the first byte that is, and bytes past a limit are not looked at. So the result depends
//! on the bytes alone and not on the reads that brought them.

use crate::chars::{is_value, plain_token_end, text_end, token_length};
use crate::{Field, Head, HeadError, HeadLimits, Name, Range, offence};

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
    /// The end of the name, if white space follows it; else 0. Responses only.
    name_end: usize,
    /// Whether a line has to be rewritten by [`Head::tidy`]. Responses only.
    is_untidy: bool,
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

    /// Whether the head has to be rewritten by [`Head::tidy`].
    pub(super) fn is_untidy(&self) -> bool {
        self.is_untidy
    }

    /// Notes that the head has to be rewritten.
    pub(super) fn note_untidy(&mut self) {
        self.is_untidy = true;
    }

    /// The bytes for which a head was refused.
    pub(super) fn offence(&self, bytes: &[u8], error: HeadError, head: &Head) -> Option<Vec<u8>> {
        match error {
            // The line was whole, so its beginning is shown.
            HeadError::StartLine | HeadError::Version if self.line > 0 => offence::of_line(bytes, 0, 0),
            HeadError::StartLine | HeadError::Version => offence::of_line(bytes, 0, self.seen),
            HeadError::Field => offence::of_field_line(bytes, self.line, self.seen),
            _ => {
                let fields = head.fields.iter();
                let pairs = fields.map(|field| (head.slice(field.name), head.slice(field.value)));
                offence::of_fields(error, pairs)
            }
        }
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
    ///
    /// `LENIENT`, for responses, accepts white space between the name and the colon (5.1), and folded lines (5.2). [`Head::tidy`]
    /// removes both.
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
        // A limit that was lowered between two calls.
        if self.seen > bytes.len() {
            return Err(HeadError::TooLarge);
        }
        loop {
            if self.colon == 0 {
                match &bytes[self.line..] {
                    [] | [b'\r'] => break,
                    [b'\r', b'\n', ..] => {
                        self.begin_line(self.line + 2);
                        return Ok(Progress::Complete(self.line));
                    }
                    [b' ' | b'\t', ..] if LENIENT && !head.fields.is_empty() => {
                        let Some(end) = self.line_end(bytes)? else { break };
                        continue_field(bytes, head, self.line, end);
                        self.is_untidy = true;
                        self.begin_line(end + 2);
                        continue;
                    }
                    _ if head.fields.len() >= limits.fields => return Err(HeadError::TooMany),
                    _ => {}
                }
                if self.seen == self.line
                    && let Some(field) = usual_line(bytes, self.line)
                {
                    head.push(field);
                    self.begin_line(field.line_end as usize);
                    continue;
                }
                if !LENIENT || self.name_end == 0 {
                    self.seen += token_length(&bytes[self.seen..]);
                }
                if LENIENT && self.seen > self.line && matches!(bytes.get(self.seen), Some(b' ' | b'\t')) {
                    if self.name_end == 0 {
                        self.name_end = self.seen;
                    }
                    let blanks = bytes[self.seen..].iter().take_while(|byte| matches!(byte, b' ' | b'\t'));
                    self.seen += blanks.count();
                    self.is_untidy = true;
                }
                match bytes.get(self.seen) {
                    None => break,
                    Some(b':') if self.seen > self.line => {}
                    Some(_) => return Err(HeadError::Field),
                }
                self.colon = self.seen;
                self.seen += 1;
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

    fn begin_line(&mut self, at: usize) {
        *self = Self { line: at, seen: at, colon: 0, name_end: 0, is_untidy: self.is_untidy };
    }

    /// Offset of the CRLF that ends the line being read, if it is there. A bare LF is refused, because two readers
    /// would not agree on whether it ends a line (RFC 9112, 2.2 allows both), and so is every other control byte.
    fn line_end(&mut self, bytes: &[u8]) -> Result<Option<usize>, HeadError> {
        self.seen = text_end(bytes, self.seen);
        match bytes.get(self.seen..).ok_or(HeadError::TooLarge)? {
            [] | [b'\r'] => Ok(None),
            [b'\r', b'\n', ..] => Ok(Some(self.seen)),
            _ => Err(HeadError::Field),
        }
    }
}

/// The field line that begins here, if it is here as a whole and as nearly all are: with a name of letters, digits, `-`
/// and `_`. Of any other nothing is said.
#[inline(always)]
fn usual_line(bytes: &[u8], start: usize) -> Option<Field> {
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

/// Continues the last field with the folded line between these offsets. The line end between its parts stays for [`Head::tidy`].
fn continue_field(bytes: &[u8], head: &mut Head, start: usize, end: usize) {
    let Some(field) = head.fields.last_mut() else { return };
    let length = bytes[start..end].trim_ascii_end().len();
    if length > 0 {
        field.value.end = (start + length) as u32;
    }
    field.line_end = end as u32 + 2;
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
    let line = &bytes[..end];
    // Space and tab are the only bytes up to the space that a value has.
    let value_start = match &line[colon + 1..] {
        // Nearly always.
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
