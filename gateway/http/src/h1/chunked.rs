//! Reads the chunked coding (RFC 9112, section 7.1).
//!
//! [`BodyReader`](super::BodyReader) calls it. Chunk lines must match the grammar of section 7.1.1 exactly,
//! because a reader that accepts more may find another end of the body. Endpoints may also write white space
//! at the end of a line, and before the colon of a trailer.

use super::BodyError;
use super::lines::field;
use crate::chars::{is_token_byte, is_value, token_length};
use crate::trailer::is_barred;
use crate::{HeadLimits, offence};

/// Most bytes of the extensions of one chunk, white space included. Clients in use send none; long ones only
/// cost the reader time.
const MAX_EXTENSION: u32 = 1024;
/// Most bytes of all chunk extensions of a body, for the same reason.
const MAX_EXTENSIONS: u32 = 16 * 1024;
/// Most digits of a size. A size below 2^60 needs no more than 15; without a bound, leading zeros could go on
/// for ever.
const MAX_DIGITS: u32 = 16;
/// Default limits of a trailer section: bytes and fields. Dropped fields count; the empty line at the end
/// does not.
const MOST_TRAILERS: (u32, u32) = (8 * 1024, 100);

/// The state of reading a chunked body.
#[derive(Clone, Debug)]
pub(super) struct Chunked {
    state: State,
    /// Whether the body comes from an endpoint rather than a client.
    is_lenient: bool,
    /// Bytes of the current chunk that are missing, or its size while that is being read.
    left: u64,
    /// Digits of the size read so far.
    digits: u32,
    /// Extension bytes of the current chunk, and of all chunks.
    extension: u32,
    extensions: u32,
    /// The trailer lines that may be forwarded, and the current line. After an error, the bytes at fault.
    trailers: Vec<u8>,
    /// Offset in `trailers` of the current line.
    line: u32,
    /// Bytes and whole fields of the trailer section so far, and the limits of each. 32 bits wide, because a
    /// reader is moved with its exchange.
    trailers_read: u32,
    trailer_fields: u32,
    most_read: u32,
    most_fields: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    SizeFirst,
    Size,
    /// White space after the size.
    SizeBlank,
    /// After a semicolon: an extension's name starts, possibly after white space.
    NameFirst,
    Name,
    NameBlank,
    /// After the equals sign.
    ValueFirst,
    Value,
    Quoted,
    /// After a backslash in a quoted value.
    Escaped,
    /// After the closing quote of a value.
    ValueEnd,
    ValueBlank,
    SizeLineFeed,
    Data,
    DataReturn,
    DataLineFeed,
    TrailerFirst,
    Trailer,
    EndLineFeed,
    Done,
    Failed,
}

impl Chunked {
    /// `is_lenient`: the body comes from an endpoint.
    pub(super) fn new(is_lenient: bool) -> Self {
        Self {
            state: State::SizeFirst,
            is_lenient,
            left: 0,
            digits: 0,
            extension: 0,
            extensions: 0,
            trailers: Vec::new(),
            line: 0,
            trailers_read: 0,
            trailer_fields: 0,
            most_read: MOST_TRAILERS.0,
            most_fields: MOST_TRAILERS.1,
        }
    }

    pub(super) fn limit_trailers(&mut self, limits: &HeadLimits) {
        (self.most_read, self.most_fields) = limits.of_trailers();
    }

    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// The trailer lines that may be forwarded, each with its CRLF.
    pub(super) fn trailers(&self) -> &[u8] {
        &self.trailers
    }

    /// The same, mutable; the body must be complete.
    pub(super) fn trailers_mut(&mut self) -> &mut Vec<u8> {
        &mut self.trailers
    }

    /// Reads the next part of the body. Compacts the data of all chunks in `input` in place. Returns how many
    /// bytes of `input` it used, and the range that holds the data.
    pub(super) fn read(&mut self, input: &mut [u8]) -> Result<(usize, std::ops::Range<usize>), BodyError> {
        let mut at = 0;
        let mut data = 0..0;
        let mut line = 0;
        while at < input.len() && self.state != State::Done {
            if self.state == State::Data {
                let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(input.len() - at);
                if data.is_empty() {
                    data = at..at + length;
                } else {
                    input.copy_within(at..at + length, data.end);
                    data.end += length;
                }
                at += length;
                self.left -= length as u64;
                if self.left == 0 {
                    self.state = State::DataReturn;
                }
                continue;
            }
            if matches!(self.state, State::SizeFirst | State::TrailerFirst) {
                line = at;
            }
            if let Err(error) = self.step(input[at]) {
                self.fail(input, line, at);
                return Err(error);
            }
            at += 1;
        }
        Ok((at, data))
    }

    fn step(&mut self, byte: u8) -> Result<(), BodyError> {
        self.state = match (self.state, byte) {
            (State::SizeFirst, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                (self.digits, self.extension) = (0, 0);
                self.digit(byte)?;
                State::Size
            }
            (State::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                self.digit(byte)?;
                State::Size
            }
            (State::Size | State::Name | State::Value | State::ValueEnd, b'\r') => State::SizeLineFeed,
            // No grammar allows white space at the end of a line, but some servers pad their sizes with it.
            (State::SizeBlank | State::NameBlank | State::ValueBlank, b'\r') if self.is_lenient => {
                State::SizeLineFeed
            }
            // RFC 9112, 7.1.1 allows BWS before the semicolon, and on both sides of the equals sign.
            (State::Size, b';') => State::NameFirst,
            (State::Size, b' ' | b'\t') => self.extend(State::SizeBlank)?,
            (
                State::SizeBlank
                | State::NameFirst
                | State::Name
                | State::NameBlank
                | State::ValueFirst
                | State::Value
                | State::Quoted
                | State::Escaped
                | State::ValueEnd
                | State::ValueBlank,
                _,
            ) => {
                let next = extension(self.state, byte).ok_or(BodyError::Chunk)?;
                self.extend(next)?
            }
            (State::SizeLineFeed, b'\n') if self.left == 0 => State::TrailerFirst,
            (State::SizeLineFeed, b'\n') => State::Data,
            (State::DataReturn, b'\r') => State::DataLineFeed,
            (State::DataLineFeed, b'\n') => State::SizeFirst,
            (State::TrailerFirst, b'\r') => State::EndLineFeed,
            (State::EndLineFeed, b'\n') => State::Done,
            (State::TrailerFirst | State::Trailer, _) => self.trailer(byte)?,
            _ => return Err(BodyError::Chunk),
        };
        Ok(())
    }

    /// Counts a byte of an extension.
    fn extend(&mut self, next: State) -> Result<State, BodyError> {
        self.extension += 1;
        self.extensions += 1;
        if self.extension > MAX_EXTENSION || self.extensions > MAX_EXTENSIONS {
            return Err(BodyError::Chunk);
        }
        Ok(next)
    }

    /// Records that the byte at `at` was refused. Its line begins at `line` in `input`.
    #[cold]
    fn fail(&mut self, input: &[u8], line: usize, at: usize) {
        let failed = std::mem::replace(&mut self.state, State::Failed);
        self.trailers = match failed {
            // A trailer is checked at the end of its line. The start of the line may have arrived in an
            // earlier read.
            State::TrailerFirst | State::Trailer => {
                let line = &self.trailers[self.line as usize..];
                let name = token_length(line);
                let fault = match line.get(name) {
                    Some(b':') => line.iter().position(|byte| !is_value(&[*byte])).unwrap_or(line.len()),
                    _ => name,
                };
                offence::of_field_line(line, 0, fault)
            }
            // The bytes around it are data of the body.
            State::DataReturn | State::DataLineFeed => offence::of_byte(input, at),
            _ => offence::of_line(input, line, at),
        }
        .unwrap_or_default();
    }

    /// The bytes for which the body was refused; empty if it was not.
    pub(super) fn offence(&self) -> &[u8] {
        if self.state == State::Failed { &self.trailers } else { &[] }
    }

    fn digit(&mut self, byte: u8) -> Result<(), BodyError> {
        self.digits += 1;
        // Limited to values below 2^60, so that no sum with another length overflows.
        if self.digits > MAX_DIGITS || self.left >> 56 != 0 {
            return Err(BodyError::Chunk);
        }
        let digit = (byte as char).to_digit(16).unwrap_or_default();
        self.left = self.left << 4 | u64::from(digit);
        Ok(())
    }

    fn trailer(&mut self, byte: u8) -> Result<State, BodyError> {
        self.trailers_read += 1;
        // The current line counts as a field from its first byte on.
        if self.trailers_read > self.most_read || self.trailer_fields >= self.most_fields {
            return Err(BodyError::Trailers);
        }
        self.trailers.push(byte);
        if byte != b'\n' {
            return Ok(State::Trailer);
        }
        if !self.trailers[self.line as usize..].ends_with(b"\r\n") {
            return Err(BodyError::Chunk);
        }
        if self.is_lenient {
            join_colon(&mut self.trailers, self.line as usize);
        }
        let end = self.trailers.len();
        let field = field(&self.trailers, self.line as usize, end - 2).map_err(|_| BodyError::Chunk)?;
        if is_barred(field.name.of(&self.trailers)) {
            self.trailers.truncate(self.line as usize);
        }
        self.line = self.trailers.len() as u32;
        self.trailer_fields += 1;
        Ok(State::TrailerFirst)
    }
}

/// The state after this byte of a chunk's extensions; `None` if the grammar does not allow the byte. A bare
/// LF and all other control bytes are refused everywhere, because another reader could end the line there.
fn extension(state: State, byte: u8) -> Option<State> {
    let is_blank = matches!(byte, b' ' | b'\t');
    // RFC 9110, 5.6.4: a quoted string may contain every byte that a field value may contain.
    let is_text = matches!(byte, b'\t' | b' '..=b'~' | 0x80..);
    match (state, byte) {
        (State::SizeBlank | State::NameFirst | State::NameBlank | State::ValueFirst, _) if is_blank => {
            Some(state)
        }
        (State::SizeBlank, b';') => Some(State::NameFirst),
        (State::NameFirst | State::Name, _) if is_token_byte(byte) => Some(State::Name),
        (State::Name, _) if is_blank => Some(State::NameBlank),
        (State::Name | State::NameBlank, b'=') => Some(State::ValueFirst),
        (State::Name | State::NameBlank | State::Value | State::ValueEnd | State::ValueBlank, b';') => {
            Some(State::NameFirst)
        }
        (State::ValueFirst, b'"') => Some(State::Quoted),
        (State::ValueFirst | State::Value, _) if is_token_byte(byte) => Some(State::Value),
        (State::Value | State::ValueEnd | State::ValueBlank, _) if is_blank => Some(State::ValueBlank),
        (State::Quoted, b'"') => Some(State::ValueEnd),
        (State::Quoted, b'\\') => Some(State::Escaped),
        (State::Quoted | State::Escaped, _) if is_text => Some(State::Quoted),
        _ => None,
    }
}

/// Removes the white space before the colon of the last line (RFC 9112, 5.1).
fn join_colon(lines: &mut Vec<u8>, start: usize) {
    let Some(colon) = lines[start..].iter().position(|byte| *byte == b':') else { return };
    let blanks =
        lines[start..start + colon].iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    lines.drain(start + colon - blanks..start + colon);
}

#[cfg(test)]
mod tests;
