//! A trace as text: a line for the request, then a line for each step, with its time.

use std::fmt::Write as _;

use tollgate_observe::trace::{OtherRoute, RequestTrace, TraceEvent, TraceField, TraceHead, TraceStep};

use crate::plural::count_noun;
use crate::time::rfc3339;

/// Width of the column of times, and of the column of names.
const TIME: usize = 14;
const NAME: usize = 11;

/// Returns a trace as text, with an empty line at its end.
pub fn text(trace: &RequestTrace) -> String {
    let RequestTrace { started, method, host, target, status, reason, total_ms, steps, .. } = trace;
    let mut page = Page::default();
    let what = match (method, target) {
        (Some(method), Some(target)) => {
            format!("{method} {}{target}", host.as_deref().unwrap_or_default())
        }
        _ => "unreadable request".to_owned(),
    };
    let outcome = match (status, reason) {
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
struct Page {
    out: String,
}

impl Page {
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
                match tls {
                    None => text.push_str(", plain text"),
                    Some(tls) => {
                        let _ = write!(text, ", TLS {} {}", tls.version, tls.cipher);
                        if let Some(name) = &tls.server_name {
                            let _ = write!(text, " for {name}");
                        }
                        if let Some(subject) = &tls.client_subject {
                            let _ = write!(text, ", certificate of {subject}");
                        }
                    }
                }
                self.line(at, "connection", &text);
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
                let mut text = format!("{upstream}, {endpoint}");
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
