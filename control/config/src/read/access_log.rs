//! Reads `access_log` of the gateway and of routes.

use crate::model::{AccessLog, LogFilter, LogFormat, LogTarget, Spanned, Syslog, SyslogTransport};
use crate::problem::Problem;
use crate::reader::{Field, Fields, Reader, one_or_many};
use crate::scalar::file_path::{self, file_path};
use crate::scalar::template::{self, Piece};
use crate::scalar::{ScalarError, status};
use crate::section::Value;
use crate::spec::{ACCESS_LOG, LOG_FILTER, SYSLOG_FACILITIES, SYSLOG_SEVERITIES, Shape};
use crate::suggest;
use crate::tree::{Node, NodeKind};

/// Maximum number of logs in one place. Each has a buffer in every worker.
const LOGS_MAX: usize = 16;

/// Reads the active logs: none, one, or a list of them. Identical logs are merged.
pub(super) fn access_log(reader: &mut Reader, field: Field<'_>) -> Vec<AccessLog> {
    let NodeKind::List(items) = &field.node.kind else {
        return one(reader, field).filter(AccessLog::is_on).into_iter().collect();
    };
    if let Some(extra) = items.get(LOGS_MAX) {
        reader.problems.push(Problem::error(extra.at, format!("more than {LOGS_MAX} access logs")));
    }
    let items = items.iter().take(LOGS_MAX);
    let logs = items.filter_map(|node| one(reader, Field { node, ..field })).filter(AccessLog::is_on);
    let mut out: Vec<AccessLog> = Vec::new();
    for log in logs {
        if !out.iter().any(|known| known.key() == log.key()) {
            out.push(log);
        }
    }
    out
}

impl AccessLog {
    fn is_on(&self) -> bool {
        self.to != LogTarget::Off || self.otlp.is_some()
    }
}

fn one(reader: &mut Reader, field: Field<'_>) -> Option<AccessLog> {
    if !matches!(field.node.kind, NodeKind::Map(_)) {
        let to = reader.field(field, target)?;
        return Some(AccessLog { to, ..AccessLog::default() });
    }
    let fields = reader.fields(field.node, &ACCESS_LOG)?;
    let mut log = AccessLog::default();
    if let Some(to) = fields.get("to") {
        log.to = reader.field(to, target).unwrap_or_default();
    }
    syslog(reader, &fields, &mut log.to);
    if let Some(field) = fields.get("format") {
        log.format = format(reader, field).unwrap_or_default();
    }
    log.otlp =
        fields.get("otlp").filter(|field| !field.is_off()).and_then(|field| Value::read(reader, field));
    if let Some(field) = fields.get("fields") {
        log.fields = further(reader, field);
        if log.format != LogFormat::Json && log.otlp.is_none() {
            let problem = Problem::warning(field.at, "`fields` has no effect here: the lines are not JSON");
            reader.problems.push(problem.help("write `format: json`, or put the fields into `format`"));
        }
    }
    if let Some(field) = fields.get("filter") {
        log.filter = reader
            .bounded_items(field.node, "`filter`")
            .iter()
            .filter_map(|node| filter(reader, node))
            .collect();
    }
    Some(log)
}

fn target(text: &str) -> Result<LogTarget, ScalarError> {
    match text.to_ascii_lowercase().as_str() {
        "off" | "false" | "no" => Ok(LogTarget::Off),
        "stdout" | "-" => Ok(LogTarget::Stdout),
        "on" | "true" | "yes" => Err(ScalarError::new("{} is not a destination: name one")),
        "stderr" => {
            Err(ScalarError::new("{} is reserved for the gateway's own messages").help("write `stdout`"))
        }
        "/dev/log" => {
            Err(ScalarError::new("{} is a socket of syslog").suggest("write `syslog+unix:/dev/log`"))
        }
        _ if text.starts_with("syslog+") => server(text).map(LogTarget::Syslog),
        _ if file_path::scheme(text).is_some() || text.starts_with('|') => Err(destination(text)),
        // A bare word is more likely a typing error than a file in the working directory.
        _ if !text.contains(['/', '.']) => {
            let fault = ScalarError::new("{} is neither `stdout` nor a path");
            Err(match suggest::nearest(text, ["stdout", "off"].into_iter()) {
                Some(near) => fault.suggest(format!("did you mean `{near}`?")),
                None => fault.suggest(format!("write `./{text}` for a file in the working directory")),
            })
        }
        _ => file_path(text).map(LogTarget::File),
    }
}

/// Parses a syslog server: `syslog+udp://host:port`, `syslog+tcp://host:port` or `syslog+unix:/path`.
fn server(text: &str) -> Result<Syslog, ScalarError> {
    let known = ScalarError::new("{} is not a syslog server");
    let known = known.help("write `syslog+udp://host:port`, `syslog+tcp://host:port` or `syslog+unix:/path`");
    let Some((scheme, rest)) = text.split_once(':') else { return Err(known) };
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    let transport = match scheme {
        "syslog+unix" if rest.starts_with('/') && rest.len() <= 107 && !rest.contains(char::is_control) => {
            SyslogTransport::Unix(rest.into())
        }
        "syslog+udp" => SyslogTransport::Udp(host_and_port(rest, 514).ok_or(known)?),
        "syslog+tcp" => SyslogTransport::Tcp(host_and_port(rest, 601).ok_or(known)?),
        _ => return Err(known),
    };
    Ok(Syslog { transport, facility: 23, severity: 6, app_name: "tollgate".to_owned() })
}

/// Parses `host`, `host:port`, `[address]` or `[address]:port`.
fn host_and_port(text: &str, default: u16) -> Option<String> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            address.parse::<std::net::Ipv6Addr>().ok()?;
            (&text[..address.len() + 2], port)
        }
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse::<u16>().ok().filter(|port| *port != 0)?,
        None if port.is_empty() => default,
        None => return None,
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    let good = host.starts_with('[') || (!host.is_empty() && host.chars().all(fits));
    good.then(|| format!("{host}:{port}"))
}

/// Explains why a destination of another program is not a target, and suggests the nearest equivalent.
fn destination(text: &str) -> ScalarError {
    let fault = ScalarError::new("{} is neither `stdout`, the path of a file nor a syslog server");
    let (scheme, rest) = text.split_once(':').unwrap_or(("", text));
    match scheme {
        "syslog" | "udp" | "tcp" | "syslog-udp" | "syslog-tcp" | "unix" | "rsyslog" => {
            fault.suggest(nearest_server(scheme, rest))
        }
        "http" | "https" | "grpc" | "otlp" => {
            fault.help("an OpenTelemetry collector is named under `otlp`: `{to: \"off\", otlp: URL}`")
        }
        _ => file_path(text).err().unwrap_or(fault),
    }
}

/// Suggests the equivalent of nginx's `syslog:server=HOST:PORT,facility=...,tag=...` and similar forms.
fn nearest_server(scheme: &str, rest: &str) -> String {
    let mut server = rest.trim_start_matches('/');
    let mut settings = String::new();
    if scheme == "unix" || rest.starts_with("///") {
        server = rest;
    }
    for setting in rest.trim_start_matches("//").split(',') {
        match setting.split_once('=') {
            Some(("server", value)) => server = value,
            Some(("facility", value)) => settings.push_str(&format!(", facility: {value}")),
            Some(("severity", value)) => settings.push_str(&format!(", severity: {value}")),
            Some(("tag", value)) => settings.push_str(&format!(", app_name: {value}")),
            _ => {}
        }
    }
    let path = server.strip_prefix("unix:").or(server.starts_with('/').then_some(server));
    let to = match path {
        Some(path) => format!("syslog+unix:/{}", path.trim_start_matches('/')),
        None if scheme.contains("tcp") => format!("syslog+tcp://{server}"),
        None => format!("syslog+udp://{server}"),
    };
    match settings.is_empty() {
        true => format!("write `{to}`"),
        false => format!("write `{{to: \"{to}\"{settings}}}`"),
    }
}

/// Reads the facility, severity and program name of messages to a syslog server.
fn syslog(reader: &mut Reader, fields: &Fields<'_>, to: &mut LogTarget) {
    let place = |words: &[&str], word: Option<&'static str>| {
        let index = words.iter().position(|known| Some(*known) == word)?;
        u8::try_from(index).ok()
    };
    let facility = place(&SYSLOG_FACILITIES, reader.word(fields.get("facility")));
    let severity = place(&SYSLOG_SEVERITIES, reader.word(fields.get("severity")));
    let app_name = fields.get("app_name").and_then(|field| {
        reader.field(field, |text| match text {
            _ if (1..=48).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic()) => {
                Ok(text.to_owned())
            }
            _ => Err(ScalarError::new("{} is not a valid name")),
        })
    });
    match to {
        LogTarget::Syslog(server) => {
            server.facility = facility.unwrap_or(server.facility);
            server.severity = severity.unwrap_or(server.severity);
            server.app_name = app_name.unwrap_or_else(|| std::mem::take(&mut server.app_name));
        }
        _ => {
            for name in ["facility", "severity", "app_name"] {
                if let Some(field) = fields.get(name) {
                    let problem = Problem::warning(field.at, format!("`{name}` has no effect here"));
                    reader.problems.push(problem.help("it requires a syslog server: `to: syslog+udp://...`"));
                }
            }
        }
    }
}

fn format(reader: &mut Reader, field: Field<'_>) -> Option<LogFormat> {
    let pieces = reader.field(field, |text| match text {
        "combined" | "json" => Ok(Vec::new()),
        _ if text.contains('{') || text.contains(' ') => template::pieces(text),
        _ => {
            let fault = ScalarError::new("{} is not a format");
            Err(match suggest::nearest(text, ["combined", "json"].into_iter()) {
                Some(near) => fault.suggest(format!("did you mean `{near}`?")),
                None => fault,
            })
        }
    })?;
    let scalar = field.node.scalar()?;
    match scalar.text.as_str() {
        "combined" => return Some(LogFormat::Combined),
        "json" => return Some(LogFormat::Json),
        _ => {}
    }
    if !pieces.iter().any(|piece| !matches!(piece, Piece::Text(_))) {
        let problem = Problem::warning(
            field.node.at,
            format!("{} has no placeholder: all lines would be the same", scalar.shown()),
        );
        reader.problems.push(problem.help("a field is written `{client}`"));
    }
    Some(LogFormat::Template(Spanned { value: scalar.text.clone(), at: field.node.at }))
}

/// Reads additional fields of a JSON line.
fn further(reader: &mut Reader, field: Field<'_>) -> Vec<(String, String)> {
    let NodeKind::Map(entries) = &field.node.kind else {
        reader.mismatch(field.node, "`fields`", field.key.shape.expected());
        return Vec::new();
    };
    let Shape::MapOf(one) = &field.key.shape else { return Vec::new() };
    let mut out = Vec::new();
    for entry in entries {
        if template::ACCESS_LOG_FIELDS.contains(&entry.key.as_str()) {
            let message = format!("`{}` is a field of every line", entry.key);
            reader.problems.push(Problem::error(entry.at, message).help("choose another key"));
        }
        let name = reader.parsed(&entry.value, "a field", one, template::log_field);
        out.extend(name.map(|name| (entry.key.clone(), name)));
    }
    out
}

/// Reads the conditions of a filter.
fn filter(reader: &mut Reader, node: &Node) -> Option<LogFilter> {
    let fields = reader.fields(node, &LOG_FILTER)?;
    let mut out = LogFilter::default();
    if let Some(field) = fields.get("status") {
        let one = if let Shape::OneOrMany(one) = field.key.shape { one } else { &field.key.shape };
        for item in one_or_many(field.node) {
            out.statuses.extend(reader.parsed(item, "`status`", one, status::range));
        }
    }
    if let Some(Some(least)) = reader.duration(fields.get("min_duration")) {
        out.min_duration = Some(least);
    }
    out.sample = fields.get("sample").and_then(|field| reader.field(field, share));
    Some(out)
}

/// Parses a percentage into millionths.
fn share(text: &str) -> Result<u32, ScalarError> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    let digits = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match number.parse::<f64>() {
        Ok(percent) if digits && (0.0..=100.0).contains(&percent) => Ok((percent * 10_000.0).round() as u32),
        _ => Err(ScalarError::new("{} is not a percentage")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers() {
        let transport =
            |text: &str| server(text).map(|server| server.transport).map_err(|fault| fault.message);
        let udp = |text: &str| Ok(SyslogTransport::Udp(text.to_owned()));
        assert_eq!(transport("syslog+udp://127.0.0.1:515"), udp("127.0.0.1:515"));
        assert_eq!(transport("syslog+udp://logs.example"), udp("logs.example:514"));
        assert_eq!(transport("syslog+udp://[::1]"), udp("[::1]:514"));
        assert_eq!(transport("syslog+tcp://[::1]:1"), Ok(SyslogTransport::Tcp("[::1]:1".to_owned())));
        assert_eq!(transport("syslog+unix:///dev/log"), Ok(SyslogTransport::Unix("/dev/log".into())));
        for text in [
            "syslog+udp:",
            "syslog+udp://:514",
            "syslog+udp://a:0",
            "syslog+udp://a:65536",
            "syslog+udp://a/b",
            "syslog+udp://[x]:1",
            "syslog+unix:dev/log",
            "syslog+tls://a:6514",
        ] {
            assert!(server(text).is_err(), "{text}");
        }
    }

    #[test]
    fn other_spellings_get_the_nearest() {
        for (text, suggestion) in [
            ("syslog:server=127.0.0.1:514", "write `syslog+udp://127.0.0.1:514`"),
            ("syslog:server=unix:/dev/log", "write `syslog+unix:/dev/log`"),
            (
                "syslog:server=[::1]:514,facility=local0,tag=gate,severity=notice",
                "write `{to: \"syslog+udp://[::1]:514\", facility: local0, app_name: gate, severity: notice}`",
            ),
            ("syslog://127.0.0.1:514", "write `syslog+udp://127.0.0.1:514`"),
            ("tcp://127.0.0.1:601", "write `syslog+tcp://127.0.0.1:601`"),
            ("unix:/run/log", "write `syslog+unix:/run/log`"),
            ("/dev/log", "write `syslog+unix:/dev/log`"),
        ] {
            assert_eq!(target(text).unwrap_err().suggestion.as_deref(), Some(suggestion), "{text}");
        }
        for text in ["memory:32m", "http://a/", "|cat", "fd:3"] {
            assert!(target(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shares() {
        for (text, millionths) in [("0.1%", 1_000), ("100", 1_000_000), ("0", 0), ("12.5 %", 125_000)] {
            assert_eq!(share(text), Ok(millionths), "{text}");
        }
        for text in ["", "%", "101", "-1", "1e1", "nan", "100.1%"] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
