//! The chunked coding (RFC 9112, section 7.1), read.

use super::BodyError;
use super::lines::field;
use crate::HeadLimits;
use crate::trailer::is_barred;

/// Bytes of one chunk extension: nobody in use sends any, and a long one is only a way to make a server read.
const MAX_EXTENSION: u32 = 1024;
/// Bytes of all chunk extensions of a body, for the same reason.
const MAX_EXTENSIONS: u32 = 16 * 1024;
/// Digits of a size: a size that fits into 60 bits needs no more than 15, and zeros before it could go on for ever.
const MAX_DIGITS: u32 = 16;
/// Of a trailer section for which nothing else is said: its bytes, with those fields that are dropped and without the empty line
/// that ends it, and its fields.
const TRAILERS: HeadLimits = HeadLimits { line: 0, head: 8 * 1024, fields: 100 };

/// Where reading a chunked body stands.
#[derive(Clone, Debug)]
pub(super) struct Chunked {
    state: State,
    /// Bytes of the chunk that are still to come, or its size while that is being read.
    left: u64,
    /// Digits of the size that is being read.
    digits: u32,
    /// Bytes of the current extension, and of all.
    extension: u32,
    extensions: u32,
    /// The trailer lines that may be passed on, and the one that is being read.
    trailers: Vec<u8>,
    /// Where in them the current line begins.
    line: usize,
    /// Bytes and whole fields of the trailer section so far, and how many there may be.
    trailers_read: usize,
    trailer_fields: usize,
    limits: HeadLimits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    SizeFirst,
    Size,
    Extension,
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
    pub(super) fn new() -> Self {
        Self {
            state: State::SizeFirst,
            left: 0,
            digits: 0,
            extension: 0,
            extensions: 0,
            trailers: Vec::new(),
            line: 0,
            trailers_read: 0,
            trailer_fields: 0,
            limits: TRAILERS,
        }
    }

    pub(super) fn limit_trailers(&mut self, limits: &HeadLimits) {
        self.limits = *limits;
    }

    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// The trailer section: whole lines, each with its CRLF, of the fields that may be passed on.
    pub(super) fn trailers(&self) -> &[u8] {
        &self.trailers
    }

    /// The same, of a body that has ended.
    pub(super) fn trailers_mut(&mut self) -> &mut Vec<u8> {
        &mut self.trailers
    }

    /// Reads on. The data of all chunks in `input` is moved together: afterwards it stands in the returned range.
    /// Says how many bytes of `input` it used.
    pub(super) fn read(&mut self, input: &mut [u8]) -> Result<(usize, std::ops::Range<usize>), BodyError> {
        let mut at = 0;
        let mut data = 0..0;
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
            if let Err(error) = self.step(input[at]) {
                self.state = State::Failed;
                return Err(error);
            }
            at += 1;
        }
        Ok((at, data))
    }

    fn step(&mut self, byte: u8) -> Result<(), BodyError> {
        self.state = match (self.state, byte) {
            (State::SizeFirst, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                self.digits = 0;
                self.digit(byte)?;
                State::Size
            }
            (State::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                self.digit(byte)?;
                State::Size
            }
            (State::Size, b'\r') | (State::Extension, b'\r') => State::SizeLineFeed,
            // RFC 9112, 7.1.1 lets white space stand before the semicolon; no client in use sends it, and readers differ.
            (State::Size, b';') => {
                self.extension = 0;
                State::Extension
            }
            // Bare LF, and every other control byte, is refused: another reader could end the line there.
            (State::Extension, b'\t' | b' '..=b'~' | 0x80..) => {
                self.extension += 1;
                self.extensions += 1;
                if self.extension > MAX_EXTENSION || self.extensions > MAX_EXTENSIONS {
                    return Err(BodyError::Chunk);
                }
                State::Extension
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

    fn digit(&mut self, byte: u8) -> Result<(), BodyError> {
        self.digits += 1;
        // Below 2^60, so that no sum with another length overflows.
        if self.digits > MAX_DIGITS || self.left >> 56 != 0 {
            return Err(BodyError::Chunk);
        }
        let digit = (byte as char).to_digit(16).unwrap_or_default();
        self.left = self.left << 4 | u64::from(digit);
        Ok(())
    }

    fn trailer(&mut self, byte: u8) -> Result<State, BodyError> {
        self.trailers_read += 1;
        // The line that this byte is a part of is a field more.
        if !self.limits.allow_trailers(self.trailers_read, self.trailer_fields + 1) {
            return Err(BodyError::Trailers);
        }
        self.trailers.push(byte);
        if byte != b'\n' {
            return Ok(State::Trailer);
        }
        let end = self.trailers.len();
        if !self.trailers[self.line..].ends_with(b"\r\n") {
            return Err(BodyError::Chunk);
        }
        let field = field(&self.trailers, self.line, end - 2).map_err(|_| BodyError::Chunk)?;
        if is_barred(field.name.of(&self.trailers)) {
            self.trailers.truncate(self.line);
        }
        self.line = self.trailers.len();
        self.trailer_fields += 1;
        Ok(State::TrailerFirst)
    }
}

#[cfg(test)]
mod tests;
