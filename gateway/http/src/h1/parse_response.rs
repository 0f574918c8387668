//! Parses response heads.
//!
//! The exchange calls [`ResponseParser::advance`] after each read from an endpoint, until the head is
//! complete. The parser repairs loose heads where RFC 9112 allows it; [`ResponseParser::strict`] repairs no
//! fields.

use super::connection::ConnectionOptions;
use super::framing::declared_length_in_response;
use super::lines::{LineReader, Progress};
use super::{BodyLength, parse_request};
use crate::{HeadError, HeadLimits, Method, Range, ResponseHead, Version};

/// Parses one response head in pieces of any size.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResponseParser {
    lines: LineReader,
    is_strict: bool,
}

impl ResponseParser {
    /// Creates a parser for responses that decide something, such as the response of an authorisation
    /// service. It refuses white space before a colon and folded lines, as in requests.
    #[must_use]
    pub fn strict() -> Self {
        Self { is_strict: true, ..Self::default() }
    }

    /// Continues where the last call stopped. `bytes` is everything received since the head's first byte; it
    /// may have moved since the last call. `request_method` is the method of the request: it determines
    /// whether there is a body (RFC 9112, 6.3). Once the head is complete, `response` owns a copy of its
    /// bytes. Before that, and after an error, it has the complete lines so far, for the log. Each head needs
    /// a new parser.
    ///
    /// In the copy, the parser repairs what RFC 9112 allows a proxy to repair: a status without the blank
    /// after it (section 4), white space before a colon (5.1), folded lines (5.2), and a `Content-Length`
    /// with leading zeros.
    ///
    /// # Errors
    /// If the head is malformed or exceeds a limit. The connection cannot be used any more. Neither the
    /// result nor the error depends on the number of calls in which the bytes arrived.
    pub fn advance(
        &mut self,
        bytes: &[u8],
        request_method: Method,
        response: &mut ResponseHead,
        limits: &HeadLimits,
    ) -> Result<Progress, HeadError> {
        if self.lines.at_start() {
            response.clear();
            let within = limits.within_head(bytes);
            // A peer that is no HTTP server is detected by its first bytes, not at the limit.
            const BEGINNING: &[u8] = b"HTTP/";
            if !within.starts_with(&BEGINNING[..within.len().min(BEGINNING.len())]) {
                return Err(HeadError::StartLine);
            }
            let Some(end) = self.lines.start_line(within)? else {
                return if limits.is_head_full(within) {
                    Err(HeadError::TooLarge)
                } else {
                    Ok(Progress::Partial)
                };
            };
            if let Err(error) = status_line(response, &bytes[..end]) {
                response.clear();
                return Err(error);
            }
            if response.lacks_reason_separator() {
                self.lines.mark_for_normalizing();
            }
            response.head.fields_start = end as u32 + 2;
        }
        let progress = match self.is_strict {
            false => self.lines.fields::<true>(bytes, &mut response.head, limits),
            true => self.lines.fields::<false>(bytes, &mut response.head, limits),
        };
        if let Ok(Progress::Partial) = progress {
            response.head.append_partial(bytes, self.lines.complete_end());
            return progress;
        }
        response.head.append_received(bytes, self.lines.complete_end());
        if let Ok(Progress::Complete(_)) = progress {
            if self.lines.needs_normalizing() {
                response.normalize();
            }
            evaluate_framing(response, request_method)?;
        }
        progress
    }

    /// The bytes for which [`advance`](Self::advance) has just refused the head, as for
    /// [requests](super::RequestParser::rejected_bytes).
    #[must_use]
    pub fn rejected_bytes(&self, bytes: &[u8], error: HeadError, response: &ResponseHead) -> Option<Vec<u8>> {
        self.lines.rejected_bytes(bytes, error, &response.head)
    }
}

/// Parses `version SP status SP [reason]` (RFC 9112, section 4). Some servers omit the last space if there is
/// no reason; [`ResponseHead::normalize`] adds it.
fn status_line(response: &mut ResponseHead, line: &[u8]) -> Result<(), HeadError> {
    if line.len() < 12 || line[8] != b' ' {
        return Err(HeadError::StartLine);
    }
    response.version = parse_request::version(&line[..8])?;
    let digits = &line[9..12];
    if !digits.iter().all(u8::is_ascii_digit) || !matches!(line.get(12), None | Some(b' ')) {
        return Err(HeadError::StartLine);
    }
    response.status = digits.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'));
    if response.status < 100 {
        return Err(HeadError::StartLine);
    }
    response.status_line = Range::new(9, line.len());
    Ok(())
}

/// Evaluates the fields that determine the end of the message and the fate of the connection.
fn evaluate_framing(response: &mut ResponseHead, request_method: Method) -> Result<(), HeadError> {
    let (declared_length, is_padded) = declared_length_in_response(&response.head, response.version)?;
    if is_padded {
        response.normalize();
    }
    let bodiless = request_method == Method::Head
        || matches!(response.status, ..200 | 204 | 304)
        || (request_method == Method::Connect && response.status < 300);
    response.length = match declared_length {
        _ if bodiless => BodyLength::None,
        Some(length) => length,
        None => BodyLength::UntilClose,
    };
    let connection = ConnectionOptions::read(&mut response.head)?;
    response.keep_alive = connection.keeps(response.version) && response.length != BodyLength::UntilClose;
    response.nominates = connection.nominates;
    if response.status == 101 && (response.version == Version::Http10 || !connection.upgrade) {
        return Err(HeadError::StartLine);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
