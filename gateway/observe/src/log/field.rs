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

            /// Returns the name in templates, which is also the key in JSON.
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
    /// The same in nginx's format, `31/Jan/2026:23:59:59 +0000`; not in JSON.
    TimeLocal = "time_local";
    /// The client's IP address; `unix:` for a Unix socket.
    Client = "client";
    /// The client's port.
    ClientPort = "client_port";
    /// The IP address of the connection's other end; in JSON, this and the next field are left out if it is
    /// the client.
    Peer = "peer";
    /// The port of the connection's other end.
    PeerPort = "peer_port";
    /// `http` or `https`: the scheme that the client used. `tcp`, `tls` or `udp` for streams.
    Scheme = "scheme";
    /// The method.
    Method = "method";
    /// The request target as received.
    Target = "target";
    /// The target's path.
    Path = "path";
    /// The target's query, without `?`.
    Query = "query";
    /// The version, `HTTP/1.1`.
    Protocol = "protocol";
    /// The requested host.
    Host = "host";
    /// The version of TLS, `1.3`; in JSON, this and the next three fields are left out without TLS.
    TlsVersion = "tls_version";
    /// The cipher suite.
    TlsCipher = "tls_cipher";
    /// The server name from the client's handshake.
    Sni = "sni";
    /// The protocols that the client of a stream offered in its TLS handshake; in JSON, left out otherwise.
    Alpn = "alpn";
    /// The JA4 fingerprint of that handshake; in JSON, left out otherwise.
    Ja4 = "ja4";
    /// Subject of the client's certificate.
    ClientSubject = "client_subject";
    /// SHA-256 hash of the client's certificate; in JSON, left out if there is none.
    ClientFingerprint = "client_fingerprint";
    /// `true` if the client's certificate is not valid and the client was admitted nevertheless; in JSON, left out otherwise.
    ClientUnverified = "client_unverified";
    /// The status of the answer; 0: nothing was sent (`000` in text).
    Status = "status";
    /// The `grpc-status` of a gRPC call.
    GrpcStatus = "grpc_status";
    /// The reason, `-` if the upstream's answer went through.
    Reason = "reason";
    /// Detail on the reason.
    Detail = "detail";
    /// The route's name.
    Route = "route";
    /// The upstream's name.
    Upstream = "upstream";
    /// The endpoint's address.
    Endpoint = "endpoint";
    /// The endpoints of all attempts; in JSON, this and the next three fields are left out if there was one
    /// attempt.
    Endpoints = "endpoints";
    /// The status of each attempt.
    EndpointStatuses = "endpoint_statuses";
    /// Why each attempt failed.
    EndpointReasons = "endpoint_reasons";
    /// Duration of each attempt, in milliseconds.
    EndpointMs = "endpoint_ms";
    /// What the cache did: `hit`, `miss` and others; in JSON, left out if the route has none.
    Cache = "cache_status";
    /// Bytes of the request body.
    BytesIn = "bytes_in";
    /// Bytes of the response body.
    BytesOut = "bytes_out";
    /// The request id.
    RequestId = "request_id";
    /// The consumer that a policy identified; in JSON, left out if there is none.
    Consumer = "consumer";
    /// The trace of the request; in JSON, this and the next field are left out if it belongs to none.
    TraceId = "trace_id";
    /// The span of the request in that trace.
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

/// The value of a field in one record.
pub(super) enum Value<'a> {
    /// No value: `-` in text, `null` in JSON.
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
    /// The id of a trace: 32 hexadecimal digits.
    Trace(u128),
    /// The id of a span: 16 hexadecimal digits.
    Span(u64),
    /// An IP address; `unix:` for the peer of a Unix socket.
    Address(SocketAddr),
    /// The time: the clock's cached second, and this millisecond.
    Time(u32),
    /// The time in nginx's format.
    TimeLocal,
}

impl Field {
    /// The fields of a stream's JSON object, in order: the fields that need no request.
    pub(super) const OF_STREAMS: &'static [Field] = &[
        Field::Time,
        Field::Client,
        Field::ClientPort,
        Field::Scheme,
        Field::Protocol,
        Field::TlsVersion,
        Field::TlsCipher,
        Field::Sni,
        Field::Alpn,
        Field::Ja4,
        Field::ClientSubject,
        Field::ClientFingerprint,
        Field::Reason,
        Field::Route,
        Field::Upstream,
        Field::Endpoint,
        Field::BytesIn,
        Field::BytesOut,
        Field::Attempts,
        Field::TotalMs,
        Field::ConnectMs,
    ];

    /// Returns the field with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Field> {
        Field::ALL.iter().copied().find(|field| field.name() == name)
    }

    /// Returns whether the field is left out of this record's JSON. Otherwise a gateway without TLS and
    /// policies would write seven nulls in each line.
    #[inline]
    pub(super) fn omit_in_json(self, record: &Record<'_>) -> bool {
        match self {
            Self::TimeLocal => true,
            Self::TlsVersion | Self::TlsCipher | Self::ClientSubject => record.tls.is_none(),
            Self::Sni => record.tls.is_none() && record.sni.is_none(),
            Self::Alpn => record.alpn.is_none(),
            Self::Ja4 => record.ja4.is_none(),
            Self::ClientFingerprint => record.tls.is_none_or(|tls| tls.client_fingerprint.is_none()),
            Self::ClientUnverified => record.tls.is_none_or(|tls| !tls.client_unverified),
            Self::Consumer => record.consumer.is_none(),
            Self::Cache => record.cache.is_none(),
            Self::Endpoints | Self::EndpointStatuses | Self::EndpointReasons | Self::EndpointMs => {
                record.earlier == 0
            }
            Self::TraceId | Self::SpanId => record.span.is_none(),
            Self::Peer | Self::PeerPort => record.peer == record.client,
            _ => false,
        }
    }

    /// Appends the field in nginx's notation.
    #[inline]
    pub(super) fn write_text(self, line: &mut Vec<u8>, record: &Record<'_>, clock: &WallClock, millis: u32) {
        match self.per_attempt() {
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

    /// Appends the field as JSON.
    #[inline]
    pub(super) fn write_json(self, line: &mut Vec<u8>, record: &Record<'_>, clock: &WallClock, millis: u32) {
        match self.per_attempt() {
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

    /// Returns the function that reads one attempt's value, for a field that is a list.
    #[inline]
    fn per_attempt(self) -> Option<for<'a> fn(&EndpointAttempt<'a>) -> Value<'a>> {
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
            Field::Scheme => Value::Text(match (record.is_stream, record.secure) {
                (false, true) => b"https",
                (false, false) => b"http",
                (true, true) => b"tls",
                (true, false) if record.version == b"UDP" => b"udp",
                (true, false) => b"tcp",
            }),
            Field::Method => filled(record.method),
            Field::Target => filled(record.target),
            Field::Path => filled(record.path()),
            Field::Query => optional(record.query()),
            Field::Protocol => filled(record.version),
            Field::Host => optional(record.host),
            Field::TlsVersion => optional(record.tls.map(|tls| tls.version.as_bytes())),
            Field::TlsCipher => optional(record.tls.map(|tls| tls.cipher.as_bytes())),
            Field::Sni => {
                let name = record.tls.and_then(|tls| tls.server_name).or(record.sni);
                optional(name.map(str::as_bytes))
            }
            Field::Alpn => optional(record.alpn),
            Field::Ja4 => optional(record.ja4.map(str::as_bytes)),
            Field::ClientSubject => {
                optional(record.tls.and_then(|tls| tls.client_subject).map(str::as_bytes))
            }
            Field::ClientFingerprint => {
                optional(record.tls.and_then(|tls| tls.client_fingerprint).map(str::as_bytes))
            }
            Field::ClientUnverified => {
                optional(record.tls.filter(|tls| tls.client_unverified).map(|_| b"true".as_slice()))
            }
            // These fields are lists: see `write_text` and `write_json`.
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
            Field::Cache => optional(record.cache.map(str::as_bytes)),
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

/// Returns the port; 0 means unknown.
fn port(address: SocketAddr) -> Value<'static> {
    match address.port() {
        0 => Value::Absent,
        port => Value::Number(port.into()),
    }
}

/// Returns whether the peer came over a Unix socket. It has no address: the record holds `0.0.0.0:0`.
fn is_unix(client: SocketAddr) -> bool {
    client.port() == 0 && client.ip().is_unspecified()
}

impl Value<'_> {
    /// Appends the value in nginx's notation.
    #[inline]
    pub(super) fn write_text(&self, line: &mut Vec<u8>, clock: &WallClock) {
        match *self {
            Value::Absent => line.push(b'-'),
            Value::Text(bytes) => escape::text(line, bytes),
            Value::Number(number) => text::number(line, number),
            // nginx also prints an unset status this way.
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
