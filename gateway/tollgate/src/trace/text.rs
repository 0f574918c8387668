//! A trace as text: a line for the request or the stream, then a line for each step, with its time.

use std::fmt::Write as _;

use tollgate_observe::trace::{
    OtherRoute, RequestTrace, TraceEvent, TraceField, TraceHead, TraceStep, TraceStream, TraceTls,
};

use crate::plural::count_noun;
use crate::time::rfc3339;

/// Width of the column of times, and of the column of names.
const TIME: usize = 14;
const NAME: usize = 11;

/// Returns a trace as text, with an empty line at its end.
pub fn text(trace: &RequestTrace) -> String {
    let RequestTrace { started, method, host, target, status, reason, total_ms, steps, .. } = trace;
    let mut page = TraceText::default();
    let what = match (&trace.stream, method, target) {
        (Some(TraceStream { protocol, name }), ..) => {
            let name = name.as_ref().map_or("connection".to_owned(), |name| format!("stream {name}"));
            let host = host.as_ref().filter(|host| !name.ends_with(host.as_str()));
            format!("{protocol} {name}{}", host.map(|host| format!(" for {host}")).unwrap_or_default())
        }
        (None, Some(method), Some(target)) => {
            format!("{method} {}{target}", host.as_deref().unwrap_or_default())
        }
        _ => "unreadable request".to_owned(),
    };
    let outcome = match (status, reason) {
        (0, reason) if trace.stream.is_some() => reason.as_deref().unwrap_or("complete").to_owned(),
        (0, Some(reason)) => format!("no response, {reason}"),
        (0, None) => "no response".to_owned(),
        (status, Some(reason)) => format!("{status}, {reason}"),
        (status, None) => status.to_string(),
    };
    let at = rfc3339((started * 1000.0) as u64);
    let id = trace.request_id.as_ref().map(|id| format!(", id {id}")).unwrap_or_default();
    page.plain(&format!("{at}  {what}: {outcome}, {total_ms:.3} ms, worker {}{id}", trace.worker));
    for step in steps {
        page.step(step);
    }
    page.out.push('\n');
    page.out
}

#[derive(Default)]
struct TraceText {
    out: String,
}

impl TraceText {
    /// Writes a line without control characters, which could change the terminal.
    fn plain(&mut self, text: &str) {
        for character in text.chars() {
            match character.is_control() {
                true => self.out.extend(character.escape_default()),
                false => self.out.push(character),
            }
        }
        self.out.push('\n');
    }

    /// Writes the first line of a step.
    fn line(&mut self, at: Option<f64>, name: &str, text: &str) {
        let at = at.map(|at| format!("+{at:.3} ms")).unwrap_or_default();
        self.plain(&format!("{at:>TIME$}  {name:NAME$}{text}"));
    }

    /// Writes a further line of a step.
    fn more(&mut self, text: &str) {
        self.line(None, "", text);
    }

    fn step(&mut self, TraceStep { at_ms, event }: &TraceStep) {
        let at = *at_ms;
        match event {
            TraceEvent::Connection { peer, client, tls } => {
                let mut text = format!("from {peer}");
                if let Some(client) = client {
                    let _ = write!(text, ", for the client {client}");
                }
                text.push_str(&tls.as_ref().map_or(", plain text".to_owned(), tls_text));
                self.line(at, "connection", &text);
            }
            TraceEvent::Accepted { client, tls } => {
                let tls = tls.as_ref().map(tls_text).unwrap_or_default();
                self.line(at, "accepted", &format!("from {client}{tls}"));
            }
            TraceEvent::ClientHello { server_name, alpn } => {
                let mut text = match server_name {
                    Some(name) => format!("for {name}"),
                    None => "no server name".to_owned(),
                };
                if !alpn.is_empty() {
                    let _ = write!(text, ", offers {}", alpn.join(", "));
                }
                self.line(at, "hello", &text);
            }
            TraceEvent::Stream { name, action } => self.line(at, "stream", &format!("{name} ({action})")),
            TraceEvent::NoStream => self.line(at, "stream", "none"),
            TraceEvent::Connect { number, upstream, endpoint, connect_ms, reason, took_ms } => {
                let mut text = place(upstream, endpoint);
                if let Some(connect) = connect_ms {
                    let _ = write!(text, ", connected in {connect:.3} ms");
                }
                if let Some(reason) = reason {
                    let _ = write!(text, ": {reason}");
                }
                if let Some(took) = took_ms {
                    let _ = write!(text, ", took {took:.3} ms");
                }
                self.line(at, &format!("connect {number}"), &text);
            }
            TraceEvent::Relay { bytes_in, bytes_out } => {
                self.line(at, "relay", &format!("{bytes_in} bytes from the client, {bytes_out} to it"));
            }
            TraceEvent::Request { version, head } => {
                self.line(at, "request", &format!("{version}, {}", names(head)));
            }
            TraceEvent::Unreadable { bytes } => {
                let bytes = bytes.as_deref().map(|bytes| format!(": {bytes}")).unwrap_or_default();
                self.line(at, "request", &format!("cannot be read{bytes}"));
            }
            TraceEvent::Route { name, action, because, others, more_others } => {
                self.line(at, "route", &format!("{name} ({action}): {}", because.join(", ")));
                for OtherRoute { name, why } in others {
                    self.more(&format!("not {name}: {why}"));
                }
                if *more_others > 0 {
                    self.more(&format!("not {more_others} more that match"));
                }
            }
            TraceEvent::NoRoute { nearest } => {
                self.line(at, "route", "none");
                for OtherRoute { name, why } in nearest {
                    self.more(&format!("not {name}: {why}"));
                }
            }
            TraceEvent::Policy { kind, place, verdict, waited_for, waited_ms } => {
                let mut text = format!("{kind} of {place}: {verdict}");
                if let (false, Some(waited)) = (waited_for.is_empty(), waited_ms) {
                    let _ = write!(text, ", after {waited:.3} ms for {}", waited_for.join(" and "));
                }
                self.line(at, "policy", &text);
            }
            TraceEvent::Consumer { name } => self.line(at, "consumer", name),
            TraceEvent::Attempt {
                number,
                upstream,
                endpoint,
                reused,
                connect_ms,
                status,
                reason,
                took_ms,
            } => {
                let mut text = place(upstream, endpoint);
                match (reused, connect_ms) {
                    (Some(true), _) => text.push_str(", pooled connection"),
                    (_, Some(connect)) => {
                        let _ = write!(text, ", connected in {connect:.3} ms");
                    }
                    (_, None) => {}
                }
                match (status, reason) {
                    (Some(status), Some(reason)) => {
                        let _ = write!(text, ": {status}, then {reason}");
                    }
                    (Some(status), None) => {
                        let _ = write!(text, ": {status}");
                    }
                    (None, Some(reason)) => {
                        let _ = write!(text, ": {reason}");
                    }
                    (None, None) => text.push_str(": given up"),
                }
                let _ = write!(text, ", took {took_ms:.3} ms");
                self.line(at, &format!("attempt {number}"), &text);
            }
            TraceEvent::Sent { head, bytes } => {
                self.line(at, "sent", &format!("{}, {}", head.line, body(*bytes)));
                self.fields(head);
            }
            TraceEvent::Received { head } => {
                self.line(at, "received", &head.line);
                self.fields(head);
            }
            TraceEvent::Response { by, head, bytes } => {
                self.line(at, "response", &format!("{} by the {by}, {}", head.line, body(*bytes)));
                // An endpoint's fields were shown when they were received.
                match by.as_str() {
                    "endpoint" => self.more(&names(head)),
                    _ => self.fields(head),
                }
            }
            TraceEvent::End { reason, detail, grpc_status, .. } => {
                let mut text = reason.as_deref().unwrap_or("complete").to_owned();
                if let Some(status) = grpc_status {
                    let _ = write!(text, ", grpc-status {status}");
                }
                if let Some(detail) = detail {
                    let _ = write!(text, " ({detail})");
                }
                self.line(at, "end", &text);
            }
        }
    }

    fn fields(&mut self, head: &TraceHead) {
        for TraceField { name, value } in &head.fields {
            self.more(&format!("{name}: {}", value.as_deref().unwrap_or("(hidden)")));
        }
        if head.more_fields > 0 {
            self.more(&format!("and {} more", head.more_fields));
        }
    }
}

/// Returns the upstream and its endpoint. An upstream without a name is named by its endpoint.
fn place(upstream: &str, endpoint: &str) -> String {
    match upstream == endpoint {
        true => endpoint.to_owned(),
        false => format!("{upstream}, {endpoint}"),
    }
}

/// Returns the properties of a client's TLS connection, after a comma.
fn tls_text(tls: &TraceTls) -> String {
    let mut text = format!(", TLS {} {}", tls.version, tls.cipher);
    if let Some(name) = &tls.server_name {
        let _ = write!(text, " for {name}");
    }
    if let Some(subject) = &tls.client_subject {
        let _ = write!(text, ", certificate of {subject}");
    }
    text
}

fn body(bytes: u64) -> String {
    match bytes {
        0 => "no body".to_owned(),
        bytes => format!("{bytes} bytes of body"),
    }
}

/// Returns the names of the fields of a head.
fn names(head: &TraceHead) -> String {
    let names: Vec<&str> = head.fields.iter().map(|field| field.name.as_str()).collect();
    let count = names.len() + head.more_fields;
    match names.is_empty() {
        true => "no fields".to_owned(),
        false => format!("{}: {}", count_noun(count, "field"), names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_step_is_a_line_with_its_time() {
        let head = json!({"line": "GET /a?b=*", "fields": [
            {"name": "Host", "value": "h"}, {"name": "Cookie", "value": null},
        ], "more_fields": 1});
        let with = |step: &str, mut value: serde_json::Value| {
            value["step"] = step.into();
            value
        };
        let mut request = head.clone();
        request["version"] = "HTTP/1.1".into();
        let mut sent = head;
        sent["bytes"] = 3.into();
        let trace = json!({
            "started": 1_790_000_000.25, "worker": 1, "method": "GET", "host": "h", "target": "/a?b=*",
            "request_id": "7", "status": 502, "reason": "connection_refused", "total_ms": 12.5,
            "steps": [
                with("connection", json!({"at_ms": 0.0, "peer": "192.0.2.1:7", "client": "198.51.100.1", "tls": {
                    "version": "1.3", "cipher": "C", "server_name": "h", "client_subject": null}})),
                with("request", request),
                with("route", json!({"name": "r", "action": "forward", "because": ["a", "b"],
                    "others": [{"name": "s", "why": "w"}], "more_others": 2})),
                with("policy", json!({"at_ms": 0.5, "kind": "jwt", "place": "route/r", "verdict": "continue",
                    "waited_for": ["the body", "another system"], "waited_ms": 0.25})),
                with("consumer", json!({"at_ms": 0.5, "name": "ann"})),
                with("attempt", json!({"at_ms": 0.5, "number": 1, "upstream": "u", "endpoint": "e", "reused": null,
                    "connect_ms": null, "status": null, "reason": "connection_refused", "took_ms": 12.0})),
                with("sent", sent),
                with("end", json!({"at_ms": 12.5, "reason": "connection_refused", "detail": "d\u{1b}",
                    "grpc_status": 14, "bytes_in": 3, "bytes_out": 0})),
            ],
        });
        let trace: RequestTrace = serde_json::from_value(trace).expect("a trace");
        assert_eq!(
            text(&trace),
            "2026-09-21T14:13:20.250Z  GET h/a?b=*: 502, connection_refused, 12.500 ms, worker 1, id 7
     +0.000 ms  connection from 192.0.2.1:7, for the client 198.51.100.1, TLS 1.3 C for h
                request    HTTP/1.1, 3 fields: Host, Cookie
                route      r (forward): a, b
                           not s: w
                           not 2 more that match
     +0.500 ms  policy     jwt of route/r: continue, after 0.250 ms for the body and another system
     +0.500 ms  consumer   ann
     +0.500 ms  attempt 1  u, e: connection_refused, took 12.000 ms
                sent       GET /a?b=*, 3 bytes of body
                           Host: h
                           Cookie: (hidden)
                           and 1 more
    +12.500 ms  end        connection_refused, grpc-status 14 (d\\u{1b})

"
        );
    }

    #[test]
    fn a_stream_has_steps_of_its_own() {
        let trace = json!({
            "stream": {"protocol": "TCP", "name": "mail"},
            "started": 1_790_000_000.25, "worker": 0, "method": null, "host": "imap.example", "target": null,
            "request_id": null, "status": 0, "reason": null, "total_ms": 2315.25,
            "steps": [
                {"step": "accepted", "at_ms": 0.0, "client": "192.0.2.7:56620", "tls": null},
                {"step": "client_hello", "at_ms": 0.31, "server_name": "imap.example", "alpn": ["h2", "http/1.1"]},
                {"step": "stream", "at_ms": 0.31, "name": "mail", "action": "forward"},
                {"step": "connect", "at_ms": 0.31, "number": 1, "upstream": "mail", "endpoint": "10.0.0.4:993",
                    "connect_ms": null, "reason": "connection_refused", "took_ms": 0.2},
                {"step": "connect", "at_ms": 0.51, "number": 2, "upstream": "mail", "endpoint": "10.0.0.5:993",
                    "connect_ms": 0.262, "reason": null, "took_ms": 0.27},
                {"step": "relay", "at_ms": 0.78, "bytes_in": 1830, "bytes_out": 45210},
                {"step": "end", "at_ms": 2315.25, "reason": null, "detail": null, "grpc_status": null,
                    "bytes_in": 1830, "bytes_out": 45210},
            ],
        });
        let trace: RequestTrace = serde_json::from_value(trace).expect("a trace");
        assert_eq!(
            text(&trace),
            "2026-09-21T14:13:20.250Z  TCP stream mail for imap.example: complete, 2315.250 ms, worker 0
     +0.000 ms  accepted   from 192.0.2.7:56620
     +0.310 ms  hello      for imap.example, offers h2, http/1.1
     +0.310 ms  stream     mail (forward)
     +0.310 ms  connect 1  mail, 10.0.0.4:993: connection_refused, took 0.200 ms
     +0.510 ms  connect 2  mail, 10.0.0.5:993, connected in 0.262 ms, took 0.270 ms
     +0.780 ms  relay      1830 bytes from the client, 45210 to it
  +2315.250 ms  end        complete

"
        );
    }
}
