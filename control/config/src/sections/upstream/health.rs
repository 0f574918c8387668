//! How an upstream judges its endpoints: `health` by probes, `outlier` by traffic.

use std::time::Duration;

use crate::model::Percent;
use crate::scalar::host::authority;
use crate::scalar::{field as header, status};
use crate::section::{Field, Fields, Problem, Reader, ScalarError, Section, Shape, Text, Value};
use crate::tree::Scalar;

use super::above;

/// The short form of `health`, and `http` in the mapping.
static PROBE_PATH: Text =
    Text { expected: "a path such as `/healthz`", pattern: Some(r"^/[^\s#]*$"), loose: false };
static SERVICE: Text =
    Text { expected: "a service such as `shop.Orders`", pattern: Some(r"^[!-~]+$"), loose: false };

/// Active health checks of every endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(exactly_one = ["http", "grpc", "tcp"], own_forms)]
pub struct Health {
    /// The kind of probe.
    #[key(flatten)]
    pub probe: Probe,
    /// Time from one probe of an endpoint to the next.
    #[key(time = "100ms"..="1d", default = "5s", also = ["every", "period", "inter"])]
    pub interval: Duration,
    /// Each interval is shortened by up to this percentage at random.
    #[key(percent = 0..=100, default = "10%", also = ["interval_jitter", "interval_jitter_percent"])]
    pub jitter: Percent,
    /// Maximum duration of a probe.
    #[key(time = "1ms"..="1h", default = "2s")]
    pub timeout: Duration,
    /// Consecutive good probes that make an endpoint healthy; the very first probe decides alone.
    #[key(count = 1..=1000, default = 2, also = ["healthy_threshold", "rise", "passes", "success_threshold"])]
    pub healthy: u32,
    /// Consecutive bad probes that make it unhealthy.
    #[key(
        count = 1..=1000, default = 3, also = ["unhealthy_threshold", "fall", "fails", "failure_threshold"]
    )]
    pub unhealthy: u32,
    /// Port of the probes, if it differs from the endpoint's own.
    #[key(count = 1..=65_535)]
    pub port: Option<u16>,
}

impl Value for Health {
    const SHAPE: Shape = Shape::AnyOf(&[
        Shape::Off,
        Shape::Text(&PROBE_PATH),
        Shape::Word(&["tcp", "grpc"]),
        Shape::Section(Health::SPEC),
    ]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        if field.is_mapping() {
            return reader.section(field);
        }
        let probe = reader.field(field, |text| match text {
            "tcp" => Ok(Probe::Tcp),
            "on" | "true" | "yes" | "http" => {
                Err(ScalarError::new("{} is not a probe").help("write a path such as `/healthz`"))
            }
            "grpc" => Ok(grpc(String::new())),
            text => path(text).map(http),
        })?;
        Some(Self { probe, ..Self::default() })
    }
}

/// The kind of probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Probe {
    /// A GET, and conditions on its response (`http: /healthz`).
    Http {
        /// Path and query.
        path: String,
        /// `Host`; `None`: the endpoint's address.
        host: Option<String>,
        /// Additional fields. Default none.
        headers: Vec<(String, String)>,
        /// Statuses that are good, as ranges. Default 200-299.
        statuses: Vec<(u16, u16)>,
        /// Text that must be in the first 64 KiB of the body. Default none.
        body: Option<String>,
    },
    /// A call of `grpc.health.v1.Health/Check` (`grpc: on`, `grpc: my.Service`).
    Grpc {
        /// The service that is queried; empty: the server as a whole.
        service: String,
        /// `:authority`; `None`: the endpoint's address.
        host: Option<String>,
    },
    /// A successful connect (`tcp: true`).
    #[default]
    Tcp,
}

/// The kind of probe, and the conditions on its response.
#[derive(Clone, Debug, Section)]
#[section(makes = Probe, by = probe, own_forms)]
struct ProbeKeys {
    /// A GET of this path and query; its response must pass the checks below.
    #[key(
        text = PROBE_PATH, parse = path,
        also = ["path", "uri", "url", "http_path", "http_health_check"]
    )]
    http: Option<String>,
    /// The gRPC health checking protocol: a call of `grpc.health.v1.Health/Check` for this service, or `on`
    /// for the server as a whole.
    #[key(
        shape = Shape::AnyOf(&[Shape::Switch, Shape::Text(&SERVICE)]), read = service,
        also = ["grpc_health_check", "service_name", "service"]
    )]
    grpc: Option<String>,
    /// A successful connect: `on`.
    #[key(also = ["tcp_health_check", "connect"])]
    tcp: Option<bool>,
    /// Statuses that are good: one or a list.
    #[key(
        expected = "a status such as `200`, or several as `2xx` or `200-299`",
        pattern = r"^[1-5]([0-9]{2}|xx|[0-9]{2}-[1-5][0-9]{2})$", loose, list,
        read = good, default = "200-299",
        also = ["statuses", "expected_statuses", "codes", "match", "expect"]
    )]
    status: Vec<(u16, u16)>,
    /// Text that must occur in the first 64 KiB of the response's body.
    #[key(expected = "a text such as `ok`", pattern = ".", loose, parse = body, also = ["contains", "receive", "text"])]
    body: Option<String>,
    /// Its `Host` (for gRPC, `:authority`). Default: the endpoint's address.
    #[key(expected = "a host such as `api.internal`", pattern = r"^\S+$", parse = authority, also = ["hostname"])]
    host: Option<String>,
    /// With `http`: additional fields of the probe. `User-Agent` replaces the gateway's.
    #[key(
        expected = "a value", loose, pairs = (probe_field, header::value),
        also = ["header", "req_headers", "request_headers", "request_headers_to_add"]
    )]
    headers: Vec<(String, String)>,
}

fn probe(reader: &mut Reader, fields: &Fields<'_>, keys: ProbeKeys) -> Option<Probe> {
    let ProbeKeys { http: path, grpc: service, tcp, status, body, host, headers } = keys;
    if let Some(field) = fields.get("tcp").filter(|_| tcp == Some(false)) {
        let problem = Problem::error(field.node.at, "`tcp` is off, and there is no other probe");
        reader.problems.push(problem.help("write `health: off` to disable probes"));
    }
    if fields.get("tcp").is_some() {
        useless(reader, fields, &["status", "body", "host", "headers"]);
        return Some(Probe::Tcp);
    }
    if fields.get("grpc").is_some() {
        useless(reader, fields, &["status", "body", "headers"]);
        return Some(Probe::Grpc { service: service.unwrap_or_default(), host });
    }
    fields.get("http")?;
    Some(Probe::Http { path: path.unwrap_or_default(), host, headers, statuses: status, body })
}

/// Warns of keys that do not apply to the chosen kind of probe.
fn useless(reader: &mut Reader, fields: &Fields<'_>, names: &[&str]) {
    for name in names {
        let (why, what) = match fields.get("grpc") {
            Some(_) => (
                "it applies only to `http`: a gRPC server reports its own status",
                "the probe is a gRPC call",
            ),
            None => ("it applies only to `http`: a TCP probe has no response", "the probe is a TCP connect"),
        };
        let own = fields.get("tcp").or_else(|| fields.get("grpc"));
        if let (Some(field), Some(own)) = (fields.get(name), own) {
            let problem = Problem::warning(field.at, format!("`{name}` has no effect here"));
            reader.problems.push(problem.help(why).related(own.at, what));
        }
    }
}

fn body(text: &str) -> Result<String, ScalarError> {
    match text {
        "" => Err(ScalarError::new("{} would match every body")),
        text => Ok(text.to_owned()),
    }
}

fn good(reader: &mut Reader, field: Field<'_>) -> Option<Vec<(u16, u16)>> {
    let items = reader.list_items(field, true, false);
    if items.is_empty() {
        let problem = Problem::error(field.node.at, "`status` is an empty list: every probe would fail");
        reader.problems.push(problem.expected(field.key.shape.one().expected()));
    }
    Some(reader.each(items, field, "a status", status::range))
}

fn http(path: String) -> Probe {
    Probe::Http { path, host: None, headers: Vec::new(), statuses: vec![(200, 299)], body: None }
}

fn grpc(service: String) -> Probe {
    Probe::Grpc { service, host: None }
}

/// Reads the service to query; empty: the server as a whole.
fn service(reader: &mut Reader, field: Field<'_>) -> Option<String> {
    const SERVICE_MAX_BYTES: usize = 256;
    match field.node.scalar().and_then(Scalar::switch) {
        Some(true) => return Some(String::new()),
        Some(false) => {
            let problem = Problem::error(field.node.at, "`grpc` is off, and there is no other probe");
            reader.problems.push(problem.help("write `health: off` to disable probes"));
            return Some(String::new());
        }
        None => {}
    }
    reader.field(field, |text| match text {
        "" => Err(ScalarError::new("{} names no service").help("write `on` to check the server as a whole")),
        text if text.starts_with('/') => Err(ScalarError::new("{} is a path, not a service")
            .suggest(format!("write `{}`", text.trim_matches('/').split('/').next().unwrap_or_default()))),
        text if text.len() > SERVICE_MAX_BYTES || !text.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Err(ScalarError::new("{} is not a service")
                .help("a service has up to 256 ASCII characters and no blank"))
        }
        text => Ok(text.to_owned()),
    })
}

/// Checks a path and query as sent in the request line.
fn path(text: &str) -> Result<String, ScalarError> {
    if let Some((_, rest)) = text.split_once("://") {
        let path = rest.find('/').map_or("/", |slash| &rest[slash..]);
        let fault = ScalarError::new("{} is a URL: each endpoint is probed at its own address");
        return Err(fault.suggest(format!("write the path alone: `{path}`")));
    }
    if !text.starts_with('/') {
        return Err(ScalarError::new("{} does not begin with `/`").suggest(format!("write `/{text}`")));
    }
    if let Some(odd) = text.chars().position(|c| !c.is_ascii_graphic() || c == '#') {
        let fault = ScalarError::new("{} has a character that is not allowed in a request line").part(odd, 1);
        return Err(fault.help("encode it: a blank is `%20`"));
    }
    Ok(text.to_owned())
}

/// Checks the name of an additional field of a probe.
fn probe_field(text: &str) -> Result<String, ScalarError> {
    let name = header::name(text)?;
    if header::is_framing(&name) {
        return Err(ScalarError::new("{} controls the message framing or belongs to one connection"));
    }
    match name.eq_ignore_ascii_case("host") {
        true => Err(ScalarError::new("{} has its own key").help("write `host` of `health`")),
        false => Ok(name),
    }
}

/// Ejection of endpoints that fail requests (passive health checks).
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(switch, off = |outlier| outlier.enabled = false, check = check_outlier)]
pub struct Outlier {
    /// Whether ejection is on. Default true.
    #[key(skip = true)]
    pub enabled: bool,
    /// Consecutive 5xx responses (and failures) that eject.
    #[key(
        count = 1..=1_000_000, off, default = 5,
        also = ["consecutive_errors", "max_fails", "failures", "errors"]
    )]
    pub consecutive_5xx: Option<u32>,
    /// Consecutive failures of the gateway's own (no connection, reset, timeout) and 502, 503, 504 that
    /// eject.
    #[key(count = 1..=1_000_000, off, default = 5, also = ["consecutive_gateway_failure", "gateway_errors"])]
    pub consecutive_gateway_errors: Option<u32>,
    /// Whether endpoints are ejected if their success rate is 1.9 standard deviations below the mean. Needs
    /// at least 5 endpoints with 100 requests each in an interval.
    #[key(default = on)]
    pub success_rate: bool,
    /// How often success rates are compared and ejections reviewed.
    #[key(time = "100ms"..="1h", default = "10s")]
    pub interval: Duration,
    /// Ejection time, multiplied by the number of consecutive ejections.
    #[key(
        time = "1ms"..="1d", default = "30s",
        also = ["base_ejection_time", "ejection_time", "fail_timeout"]
    )]
    pub ejection: Duration,
    /// Maximum ejection time.
    #[key(time = "1ms"..="1d", default = "5m", also = ["max_ejection_time", "max_ejection"])]
    pub ejection_max: Duration,
    /// Maximum percentage of an upstream's endpoints that may be ejected at a time. If there are several
    /// endpoints, at least one may.
    #[key(percent = 0..=100, default = "10%", also = ["max_ejection_percent", "max_ejected_percent"])]
    pub max_ejected: Percent,
}

fn check_outlier(reader: &mut Reader, fields: &Fields<'_>, outlier: &mut Outlier) {
    if outlier.ejection > outlier.ejection_max {
        above(reader, fields, "ejection", "ejection_max");
    }
    let Outlier { consecutive_5xx, consecutive_gateway_errors, success_rate, .. } = outlier;
    if consecutive_5xx.is_none() && consecutive_gateway_errors.is_none() && !*success_rate {
        let problem =
            Problem::warning(fields.at, "this never ejects an endpoint: all of its conditions are off");
        reader.problems.push(problem.help("write `outlier: off` if that is intended"));
    }
}
