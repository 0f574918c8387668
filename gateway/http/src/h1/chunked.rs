//! Reads the chunked coding (RFC 9112, section 7.1).
//!
//! [`BodyReader`](super::BodyReader) calls it. Chunk lines must match the grammar of section 7.1.1 exactly,
//! because a reader that accepts more may find another end of the body. Endpoints may also write white space
//! at the end of a line, and before the colon of a trailer.

use super::lines::field;
use crate::chars::{is_token_byte, is_value, token_length};
use crate::trailer::is_forbidden;
use crate::{HeadLimits, rejected_bytes};

/// Most bytes of the extensions of one chunk, white space included. Clients in use send none; long ones only
/// cost the reader time.
const EXTENSION_MAX_BYTES: u32 = 1024;
/// Most bytes of all chunk extensions of a body, for the same reason.
const EXTENSIONS_TOTAL_MAX_BYTES: u32 = 16 * 1024;
/// Most digits of a size. A size below 2^60 needs no more than 15; without a bound, leading zeros could go on
/// for ever.
const SIZE_DIGITS_MAX: u32 = 16;
/// Default limits of a trailer section: bytes and fields. Dropped fields count; the empty line at the end
/// does not.
const DEFAULT_TRAILER_LIMITS: (u32, u32) = (8 * 1024, 100);

/// The reason why a body is refused. The connection cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// A chunk or a trailer violates the grammar.
    Chunk,
    /// The trailer section exceeds the limit of bytes or fields.
    Trailers,
}

/// The state of reading a chunked body.
#[derive(Clone, Debug)]
pub(super) struct Chunked {
    state: ChunkState,
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
    trailer_bytes: u32,
    trailer_fields: u32,
    trailer_bytes_max: u32,
    trailer_fields_max: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkState {
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
            state: ChunkState::SizeFirst,
            is_lenient,
            left: 0,
            digits: 0,
            extension: 0,
            extensions: 0,
            trailers: Vec::new(),
            line: 0,
            trailer_bytes: 0,
            trailer_fields: 0,
            trailer_bytes_max: DEFAULT_TRAILER_LIMITS.0,
            trailer_fields_max: DEFAULT_TRAILER_LIMITS.1,
        }
    }

    pub(super) fn limit_trailers(&mut self, limits: &HeadLimits) {
        (self.trailer_bytes_max, self.trailer_fields_max) = limits.trailer_limits();
    }

    pub(super) fn is_done(&self) -> bool {
        self.state == ChunkState::Done
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
        while at < input.len() && self.state != ChunkState::Done {
            if self.state == ChunkState::Data {
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
                    self.state = ChunkState::DataReturn;
                }
                continue;
            }
            if matches!(self.state, ChunkState::SizeFirst | ChunkState::TrailerFirst) {
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
            (ChunkState::SizeFirst, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                (self.digits, self.extension) = (0, 0);
                self.digit(byte)?;
                ChunkState::Size
            }
            (ChunkState::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                self.digit(byte)?;
                ChunkState::Size
            }
            (ChunkState::Size | ChunkState::Name | ChunkState::Value | ChunkState::ValueEnd, b'\r') => {
                ChunkState::SizeLineFeed
            }
            // No grammar allows white space at the end of a line, but some servers pad their sizes with it.
            (ChunkState::SizeBlank | ChunkState::NameBlank | ChunkState::ValueBlank, b'\r')
                if self.is_lenient =>
            {
                ChunkState::SizeLineFeed
            }
            // RFC 9112, 7.1.1 allows BWS before the semicolon, and on both sides of the equals sign.
            (ChunkState::Size, b';') => ChunkState::NameFirst,
            (ChunkState::Size, b' ' | b'\t') => self.extend(ChunkState::SizeBlank)?,
            (
                ChunkState::SizeBlank
                | ChunkState::NameFirst
                | ChunkState::Name
                | ChunkState::NameBlank
                | ChunkState::ValueFirst
                | ChunkState::Value
                | ChunkState::Quoted
                | ChunkState::Escaped
                | ChunkState::ValueEnd
                | ChunkState::ValueBlank,
                _,
            ) => {
                let next = extension(self.state, byte).ok_or(BodyError::Chunk)?;
                self.extend(next)?
            }
            (ChunkState::SizeLineFeed, b'\n') if self.left == 0 => ChunkState::TrailerFirst,
            (ChunkState::SizeLineFeed, b'\n') => ChunkState::Data,
            (ChunkState::DataReturn, b'\r') => ChunkState::DataLineFeed,
            (ChunkState::DataLineFeed, b'\n') => ChunkState::SizeFirst,
            (ChunkState::TrailerFirst, b'\r') => ChunkState::EndLineFeed,
            (ChunkState::EndLineFeed, b'\n') => ChunkState::Done,
            (ChunkState::TrailerFirst | ChunkState::Trailer, _) => self.trailer(byte)?,
            _ => return Err(BodyError::Chunk),
        };
        Ok(())
    }

    /// Counts a byte of an extension.
    fn extend(&mut self, next: ChunkState) -> Result<ChunkState, BodyError> {
        self.extension += 1;
        self.extensions += 1;
        if self.extension > EXTENSION_MAX_BYTES || self.extensions > EXTENSIONS_TOTAL_MAX_BYTES {
            return Err(BodyError::Chunk);
        }
        Ok(next)
    }

    /// Records that the byte at `at` was refused. Its line begins at `line` in `input`.
    #[cold]
    fn fail(&mut self, input: &[u8], line: usize, at: usize) {
        let failed = std::mem::replace(&mut self.state, ChunkState::Failed);
        self.trailers = match failed {
            // A trailer is checked at the end of its line. The start of the line may have arrived in an
            // earlier read.
            ChunkState::TrailerFirst | ChunkState::Trailer => {
                let line = &self.trailers[self.line as usize..];
                let name = token_length(line);
                let fault = match line.get(name) {
                    Some(b':') => line.iter().position(|byte| !is_value(&[*byte])).unwrap_or(line.len()),
                    _ => name,
                };
                rejected_bytes::of_field_line(line, 0, fault)
            }
            // The bytes around it are data of the body.
            ChunkState::DataReturn | ChunkState::DataLineFeed => rejected_bytes::of_byte(input, at),
            _ => rejected_bytes::of_line(input, line, at),
        }
        .unwrap_or_default();
    }

    /// The bytes for which the body was refused; empty if it was not.
    pub(super) fn rejected_bytes(&self) -> &[u8] {
        if self.state == ChunkState::Failed { &self.trailers } else { &[] }
    }

    fn digit(&mut self, byte: u8) -> Result<(), BodyError> {
        self.digits += 1;
        // Limited to values below 2^60, so that no sum with another length overflows.
        if self.digits > SIZE_DIGITS_MAX || self.left >> 56 != 0 {
            return Err(BodyError::Chunk);
        }
        let digit = (byte as char).to_digit(16).unwrap_or_default();
        self.left = self.left << 4 | u64::from(digit);
        Ok(())
    }

    fn trailer(&mut self, byte: u8) -> Result<ChunkState, BodyError> {
        self.trailer_bytes += 1;
        // The current line counts as a field from its first byte on.
        if self.trailer_bytes > self.trailer_bytes_max || self.trailer_fields >= self.trailer_fields_max {
            return Err(BodyError::Trailers);
        }
        self.trailers.push(byte);
        if byte != b'\n' {
            return Ok(ChunkState::Trailer);
        }
        if !self.trailers[self.line as usize..].ends_with(b"\r\n") {
            return Err(BodyError::Chunk);
        }
        if self.is_lenient {
            join_colon(&mut self.trailers, self.line as usize);
        }
        let end = self.trailers.len();
        let field = field(&self.trailers, self.line as usize, end - 2).map_err(|_| BodyError::Chunk)?;
        if is_forbidden(field.name.of(&self.trailers)) {
            self.trailers.truncate(self.line as usize);
        }
        self.line = self.trailers.len() as u32;
        self.trailer_fields += 1;
        Ok(ChunkState::TrailerFirst)
    }
}

/// The state after this byte of a chunk's extensions; `None` if the grammar does not allow the byte. A bare
/// LF and all other control bytes are refused everywhere, because another reader could end the line there.
fn extension(state: ChunkState, byte: u8) -> Option<ChunkState> {
    let is_blank = matches!(byte, b' ' | b'\t');
    // RFC 9110, 5.6.4: a quoted string may contain every byte that a field value may contain.
    let is_text = matches!(byte, b'\t' | b' '..=b'~' | 0x80..);
    match (state, byte) {
        (
            ChunkState::SizeBlank | ChunkState::NameFirst | ChunkState::NameBlank | ChunkState::ValueFirst,
            _,
        ) if is_blank => Some(state),
        (ChunkState::SizeBlank, b';') => Some(ChunkState::NameFirst),
        (ChunkState::NameFirst | ChunkState::Name, _) if is_token_byte(byte) => Some(ChunkState::Name),
        (ChunkState::Name, _) if is_blank => Some(ChunkState::NameBlank),
        (ChunkState::Name | ChunkState::NameBlank, b'=') => Some(ChunkState::ValueFirst),
        (
            ChunkState::Name
            | ChunkState::NameBlank
            | ChunkState::Value
            | ChunkState::ValueEnd
            | ChunkState::ValueBlank,
            b';',
        ) => Some(ChunkState::NameFirst),
        (ChunkState::ValueFirst, b'"') => Some(ChunkState::Quoted),
        (ChunkState::ValueFirst | ChunkState::Value, _) if is_token_byte(byte) => Some(ChunkState::Value),
        (ChunkState::Value | ChunkState::ValueEnd | ChunkState::ValueBlank, _) if is_blank => {
            Some(ChunkState::ValueBlank)
        }
        (ChunkState::Quoted, b'"') => Some(ChunkState::ValueEnd),
        (ChunkState::Quoted, b'\\') => Some(ChunkState::Escaped),
        (ChunkState::Quoted | ChunkState::Escaped, _) if is_text => Some(ChunkState::Quoted),
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
