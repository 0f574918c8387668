//! Parses request heads.
//!
//! The proxy calls [`RequestParser::advance`] after each read, until the head is complete. The parser checks
//! the request line, the fields, the host and the framing, and fills a [`RequestHead`]. It never accepts what
//! another server could interpret differently.

use super::connection::ConnectionOptions;
use super::framing::declared_length;
use super::lines::{LineReader, Progress};
use super::{BodyLength, target};
use crate::chars::token_length;
use crate::{Head, HeadError, HeadLimits, Method, Name, Range, RequestHead, TargetForm, Version};

/// Parses one request head in pieces of any size.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestParser {
    lines: LineReader,
}

impl RequestParser {
    /// Continues where the last call stopped. `bytes` is everything received since the head's first byte,
    /// without an empty line before it; it may have moved since the last call. Once the head is complete,
    /// `request` owns a copy of its bytes. Before that, and after an error, it has the complete lines so far,
    /// for the log. Each head needs a new parser.
    ///
    /// # Errors
    /// If the head is malformed or exceeds a limit. The connection cannot be used any more. Neither the
    /// result nor the error depends on the number of calls in which the bytes arrived.
    pub fn advance(
        &mut self,
        bytes: &[u8],
        request: &mut RequestHead,
        limits: &HeadLimits,
    ) -> Result<Progress, HeadError> {
        if self.lines.at_start() {
            request.clear();
            let within = limits.within_line(bytes);
            let line = self.lines.start_line(within);
            if !matches!(line, Ok(Some(_))) {
                request.method = method_of(within);
            }
            let Some(end) = line? else {
                return if limits.is_line_full(within) {
                    Err(HeadError::LineTooLong)
                } else if limits.is_head_full(within) {
                    Err(HeadError::TooLarge)
                } else {
                    Ok(Progress::Partial)
                };
            };
            if let Err(error) = request_line(request, bytes, end) {
                request.clear();
                request.method = method_of(within);
                return Err(error);
            }
            request.head.fields_start = end as u32 + 2;
        }
        let progress = self.lines.fields::<false>(bytes, &mut request.head, limits);
        if let Ok(Progress::Partial) = progress {
            request.head.append_partial(bytes, self.lines.complete_end());
            return progress;
        }
        request.head.append_received(bytes, self.lines.complete_end());
        if let Ok(Progress::Complete(_)) = progress {
            evaluate_framing(request)?;
        }
        progress
    }

    /// The bytes for which [`advance`](Self::advance) has just refused the head: at most 64, as received.
    /// `bytes` and `request` are the arguments of that call. `None` if no byte is at fault, as in a head that
    /// is too large.
    #[must_use]
    pub fn rejected_bytes(&self, bytes: &[u8], error: HeadError, request: &RequestHead) -> Option<Vec<u8>> {
        if error == HeadError::Host && request.form == TargetForm::Absolute {
            let host = request.head.all(Name::Host).map(|value| (&b"host"[..], value));
            let target = [(&b":authority"[..], request.slice(request.authority))];
            return crate::rejected_bytes::of_fields(error, target.into_iter().chain(host));
        }
        self.lines.rejected_bytes(bytes, error, &request.head)
    }

    /// Whether at most a part of the request line was received.
    #[must_use]
    pub fn at_start(&self) -> bool {
        self.lines.at_start()
    }
}

/// The method of an incomplete or malformed request line. It matters because the response to a HEAD has no
/// body, whatever its status (RFC 9110, 9.3.2).
#[cold]
fn method_of(line: &[u8]) -> Method {
    let method = token_length(line);
    if line.get(method) == Some(&b' ') { Method::of(&line[..method]) } else { Method::default() }
}

/// Parses `method SP target SP version`, with exactly one space each (RFC 9112, section 3).
fn request_line(request: &mut RequestHead, bytes: &[u8], end: usize) -> Result<(), HeadError> {
    let line = &bytes[..end];
    let method = token_length(line);
    if method == 0 || line.get(method) != Some(&b' ') {
        return Err(HeadError::StartLine);
    }
    // The shortest remainder is a one-byte target, a space and the version.
    let version = line.len().checked_sub(8).filter(|at| *at >= method + 3).ok_or(HeadError::StartLine)?;
    if line[version - 1] != b' ' {
        return Err(HeadError::StartLine);
    }
    request.version = self::version(&line[version..])?;
    request.method = Method::of(&line[..method]);
    request.method_text = Range::new(0, method);
    request.target = Range::new(method + 1, version - 1);
    target::split(request, bytes)
}

/// Parses the version. The error tells an unsupported version from text that is none.
pub(super) fn version(text: &[u8]) -> Result<Version, HeadError> {
    match text {
        b"HTTP/1.1" => Ok(Version::Http11),
        b"HTTP/1.0" => Ok(Version::Http10),
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            Err(HeadError::Version)
        }
        _ => Err(HeadError::StartLine),
    }
}

/// Evaluates the fields that determine the end of the message and the fate of the connection.
fn evaluate_framing(request: &mut RequestHead) -> Result<(), HeadError> {
    let declared_length = declared_length(&request.head, request.version)?;
    // RFC 9112, 6.3: a request without either field has no body.
    request.length = declared_length.unwrap_or(BodyLength::None);
    target::host(request)?;
    // Only a forward proxy accepts it. Nothing else in it needs to be understood, because the connection
    // closes.
    if request.form == TargetForm::Authority {
        return Ok(());
    }
    let connection = ConnectionOptions::read(&mut request.head)?;
    request.keep_alive = connection.keeps(request.version);
    request.nominates = connection.nominates;
    let is_11 = request.version == Version::Http11;
    let head = &request.head;
    // RFC 9110, 7.8: `Upgrade` is ignored without `Connection: upgrade` and in HTTP/1.0. Further lines are
    // ignored too.
    if is_11 && connection.upgrade {
        request.upgrade = head.find(Name::Upgrade).filter(|value| !value.is_empty());
    }
    // RFC 9110, 10.1.1: `Expect` in HTTP/1.0 is ignored.
    if is_11 && head.has(Name::Expect) {
        expect(request)?;
    }
    request.wants_trailers = wants_trailers(&request.head);
    Ok(())
}

/// Evaluates `Expect`, which must be present.
pub(crate) fn expect(request: &mut RequestHead) -> Result<(), HeadError> {
    if !request.head.all(Name::Expect).all(|value| value.eq_ignore_ascii_case(b"100-continue")) {
        return Err(HeadError::Expect);
    }
    request.expect_continue = !request.length.is_empty();
    Ok(())
}

/// Whether `TE` allows trailers in the response.
#[inline]
pub(crate) fn wants_trailers(head: &Head) -> bool {
    head.has(Name::Te) && head.list(Name::Te).any(|member| member.eq_ignore_ascii_case(b"trailers"))
}

#[cfg(test)]
mod tests;
