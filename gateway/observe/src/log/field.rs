//! The named fields of a log line.

use std::net::SocketAddr;
use std::time::Duration;

use super::clock::WallClock;
use super::{escape, text};
use crate::{EndpointAttempt, Reason, Record};

macro_rules! fields {
    ($($(#[$doc:meta])* $variant:ident = $name:literal;)+) => {
        /// A named field of a log line. `docs/access-log.md` has the table for users.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Field {
            $($(#[$doc])* $variant,)+
        }

        impl Field {
            /// Every field, in the order of the JSON object.
            pub const ALL: &'static [Field] = &[$(Field::$variant),+];

            /// The name in templates, and the key in JSON.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Field::$variant => $name,)+ }
            }
        }
    };
}

fields! {
    /// When the exchange ended: RFC 3339 with milliseconds, UTC.
    Time = "time";
    /// The same as nginx writes it, `31/Jan/2026:23:59:59 +0000`; not in JSON.
    TimeLocal = "time_local";
    /// The client's IP address; `unix:` for a Unix socket.
    Client = "client";
    /// The client's port.
    ClientPort = "client_port";
    /// The IP address of the connection's other end; not in JSON where that is the client, nor is the next.
    Peer = "peer";
    /// Its port.
    PeerPort = "peer_port";
    /// `http` or `https`: what the client has used.
    Scheme = "scheme";
    /// The method.
    Method = "method";
    /// The request target as it came.
    Target = "target";
    /// The target's path.
    Path = "path";
    /// The target's query, without `?`.
    Query = "query";
    /// The version, `HTTP/1.1`.
    Protocol = "protocol";
    /// The host that was asked for.
    Host = "host";
    /// The version of TLS, `1.3`; not in JSON where there is none, nor are the next three.
    TlsVersion = "tls_version";
    /// The cipher suite.
    TlsCipher = "tls_cipher";
    /// The name that the client asked for in the handshake.
    Sni = "sni";
    /// Who the client's certificate is for.
    ClientSubject = "client_subject";
    /// The SHA-256 hash of it; not in JSON where there is none.
    ClientFingerprint = "client_fingerprint";
    /// The status of the answer; 0: nothing was answered (`000` in text).
    Status = "status";
    /// The `grpc-status` of a gRPC call.
    GrpcStatus = "grpc_status";
    /// The reason, `-` if the upstream's answer went through.
    Reason = "reason";
    /// More on the reason.
    Detail = "detail";
    /// The route's name.
    Route = "route";
    /// The upstream's name.
    Upstream = "upstream";
    /// The endpoint's address.
    Endpoint = "endpoint";
    /// The endpoints of all attempts; not in JSON where there was one attempt, nor are the next three.
    Endpoints = "endpoints";
    /// The status that each of them answered.
    EndpointStatuses = "endpoint_statuses";
    /// Why each attempt came to nothing.
    EndpointReasons = "endpoint_reasons";
    /// Milliseconds of each attempt.
    EndpointMs = "endpoint_ms";
    /// Bytes of the request body.
    BytesIn = "bytes_in";
    /// Bytes of the response body.
    BytesOut = "bytes_out";
    /// The request id.
    RequestId = "request_id";
    /// The consumer that a policy has told apart; not in JSON where there is none.
    Consumer = "consumer";
    /// The trace that the request belongs to, and its span; not in JSON where it is in none.
    TraceId = "trace_id";
    /// The span.
    SpanId = "span_id";
    /// The `Referer` field.
    Referer = "referer";
    /// The `User-Agent` field.
    UserAgent = "user_agent";
    /// How many times the request was sent to an endpoint.
    Attempts = "attempts";
    /// Whether the last attempt went over a pooled connection.
    Reused = "reused";
    /// Milliseconds of the whole exchange.
    TotalMs = "total_ms";
    /// Milliseconds to open the upstream connection.
    ConnectMs = "connect_ms";
    /// Milliseconds from the request's first byte to the head of the response.
    HeaderMs = "header_ms";
    /// Milliseconds from the head of the response to the end.
    BodyMs = "body_ms";
}

/// What a field holds in one record.
pub(super) enum Value<'a> {
    /// Nothing: `-` in text, `null` in JSON.
    Absent,
    /// Bytes that need escaping.
    Text(&'a [u8]),
    /// A number.
    Number(u64),
    /// A status: three digits in text.
    Status(u16),
    /// A duration, in milliseconds.
    Millis(Duration),
    /// True or false.
    Flag(bool),
    /// The number of a trace: 32 digits of base 16.
    Trace(u128),
    /// The number of a span: 16 of them.
    Span(u64),
    /// The client's address.
    Address(SocketAddr),
    /// The time: the clock's second, and this millisecond.
    Time(u32),
    /// The time, as nginx writes it.
    TimeLocal,
}

impl Field {
    /// The field of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Field> {
        Field::ALL.iter().copied().find(|field| field.name() == name)
    }

    /// Whether it is left out of this record's JSON: a gateway without TLS and without policies would write seven nulls in
    /// each line.
    #[inline]
    pub(super) fn is_left_out(self, record: &Record<'_>) -> bool {
        match self {
            Self::TimeLocal => true,
            Self::TlsVersion | Self::TlsCipher | Self::Sni | Self::ClientSubject => record.tls.is_none(),
            Self::ClientFingerprint => record.tls.is_none_or(|tls| tls.client_fingerprint.is_none()),
            Self::Consumer => record.consumer.is_none(),
            Self::Endpoints | Self::EndpointStatuses | Self::EndpointReasons | Self::EndpointMs => {
                record.earlier == 0
            }
            Self::TraceId | Self::SpanId => record.span.is_none(),
            Self::Peer | Self::PeerPort => record.peer == record.client,
            _ => false,
        }
    }

    /// Appends it as nginx would.
    #[inline]
    pub(super) fn write_text(self, line: &mut Vec<u8>, record: &Record<'_>, clock: &WallClock, millis: u32) {
        match self.of_attempts() {
            None => self.value(record, millis).write_text(line, clock),
            Some(of) => {
                let start = line.len();
                for attempt in (0..).map_while(|index| record.attempt(index)) {
                    if line.len() > start {
                        line.extend_from_slice(b", ");
                    }
                    of(&attempt).write_text(line, clock);
                }
                if line.len() == start {
                    line.push(b'-');
                }
            }
        }
    }

    /// Appends it as JSON.
    #[inline]
    pub(super) fn write_json(self, line: &mut Vec<u8>, record: &Record<'_>, clock: &WallClock, millis: u32) {
        match self.of_attempts() {
            None => self.value(record, millis).write_json(line, clock),
            Some(of) => {
                line.push(b'[');
                for (index, attempt) in (0..).map_while(|index| record.attempt(index)).enumerate() {
                    if index > 0 {
                        line.push(b',');
                    }
                    of(&attempt).write_json(line, clock);
                }
                line.push(b']');
            }
        }
    }

    /// What a field that is a list has of each attempt.
    #[inline]
    fn of_attempts(self) -> Option<for<'a> fn(&EndpointAttempt<'a>) -> Value<'a>> {
        match self {
            Field::Endpoints => Some(|attempt| Value::Text(attempt.endpoint.as_bytes())),
            Field::EndpointStatuses => Some(|attempt| match attempt.status {
                0 => Value::Absent,
                status => Value::Status(status),
            }),
            Field::EndpointReasons => Some(|attempt| reason(attempt.reason)),
            Field::EndpointMs => Some(|attempt| Value::Millis(attempt.took)),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn value<'a>(self, record: &Record<'a>, millis: u32) -> Value<'a> {
        match self {
            Field::Time => Value::Time(millis),
            Field::TimeLocal => Value::TimeLocal,
            Field::Client => Value::Address(record.client),
            Field::ClientPort => port(record.client),
            Field::Peer => Value::Address(record.peer),
            Field::PeerPort => port(record.peer),
            Field::Scheme => Value::Text(if record.secure { b"https" } else { b"http" }),
            Field::Method => filled(record.method),
            Field::Target => filled(record.target),
            Field::Path => filled(record.path()),
            Field::Query => optional(record.query()),
            Field::Protocol => filled(record.version),
            Field::Host => optional(record.host),
            Field::TlsVersion => optional(record.tls.map(|tls| tls.version.as_bytes())),
            Field::TlsCipher => optional(record.tls.map(|tls| tls.cipher.as_bytes())),
            Field::Sni => optional(record.tls.and_then(|tls| tls.server_name).map(str::as_bytes)),
            Field::ClientSubject => {
                optional(record.tls.and_then(|tls| tls.client_subject).map(str::as_bytes))
            }
            Field::ClientFingerprint => {
                optional(record.tls.and_then(|tls| tls.client_fingerprint).map(str::as_bytes))
            }
            // Lists: see `write_text` and `write_json`.
            Field::Endpoints | Field::EndpointStatuses | Field::EndpointReasons | Field::EndpointMs => {
                Value::Absent
            }
            Field::Status => Value::Status(record.status),
            Field::GrpcStatus => record.grpc_status.map_or(Value::Absent, |code| Value::Number(code.into())),
            Field::Reason => reason(record.reason),
            Field::Detail => optional(record.detail.map(str::as_bytes)),
            Field::Route => filled(record.route.as_bytes()),
            Field::Upstream => filled(record.upstream.as_bytes()),
            Field::Endpoint => filled(record.endpoint.as_bytes()),
            Field::BytesIn => Value::Number(record.bytes_in),
            Field::BytesOut => Value::Number(record.bytes_out),
            Field::RequestId => optional(record.request_id),
            Field::Consumer => optional(record.consumer.map(str::as_bytes)),
            Field::TraceId => record.span.map_or(Value::Absent, |(trace, _)| Value::Trace(trace)),
            Field::SpanId => record.span.map_or(Value::Absent, |(_, span)| Value::Span(span)),
            Field::Referer => optional(record.referer),
            Field::UserAgent => optional(record.user_agent),
            Field::Attempts => Value::Number(record.attempts.into()),
            Field::Reused => Value::Flag(record.reused),
            Field::TotalMs => Value::Millis(record.total),
            Field::ConnectMs => duration(record.connect),
            Field::HeaderMs => duration(record.header),
            Field::BodyMs => duration(record.body()),
        }
    }
}

fn reason(reason: Reason) -> Value<'static> {
    match reason {
        Reason::None => Value::Absent,
        reason => Value::Text(reason.as_str().as_bytes()),
    }
}

fn filled(bytes: &[u8]) -> Value<'_> {
    match bytes {
        [] => Value::Absent,
        _ => Value::Text(bytes),
    }
}

fn optional(bytes: Option<&[u8]>) -> Value<'_> {
    bytes.map_or(Value::Absent, Value::Text)
}

fn duration(duration: Option<Duration>) -> Value<'static> {
    duration.map_or(Value::Absent, Value::Millis)
}

/// A port of 0 is not known.
fn port(address: SocketAddr) -> Value<'static> {
    match address.port() {
        0 => Value::Absent,
        port => Value::Number(port.into()),
    }
}

/// A Unix socket's peer has no address: the record says `0.0.0.0:0`.
fn is_unix(client: SocketAddr) -> bool {
    client.port() == 0 && client.ip().is_unspecified()
}

impl Value<'_> {
    /// Appends the value as nginx would.
    #[inline]
    pub(super) fn write_text(&self, line: &mut Vec<u8>, clock: &WallClock) {
        match *self {
            Value::Absent => line.push(b'-'),
            Value::Text(bytes) => escape::text(line, bytes),
            Value::Number(number) => text::number(line, number),
            // nginx prints an unset status so, too.
            Value::Status(0) => line.extend_from_slice(b"000"),
            Value::Status(status) => text::number(line, status.into()),
            Value::Millis(duration) => text::millis(line, duration),
            Value::Flag(flag) => line.extend_from_slice(if flag { b"true" } else { b"false" }),
            Value::Trace(trace) => text::hexadecimal(line, &trace.to_be_bytes()),
            Value::Span(span) => text::hexadecimal(line, &span.to_be_bytes()),
            Value::Address(client) if is_unix(client) => line.extend_from_slice(b"unix:"),
            Value::Address(client) => text::address(line, client.ip()),
            Value::Time(millis) => time(line, clock, millis),
            Value::TimeLocal => line.extend_from_slice(clock.local()),
        }
    }

    /// Appends the value as JSON.
    #[inline]
    pub(super) fn write_json(&self, line: &mut Vec<u8>, clock: &WallClock) {
        match *self {
            Value::Absent => line.extend_from_slice(b"null"),
            Value::Text(bytes) => {
                line.push(b'"');
                escape::json(line, bytes);
                line.push(b'"');
            }
            Value::Status(status) => text::number(line, status.into()),
            Value::Number(_) | Value::Millis(_) | Value::Flag(_) => self.write_text(line, clock),
            Value::Address(_) | Value::Time(_) | Value::TimeLocal | Value::Trace(_) | Value::Span(_) => {
                line.push(b'"');
                self.write_text(line, clock);
                line.push(b'"');
            }
        }
    }
}

fn time(line: &mut Vec<u8>, clock: &WallClock, millis: u32) {
    let mut fraction = *b"000Z";
    super::clock::digits(&mut fraction[..3], millis);
    line.extend_from_slice(clock.rfc3339());
    line.extend_from_slice(&fraction);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_found() {
        for &field in Field::ALL {
            assert_eq!(Field::named(field.name()), Some(field));
        }
        assert_eq!(Field::named("colour"), None);
    }

    #[test]
    fn the_page_lists_exactly_these_fields() {
        let page = include_str!("../../../../docs/access-log.md");
        let table = page.split("## Fields").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap();
        let documented: BTreeSet<&str> = table
            .lines()
            .filter_map(|line| line.strip_prefix("| `"))
            .filter_map(|line| line.split('`').next())
            .collect();
        assert_eq!(documented, Field::ALL.iter().map(|field| field.name()).collect());
    }
}
