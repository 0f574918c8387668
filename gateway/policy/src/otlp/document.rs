//! Serializes batches for a collector: `ExportTraceServiceRequest` and `ExportLogsServiceRequest` in JSON
//! (OTLP 1.9, "JSON Protobuf Encoding"). A document has one resource and one scope.

use serde_json::{Value, json};

use super::collector_rule::CollectorRule;

/// The type of exported data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Spans of traces.
    Spans,
    /// Log records.
    Logs,
}

/// A span or a log record.
pub(crate) trait ExportItem: Send + 'static {
    /// Returns the approximate size in bytes while the item is queued.
    fn size(&self) -> usize;

    /// Appends the item to a document.
    fn write(self, document: &mut String);
}

/// Text that is already JSON.
impl ExportItem for String {
    fn size(&self) -> usize {
        self.len()
    }

    fn write(self, document: &mut String) {
        document.push_str(&self);
    }
}

impl Signal {
    /// Serializes the request to a collector with these items.
    pub fn document<T: ExportItem>(self, rule: &CollectorRule, items: Vec<T>) -> String {
        let scope = json!({ "name": "tollgate", "version": env!("CARGO_PKG_VERSION") });
        let (resources, scopes, list) = match self {
            Signal::Spans => ("resourceSpans", "scopeSpans", "spans"),
            Signal::Logs => ("resourceLogs", "scopeLogs", "logRecords"),
        };
        let resource = resource(rule);
        let mut out =
            format!(r#"{{"{resources}":[{{"resource":{resource},"{scopes}":[{{"scope":{scope},"{list}":["#);
        out.reserve(items.iter().map(ExportItem::size).sum());
        for (n, item) in items.into_iter().enumerate() {
            if n > 0 {
                out.push(',');
            }
            item.write(&mut out);
        }
        out.push_str("]}]}]}");
        out
    }

    /// Returns the exporter's name and the items' name for the warning about lost items.
    pub const fn names(self) -> (&'static str, &'static str) {
        match self {
            Signal::Spans => ("trace", "spans"),
            Signal::Logs => ("access log", "lines"),
        }
    }
}

/// Returns the resource that sends the items.
fn resource(rule: &CollectorRule) -> Value {
    let service = ("service.name", &rule.service);
    let more = rule.resource.iter().map(|(key, value)| (key.as_str(), value));
    let attribute = |(key, value): (&str, &String)| json!({ "key": key, "value": { "stringValue": value } });
    let attributes: Vec<Value> = std::iter::once(service).chain(more).map(attribute).collect();
    json!({ "attributes": attributes })
}

/// Converts a value to `AnyValue`, which represents 64-bit integers as strings in JSON.
pub(crate) fn any(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => json!({ "doubleValue": number }),
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        Value::Bool(is) => json!({ "boolValue": is }),
        text => json!({ "stringValue": text }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Trust;

    #[test]
    fn a_document_is_json_whatever_stands_in_it() {
        let rule = CollectorRule {
            url: String::new(),
            trust: Trust::default(),
            headers: Vec::new(),
            service: "a \"door\"".to_owned(),
            resource: vec![("host.name".to_owned(), "h\\1".to_owned())],
        };
        let items = vec![r#"{"a":1}"#.to_owned(), r#"{"b":2}"#.to_owned()];
        let read: Value = serde_json::from_str(&Signal::Logs.document(&rule, items)).expect("JSON");
        let logs = &read["resourceLogs"][0];
        assert_eq!(logs["resource"]["attributes"][0]["value"]["stringValue"], "a \"door\"");
        assert_eq!(
            logs["resource"]["attributes"][1],
            json!({ "key": "host.name", "value": { "stringValue": "h\\1" } })
        );
        assert_eq!(logs["scopeLogs"][0]["logRecords"], json!([{ "a": 1 }, { "b": 2 }]));
        let none: Value =
            serde_json::from_str(&Signal::Spans.document::<String>(&rule, Vec::new())).expect("JSON");
        assert_eq!(none["resourceSpans"][0]["scopeSpans"][0]["spans"], json!([]));
    }
}
