//! `access_log` of the gateway and of routes.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::time::Duration;

use crate::model::{Percent, Spanned};
use crate::scalar::file_path::{self, file_path};
use crate::scalar::quantity;
use crate::scalar::status;
use crate::scalar::template::{self, Piece};
use crate::section::{Field, Fields, NodeKind, Problem, Reader, ScalarError, Section, Shape, Text, Value};
use crate::suggest;

use super::collector::{Collector, ExportSettings};

/// Maximum number of logs in one place. Each has a buffer in every worker.
const LOGS_MAX: usize = 16;

static TARGET: Text = Text {
    expected: "`stdout`, the path of a file such as `/var/log/tollgate/access.log`, or a syslog server such as \
               `syslog+udp://127.0.0.1:514`, `syslog+tcp://127.0.0.1:601` or `syslog+unix:/dev/log`",
    pattern: Some(r"^stdout$|[./]"),
    loose: false,
};
const TARGET_OR_OFF: Shape = Shape::AnyOf(&[Shape::Off, Shape::Text(&TARGET)]);
static ONE_LOG: Shape = Shape::AnyOf(&[Shape::Text(&TARGET), Shape::Section(AccessLog::SPEC)]);
/// A status, a class of them or a range.
pub(crate) static STATUS_RANGE: Text = Text {
    expected: "a status, a class of them or a range, such as `404`, `5xx` or `500-599`",
    pattern: Some(r"^[1-5]([0-9]{2}|xx|XX)( *- *[1-5][0-9]{2})?$"),
    loose: true,
};

/// The syslog facilities, indexed by their codes (RFC 5424, table 1).
const SYSLOG_FACILITIES: &[&str] = &[
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp",
    "ntp", "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4", "local5", "local6",
    "local7",
];

/// The syslog severities, indexed by their codes (RFC 5424, table 2).
const SYSLOG_SEVERITIES: &[&str] = &["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];

/// One access log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccessLog {
    /// Destination of its lines. Default off.
    pub to: LogTarget,
    /// Format of a line.
    pub format: LogFormat,
    /// Additional fields of a JSON line: each key, and the name of the field that supplies its value.
    pub fields: Vec<(String, String)>,
    /// Filters. An exchange is logged if at least one of them keeps it; without filters, every exchange is
    /// logged.
    pub filter: Vec<LogFilter>,
    /// Collector that also receives every line. Default none.
    pub otlp: Option<Collector>,
}

impl AccessLog {
    /// Returns a number that identifies the log, wherever in the configuration it is written. The content of
    /// a CA file does not affect it.
    #[must_use]
    pub fn key(&self) -> u64 {
        let Self { to, format, fields, filter, otlp } = self;
        let format = match format {
            LogFormat::Combined => "combined",
            LogFormat::Json => "json",
            LogFormat::Template(template) => &template.value,
        };
        let mut hasher = DefaultHasher::new();
        (format!("{to:?}"), format, fields, format!("{filter:?}")).hash(&mut hasher);
        if let Some(Collector { url, export: ExportSettings { service, headers, resource, ca } }) = otlp {
            let headers: Vec<_> = headers.iter().map(|(name, value)| (name, value.reveal())).collect();
            // A text in place of a path is its own name.
            let ca = ca.as_ref().map(|ca| (&ca.path, ca.path.is_none().then_some(&ca.bytes.0)));
            (url, service, headers, resource, ca).hash(&mut hasher);
        }
        hasher.finish()
    }

    fn is_on(&self) -> bool {
        self.to != LogTarget::Off || self.otlp.is_some()
    }
}

/// The access log.
#[derive(Clone, Debug, Section)]
#[section(name = "access_log", own_forms, makes = AccessLog, by = access_log)]
struct AccessLogKeys {
    /// Destination of the lines.
    #[key(shape = TARGET_OR_OFF, parse = target, required, also = ["path", "file", "target"])]
    to: Option<LogTarget>,
    /// Format of a line.
    #[key(
        expected = "`combined`, `json`, or a text with fields such as `{client} {status} {header.x-tenant} {total_ms}`",
        pattern = r"^(combined|json)$|[{ ]", read = format, default = combined
    )]
    format: LogFormat,
    /// Additional fields of a JSON line: each key, and the field that supplies its value.
    #[key(
        expected = "a field such as `header.x-tenant`, `response_header.x-cache`, `cookie.session` or `sni`",
        pattern = r"^[a-z_]+(\.[!#$%&'*+.^_`|~0-9A-Za-z-]+)?$", map, read = more_fields,
        also = ["headers", "also", "extra"]
    )]
    fields: Vec<(String, String)>,
    /// Filters. An exchange is logged if all conditions of at least one filter hold.
    #[key(sections, bounded, also = ["filters", "if", "when", "condition"])]
    filter: Vec<LogFilter>,
    /// The facility of messages to a syslog server.
    #[key(shape = Shape::Word(SYSLOG_FACILITIES), read = code, default = local7)]
    facility: u8,
    /// The severity of messages to a syslog server.
    #[key(shape = Shape::Word(SYSLOG_SEVERITIES), read = code, default = info, also = ["level", "priority"])]
    severity: u8,
    /// Program name in messages to a syslog server.
    #[key(
        expected = "a name of up to 48 visible ASCII characters, such as `tollgate`", pattern = r"^[!-~]{1,48}$",
        parse = app_name, default = tollgate, also = ["tag", "program", "ident"]
    )]
    app_name: String,
    /// An OpenTelemetry collector that also receives every line.
    #[key(default = off, also = ["opentelemetry", "otel", "collector"])]
    otlp: Option<Collector>,
}

/// Conditions that must all hold for an exchange to be logged.
#[derive(Clone, Debug, PartialEq, Section)]
#[section(noun = "a filter")]
pub struct LogFilter {
    /// The status of the answer.
    ///
    /// Ranges, first and last.
    #[key(
        name = "status", text = STATUS_RANGE, each = status::range, what = "`status`",
        also = ["statuses", "code", "codes", "status_codes"]
    )]
    pub statuses: Vec<(u16, u16)>,
    /// The exchange took at least this long.
    #[key(time = "0s"..="1d", also = ["duration", "slower_than", "min_time"])]
    pub min_duration: Option<Duration>,
    /// Percentage of the exchanges that is logged; errors always are.
    #[key(
        expected = "a percentage from 0 to 100, such as `1%`, `0.1%` or `1/1000`",
        pattern = r"^([0-9]{1,3}(\.[0-9]{1,10})? *%?|[0-9]+ ?/ ?[0-9]+)$",
        loose, parse = share, also = ["rate", "percent", "sampling", "sample_rate"]
    )]
    pub sample: Option<Percent>,
}

/// Destination of an access log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LogTarget {
    /// Nowhere.
    #[default]
    Off,
    /// Standard output.
    Stdout,
    /// A file, appended to; reopened on SIGUSR1.
    File(PathBuf),
    /// A syslog server (RFC 5424).
    Syslog(Syslog),
}

/// A syslog server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Syslog {
    /// Transport and address of the server.
    pub transport: SyslogTransport,
    /// The facility, 0 to 23. Default `local7`, which is 23.
    pub facility: u8,
    /// The severity, 0 to 7. Default `info`, which is 6.
    pub severity: u8,
    /// The program name in its messages. Default `tollgate`.
    pub app_name: String,
}

/// Transport and address of a syslog server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyslogTransport {
    /// UDP: `host:port`.
    Udp(String),
    /// TCP: `host:port`.
    Tcp(String),
    /// A Unix socket.
    Unix(PathBuf),
}

/// Format of an access log line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// nginx's `combined` format.
    #[default]
    Combined,
    /// One JSON object per line, with every field.
    Json,
    /// Text with `{field}` placeholders. The reader has checked it;
    /// [`access_log_template`](crate::access_log_template) splits it.
    Template(Spanned<String>),
}

/// The active logs: none, one, or a list of them. Identical logs are merged.
impl Value for Vec<AccessLog> {
    const SHAPE: Shape = Shape::AnyOf(&[
        Shape::Off,
        Shape::Text(&TARGET),
        Shape::Section(AccessLog::SPEC),
        Shape::ListOf(&ONE_LOG),
    ]);
    const HAS_OFF: bool = true;

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        let NodeKind::List(items) = &field.node.kind else {
            return Some(one(reader, field).filter(AccessLog::is_on).into_iter().collect());
        };
        if let Some(extra) = items.get(LOGS_MAX) {
            reader.problems.push(Problem::error(extra.at, format!("more than {LOGS_MAX} access logs")));
        }
        let items = items.iter().take(LOGS_MAX);
        let logs = items.filter_map(|node| one(reader, Field { node, ..field })).filter(AccessLog::is_on);
        let mut out: Self = Vec::new();
        for log in logs {
            if !out.iter().any(|known| known.key() == log.key()) {
                out.push(log);
            }
        }
        Some(out)
    }
}

fn one(reader: &mut Reader, field: Field<'_>) -> Option<AccessLog> {
    if field.is_mapping() {
        return AccessLog::read_section(reader, field.node);
    }
    let to = reader.field(field, target)?;
    Some(AccessLog { to, ..AccessLog::default() })
}

/// Applies the settings of syslog, and warns of keys without effect.
fn access_log(reader: &mut Reader, fields: &Fields<'_>, keys: AccessLogKeys) -> Option<AccessLog> {
    let AccessLogKeys { to, format, fields: further, filter, facility, severity, app_name, otlp } = keys;
    let mut log = AccessLog { to: to.unwrap_or_default(), format, fields: further, filter, otlp };
    if let LogTarget::Syslog(server) = &mut log.to {
        *server = Syslog { facility, severity, app_name, transport: server.transport.clone() };
    } else {
        for field in ["facility", "severity", "app_name"].into_iter().filter_map(|name| fields.get(name)) {
            let problem = Problem::warning(field.at, format!("`{}` has no effect here", field.key.name));
            reader.problems.push(problem.help("it requires a syslog server: `to: syslog+udp://...`"));
        }
    }
    if let Some(field) = fields.get("fields")
        && log.format != LogFormat::Json
        && log.otlp.is_none()
    {
        let problem = Problem::warning(field.at, "`fields` has no effect here: the lines are not JSON");
        reader.problems.push(problem.help("write `format: json`, or put the fields into `format`"));
    }
    Some(log)
}

/// Reads a word as its position in the list of words, which is its code.
fn code(reader: &mut Reader, field: Field<'_>) -> Option<u8> {
    let word = reader.word(Some(field))?;
    let Shape::Word(words) = field.key.shape else { return None };
    words.iter().position(|known| *known == word).and_then(|code| u8::try_from(code).ok())
}

fn app_name(text: &str) -> Result<String, ScalarError> {
    match text {
        _ if (1..=48).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic()) => {
            Ok(text.to_owned())
        }
        _ => Err(ScalarError::new("{} is not a valid name")),
    }
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
fn more_fields(reader: &mut Reader, field: Field<'_>) -> Option<Vec<(String, String)>> {
    let NodeKind::Map(entries) = &field.node.kind else {
        reader.mismatch(field.node, "`fields`", field.key.shape.expected());
        return None;
    };
    let Shape::MapOf(one) = &field.key.shape else { return None };
    let mut out = Vec::new();
    for entry in entries {
        if template::ACCESS_LOG_FIELDS.contains(&entry.key.as_str()) {
            let message = format!("`{}` is a field of every line", entry.key);
            reader.problems.push(Problem::error(entry.at, message).help("choose another key"));
        }
        let name = reader.parsed(&entry.value, "a field", one, template::log_field);
        out.extend(name.map(|name| (entry.key.clone(), name)));
    }
    Some(out)
}

fn share(text: &str) -> Result<Percent, ScalarError> {
    quantity::percent(text, 0, 100, false).map(Percent::from)
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
        for (text, shown) in
            [("0.1%", "0.1"), ("100", "100"), ("0", "0"), ("12.5 %", "12.5"), ("1/8", "12.5"), ("0.5", "0.5")]
        {
            assert_eq!(share(text).map(|share| share.to_string()).as_deref(), Ok(shown), "{text}");
        }
        for text in ["", "%", "101", "-1", "1e1", "nan", "100.1%"] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
