//! The formats of a trace context: W3C Trace Context (level 1) and B3.
//!
//! `trace` reads the parent in the first configured format that a request carries, removes all formats, and
//! writes the new context in each configured one. An invalid context counts as none.

use crate::Request;
use tollgate_config::section::Word;

/// A format of a trace context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Word)]
pub enum Propagation {
    /// The fields `traceparent` and `tracestate` (W3C Trace Context).
    W3c,
    /// The field `b3` (B3 single header).
    B3,
    /// The fields `X-B3-TraceId`, `X-B3-SpanId` and `X-B3-Sampled` (B3 multiple headers).
    B3Multi,
}

/// The parent span that a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ParentSpan {
    pub trace: u128,
    pub span: u64,
    pub sampled: bool,
}

/// The ids of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpanIds {
    pub trace: u128,
    pub span: u64,
}

impl SpanIds {
    /// Creates a span in the parent's trace, or in a new one. The ids must be random (W3C Trace Context,
    /// 3.2.2), but not unpredictable.
    pub fn new(parent: Option<&ParentSpan>) -> Self {
        Self {
            trace: parent.map_or_else(|| fastrand::u128(1..), |parent| parent.trace),
            span: fastrand::u64(1..),
        }
    }
}

const B3_MULTI_FIELDS: [&str; 5] =
    ["x-b3-traceid", "x-b3-spanid", "x-b3-parentspanid", "x-b3-sampled", "x-b3-flags"];

impl Propagation {
    /// All formats.
    pub(super) const ALL: [Self; 3] = [Self::W3c, Self::B3, Self::B3Multi];

    /// Returns the context of a request; `None` if it has none in this format, or an invalid one.
    pub(super) fn read(self, request: &Request<'_>) -> Option<ParentSpan> {
        match self {
            Self::W3c => traceparent(request.header("traceparent")?),
            Self::B3 => b3(request.header("b3")?),
            Self::B3Multi => {
                let sampled = request.header("x-b3-sampled");
                Some(ParentSpan {
                    trace: trace_id(request.header("x-b3-traceid")?)?,
                    span: span_id(request.header("x-b3-spanid")?)?,
                    sampled: sampled.is_some_and(is_sampled) || request.header("x-b3-flags") == Some(b"1"),
                })
            }
        }
    }

    /// Returns the sampling decision of a request without a context. In B3 it can stand alone (`b3: 0`).
    pub(super) fn decision(self, request: &Request<'_>) -> Option<bool> {
        let value = match self {
            Self::W3c => return None,
            Self::B3 => request.header("b3")?,
            Self::B3Multi if request.header("x-b3-traceid").is_some() => return None,
            Self::B3Multi if request.header("x-b3-flags") == Some(b"1") => b"d",
            Self::B3Multi => request.header("x-b3-sampled")?,
        };
        decision(value)
    }

    /// Removes the context from a request. `continued`: keeps the vendors' `tracestate`, because the trace
    /// continues.
    pub(super) fn remove(self, request: &mut Request<'_>, continued: bool) {
        match self {
            Self::W3c => {
                request.remove("traceparent");
                if !continued {
                    request.remove("tracestate");
                }
            }
            Self::B3 => request.remove("b3"),
            Self::B3Multi => B3_MULTI_FIELDS.iter().for_each(|name| request.remove(name)),
        }
    }

    /// Writes the context of this span to a request.
    pub(super) fn write(self, request: &mut Request<'_>, ids: &SpanIds, sampled: bool) {
        let SpanIds { trace, span } = ids;
        let flag = u8::from(sampled);
        match self {
            Self::W3c => {
                request.set("traceparent", format!("00-{trace:032x}-{span:016x}-{flag:02x}").as_bytes());
            }
            Self::B3 => request.set("b3", format!("{trace:032x}-{span:016x}-{flag}").as_bytes()),
            Self::B3Multi => {
                request.set("X-B3-TraceId", format!("{trace:032x}").as_bytes());
                request.set("X-B3-SpanId", format!("{span:016x}").as_bytes());
                request.set("X-B3-Sampled", flag.to_string().as_bytes());
            }
        }
    }
}

/// Parses `version "-" trace-id "-" parent-id "-" trace-flags` (W3C Trace Context, 3.2). Additional parts of
/// later versions are ignored.
fn traceparent(value: &[u8]) -> Option<ParentSpan> {
    let mut parts = value.split(|byte| *byte == b'-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let version = hex(version, 2)?;
    if version == 0xff || version == 0 && parts.next().is_some() || trace.len() != 32 {
        return None;
    }
    Some(ParentSpan { trace: trace_id(trace)?, span: span_id(span)?, sampled: hex(flags, 2)? & 1 == 1 })
}

/// Parses `trace-id "-" span-id ["-" sampling ["-" parent]]`.
fn b3(value: &[u8]) -> Option<ParentSpan> {
    let mut parts = value.split(|byte| *byte == b'-');
    let (trace, span) = (trace_id(parts.next()?)?, span_id(parts.next()?)?);
    Some(ParentSpan { trace, span, sampled: parts.next().is_some_and(is_sampled) })
}

fn is_sampled(value: &[u8]) -> bool {
    decision(value) == Some(true)
}

/// Parses a sampling decision.
fn decision(value: &[u8]) -> Option<bool> {
    match value {
        b"1" | b"d" | b"true" => Some(true),
        b"0" | b"false" => Some(false),
        _ => None,
    }
}

/// Parses 32 digits, or 16 in B3; zero is invalid.
fn trace_id(digits: &[u8]) -> Option<u128> {
    if !matches!(digits.len(), 16 | 32) {
        return None;
    }
    hex(digits, digits.len()).filter(|id| *id != 0)
}

fn span_id(digits: &[u8]) -> Option<u64> {
    hex(digits, 16).and_then(|id| u64::try_from(id).ok()).filter(|id| *id != 0)
}

/// Parses a number of exactly `length` hexadecimal digits in lower case.
fn hex(digits: &[u8], length: usize) -> Option<u128> {
    let lower = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != length || !digits.iter().all(lower) {
        return None;
    }
    u128::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Context;
    use crate::testing::Sent;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn contexts_of_w3c() {
        let parent = ParentSpan {
            trace: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736,
            span: 0x00f0_67aa_0ba9_02b7,
            sampled: true,
        };
        let read = |text: String| traceparent(text.as_bytes());
        assert_eq!(read(format!("00-{TRACE}-{SPAN}-01")), Some(parent));
        assert_eq!(read(format!("00-{TRACE}-{SPAN}-00")), Some(ParentSpan { sampled: false, ..parent }));
        assert_eq!(read(format!("cc-{TRACE}-{SPAN}-03-what-comes")), Some(parent), "a later version");
        for broken in [
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{}-{SPAN}-01", "0".repeat(32)),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-{SPAN}-{SPAN}-01"),
            String::new(),
        ] {
            assert_eq!(read(broken.clone()), None, "{broken}");
        }
    }

    #[test]
    fn contexts_of_b3() {
        let read = |text: String| b3(text.as_bytes()).map(|parent| parent.sampled);
        assert_eq!(read(format!("{TRACE}-{SPAN}-1")), Some(true));
        assert_eq!(read(format!("{SPAN}-{SPAN}-d-{SPAN}")), Some(true));
        assert_eq!(read(format!("{TRACE}-{SPAN}-0")), Some(false));
        assert_eq!(
            read(format!("{TRACE}-{SPAN}")),
            Some(false),
            "nobody has decided: it is not sampled here"
        );
        assert_eq!((read("0".to_owned()), read(format!("{TRACE}-"))), (None, None));
    }

    #[test]
    fn a_decision_of_b3_may_stand_alone() {
        for (form, fields, decides) in [
            (Propagation::B3, "b3: 0\r\n".to_owned(), Some(false)),
            (Propagation::B3, "b3: 1\r\n".to_owned(), Some(true)),
            (Propagation::B3, "b3: d\r\n".to_owned(), Some(true)),
            (Propagation::B3, format!("b3: {TRACE}\r\n"), None),
            (Propagation::B3, String::new(), None),
            (Propagation::B3Multi, "X-B3-Sampled: 0\r\n".to_owned(), Some(false)),
            (Propagation::B3Multi, "X-B3-Sampled: 0\r\nX-B3-Flags: 1\r\n".to_owned(), Some(true)),
            (Propagation::B3Multi, "X-B3-Sampled: 0\r\nX-B3-TraceId: broken\r\n".to_owned(), None),
            (Propagation::B3Multi, "X-B3-Sampled: maybe\r\n".to_owned(), None),
            (Propagation::W3c, "b3: 0\r\nX-B3-Sampled: 0\r\n".to_owned(), None),
        ] {
            let (mut sent, mut context) = (Sent::new(&fields), Context::default());
            let request = sent.request(&mut context);
            assert_eq!((form.read(&request), form.decision(&request)), (None, decides), "{fields}");
        }
    }
}
