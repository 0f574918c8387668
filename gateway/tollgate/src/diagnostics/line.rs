//! An event as a line of text or JSON.
//!
//! Text is for people: errors and warnings begin with that word, and the message of `info` stands alone, unless
//! nothing else adds the time. Messages of these levels are complete sentences, so their fields appear in JSON only. `debug` and `trace`
//! lines begin with the time, the level and the component, and end with the fields. A peer may have chosen a
//! part of such a line, so control characters in it are escaped.

use std::fmt::{self, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};
use tollgate_config::section::Word;
use tollgate_config::{DiagnosticFormat, LogLevel};
use tracing::Event;
use tracing::field::{Field, Visit};

use super::levels::level_of;

/// The message and the fields of an event.
#[derive(Default)]
struct EventFields {
    message: String,
    fields: Map<String, Value>,
}

impl EventFields {
    fn add(&mut self, field: &Field, value: impl Into<Value>) {
        self.fields.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for EventFields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            _ => self.add(field, format!("{value:?}")),
        }
    }
}

/// Returns the line of an event, with its line feed.
pub fn line(event: &Event<'_>, format: DiagnosticFormat, is_timed: bool) -> String {
    let mut content = EventFields::default();
    event.record(&mut content);
    let EventFields { message, fields } = content;
    let (level, component) = (level_of(*event.metadata().level()), event.metadata().target());
    match format {
        DiagnosticFormat::Text => text(level, component, &message, &fields, is_timed),
        DiagnosticFormat::Json => json(level, component, message, fields),
    }
}

fn json(level: LogLevel, component: &str, message: String, fields: Map<String, Value>) -> String {
    let mut line = Map::new();
    line.insert("time".to_owned(), now().into());
    line.insert("level".to_owned(), level.word().into());
    line.insert("component".to_owned(), component.into());
    line.insert("message".to_owned(), message.into());
    line.extend(fields);
    format!("{}\n", Value::Object(line))
}

fn text(
    level: LogLevel,
    component: &str,
    message: &str,
    fields: &Map<String, Value>,
    is_timed: bool,
) -> String {
    let mut line = String::new();
    if level > LogLevel::Info || is_timed {
        line.push_str(&now());
        line.push(' ');
    }
    match level {
        LogLevel::Error => line.push_str("error: "),
        LogLevel::Warn => line.push_str("warning: "),
        LogLevel::Info => {}
        LogLevel::Debug | LogLevel::Trace => {
            let _ = write!(line, "{}: {component}: ", level.word());
            push_escaped(&mut line, message);
            for (name, value) in fields {
                let _ = write!(line, " {name}=");
                match value {
                    Value::String(value) if is_plain(value) => line.push_str(value),
                    value => line.push_str(&value.to_string()),
                }
            }
            line.push('\n');
            return line;
        }
    }
    line.push_str(message);
    line.push('\n');
    line
}

/// Whether a value can stand without quotes.
fn is_plain(value: &str) -> bool {
    !value.is_empty() && value.chars().all(|c| !c.is_whitespace() && !c.is_control() && c != '"' && c != '=')
}

fn push_escaped(line: &mut String, text: &str) {
    for c in text.chars() {
        match c.is_control() {
            true => line.extend(c.escape_default()),
            false => line.push(c),
        }
    }
}

fn now() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    crate::time::rfc3339(u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

/// Returns the line that reports lost lines.
pub fn lost_line(count: u64, format: DiagnosticFormat, is_timed: bool) -> String {
    let lines = crate::plural::count_noun(usize::try_from(count).unwrap_or(usize::MAX), "line");
    let message = format!("log: {lines} lost: the output took nothing, or too little");
    let component = tollgate_net::component::GATEWAY;
    match format {
        DiagnosticFormat::Text => text(LogLevel::Warn, component, &message, &Map::new(), is_timed),
        DiagnosticFormat::Json => json(LogLevel::Warn, component, message, Map::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> Map<String, Value> {
        let Value::Object(fields) =
            serde_json::json!({ "upstream": "shop", "reason": "no \"route\"\nto host", "attempts": 2 })
        else {
            unreachable!("an object")
        };
        fields
    }

    #[test]
    fn usual_messages_stand_alone() {
        let line = |level| text(level, "health", "shop is down", &fields(), false);
        assert_eq!(line(LogLevel::Error), "error: shop is down\n");
        assert_eq!(line(LogLevel::Warn), "warning: shop is down\n");
        assert_eq!(line(LogLevel::Info), "shop is down\n");
        let timed = text(LogLevel::Warn, "health", "shop is down", &fields(), true);
        assert!(timed.starts_with("20") && timed.ends_with("Z warning: shop is down\n"), "{timed}");
    }

    #[test]
    fn details_have_everything_on_one_line() {
        let line = text(LogLevel::Debug, "upstream", "failed\nerror: forged", &fields(), false);
        let (time, rest) = line.split_once(' ').expect("a time");
        assert!(time.len() == 24 && time.ends_with('Z'), "{time}");
        assert_eq!(
            rest,
            "debug: upstream: failed\\nerror: forged upstream=shop reason=\"no \\\"route\\\"\\nto host\" attempts=2\n"
        );
    }

    #[test]
    fn json_is_one_object() {
        let line = json(LogLevel::Warn, "health", "a\n\"b\"".to_owned(), fields());
        assert_eq!(line.matches('\n').count(), 1);
        let value: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!((&value["level"], &value["component"]), (&"warn".into(), &"health".into()));
        assert_eq!((&value["message"], &value["attempts"]), (&"a\n\"b\"".into(), &2.into()));
        let keys: Vec<_> = value.as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["time", "level", "component", "message", "upstream", "reason", "attempts"]);
    }
}
