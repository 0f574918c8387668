//! Exports lines of the access log to a collector.
//!
//! The log's writer hands each line, which is JSON, to [`LogExport`]. That converts it to a `LogRecord` and
//! queues it for the exporter; if the queue is full, the line is lost and counted.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use tollgate_observe::LineTarget;

use super::collector_rule::CollectorRule;
use super::document::{Signal, any};
use super::export::Exporter;
use crate::BackgroundIo;

/// The values of `SEVERITY_NUMBER_INFO` and `SEVERITY_NUMBER_ERROR`.
const SEVERITY_INFO: u8 = 9;
const SEVERITY_ERROR: u8 = 17;

/// Log fields with a name in OpenTelemetry's semantic conventions for HTTP servers (1.23). All other fields
/// keep their name, with the prefix `tollgate.`.
const SEMANTIC_NAMES: [(&str, &str); 18] = [
    ("client", "client.address"),
    ("client_port", "client.port"),
    ("peer", "network.peer.address"),
    ("peer_port", "network.peer.port"),
    ("scheme", "url.scheme"),
    ("method", "http.request.method"),
    ("path", "url.path"),
    ("query", "url.query"),
    ("host", "server.address"),
    ("server.port", "server.port"),
    ("status", "http.response.status_code"),
    ("route", "http.route"),
    ("user_agent", "user_agent.original"),
    ("bytes_in", "http.request.body.size"),
    ("bytes_out", "http.response.body.size"),
    ("reason", "error.type"),
    ("tls_version", "tls.protocol.version"),
    ("tls_cipher", "tls.cipher"),
];

/// The time limit for queued lines at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// Exports the access log, whose lines are JSON, to a collector.
#[derive(Debug)]
pub struct LogExport {
    /// The exporter; `None` after the end.
    exporter: Mutex<Option<Exporter<String>>>,
    dropped: Arc<AtomicU64>,
    /// Carries no value: the channel closes when all lines are sent.
    ended: Mutex<Receiver<()>>,
}

impl LogExport {
    /// Starts an export to this collector on the background I/O thread.
    #[must_use]
    pub fn new(rule: CollectorRule, side: &BackgroundIo) -> Self {
        let dropped = Arc::<AtomicU64>::default();
        let (alive, ended) = sync_channel::<()>(0);
        let exporter = Exporter::new(Signal::Logs, rule, side, dropped.clone(), alive);
        Self { exporter: Mutex::new(Some(exporter)), dropped, ended: Mutex::new(ended) }
    }
}

impl LineTarget for LogExport {
    fn take(&self, line: &[u8]) -> bool {
        let Ok(Value::Object(fields)) = serde_json::from_slice(line) else { return false };
        let record = record(fields, SystemTime::now()).to_string();
        let exporter = self.exporter.lock().unwrap_or_else(PoisonError::into_inner);
        exporter.as_ref().is_some_and(|exporter| exporter.try_queue(record))
    }

    fn end(&self) {
        *self.exporter.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let _ = self.ended.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(SHUTDOWN_TIMEOUT);
    }

    fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }
}

/// Converts a line to a `LogRecord`.
fn record(mut fields: Map<String, Value>, now: SystemTime) -> Value {
    let status = fields.get("status").and_then(Value::as_u64).unwrap_or(0);
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or("-").to_owned();
    let body = format!("{} {} {status}", text("method"), text("target"));
    let failed = status == 0 || status >= 500;
    let (severity, word) = if failed { (SEVERITY_ERROR, "ERROR") } else { (SEVERITY_INFO, "INFO") };
    let time = text("time");
    let attribute = |(name, value): (String, Value)| {
        let key = SEMANTIC_NAMES.iter().find(|(own, _)| *own == name).map(|(_, key)| (*key).to_owned());
        let key = key.unwrap_or_else(|| format!("tollgate.{name}"));
        json!({ "key": key, "value": any(value) })
    };
    if let Some((host, port)) = fields.get("host").and_then(Value::as_str).and_then(split) {
        fields.insert("host".to_owned(), host.into());
        fields.insert("server.port".to_owned(), port.into());
    }
    let ids = ["trace_id", "span_id"].map(|name| fields.remove(name));
    let present = fields.into_iter().filter(|(name, value)| !value.is_null() && name != "time");
    let attributes: Vec<Value> = present.map(attribute).collect();
    let observed = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos()).to_string();
    let mut record = json!({
        "timeUnixNano": nanos(&time).unwrap_or_else(|| observed.clone()),
        "observedTimeUnixNano": observed,
        "severityNumber": severity,
        "severityText": word,
        "body": { "stringValue": body },
        "attributes": attributes,
    });
    // The ids are fields of the record itself, so that a collector can find the lines of a trace.
    for (key, id) in ["traceId", "spanId"].into_iter().zip(ids) {
        if let Some(id) = id {
            record[key] = id;
        }
    }
    record
}

/// Splits a host and its port (RFC 3986, section 3.2); `None` if there is no port.
fn split(host: &str) -> Option<(String, u16)> {
    let (host, port) = host.rsplit_once(':')?;
    let port = port.parse().ok()?;
    Some((host.trim_start_matches('[').trim_end_matches(']').to_owned(), port))
}

/// Parses a time of the log, such as `2026-01-31T23:59:59.123Z`, into nanoseconds since 1970.
fn nanos(time: &str) -> Option<String> {
    let number = |from: usize, to: usize| time.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second, millis) = (number(11, 13)?, number(14, 16)?, number(17, 19)?, number(20, 23)?);
    // Counts the days since 1970 in the proleptic Gregorian calendar, with years that start in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1 - 719_468;
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    (time.len() == 24 && seconds >= 0).then(|| format!("{seconds}{millis:03}000000"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_from_the_line() {
        assert_eq!(nanos("1970-01-01T00:00:00.000Z").as_deref(), Some("0000000000"));
        assert_eq!(nanos("2000-02-29T12:00:00.001Z").as_deref(), Some("951825600001000000"));
        assert_eq!(nanos("2026-01-31T23:59:59.123Z").as_deref(), Some("1769903999123000000"));
        assert_eq!((nanos("-"), nanos("2026-01-31T23:59:59Z")), (None, None));
    }

    #[test]
    fn a_line_becomes_a_record() {
        const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
        let line = json!({
            "time": "2026-01-31T23:59:59.123Z", "method": "GET", "target": "/a?b", "status": 502, "reason": "dns_error",
            "trace_id": TRACE, "span_id": "00f067aa0ba902b7",
            "total_ms": 1.5, "reused": true, "query": null, "host": "[::1]:8443",
        });
        let Value::Object(fields) = line else { panic!("an object") };
        let record = record(fields, SystemTime::now());
        assert_eq!(record["timeUnixNano"], "1769903999123000000");
        assert_eq!((&record["traceId"], &record["spanId"]), (&TRACE.into(), &"00f067aa0ba902b7".into()));
        assert!(!record["attributes"].to_string().contains(TRACE));
        assert_eq!(
            (&record["severityNumber"], &record["body"]["stringValue"]),
            (&17.into(), &"GET /a?b 502".into())
        );
        let attribute = |key: &str| {
            let all = record["attributes"].as_array().expect("attributes");
            all.iter().find(|attribute| attribute["key"] == key).map(|attribute| attribute["value"].clone())
        };
        assert_eq!(attribute("http.response.status_code"), Some(json!({ "intValue": "502" })));
        assert_eq!(attribute("error.type"), Some(json!({ "stringValue": "dns_error" })));
        assert_eq!(attribute("tollgate.total_ms"), Some(json!({ "doubleValue": 1.5 })));
        assert_eq!(attribute("tollgate.reused"), Some(json!({ "boolValue": true })));
        assert_eq!(attribute("url.query"), None);
        assert_eq!(attribute("server.address"), Some(json!({ "stringValue": "::1" })));
        assert_eq!(attribute("server.port"), Some(json!({ "intValue": "8443" })));
        assert_eq!((split("a.example"), split("a.example:x")), (None, None));
    }
}
