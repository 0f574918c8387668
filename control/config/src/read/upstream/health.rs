//! Reads `health` and `outlier`.

use crate::model::Percent;
use crate::model::{Health, Outlier, Probe};
use crate::problem::Problem;
use crate::read::rewrite::authority;
use crate::reader::{Field, Fields, Reader};
use crate::scalar::{ScalarError, field as header, status};
use crate::sections::above;
use crate::spec::{HEALTH, OUTLIER, Shape};
use crate::tree::{NodeKind, Scalar};

pub(super) fn health(reader: &mut Reader, field: Field<'_>) -> Option<Health> {
    if !matches!(field.node.kind, NodeKind::Map(_)) {
        if field.node.scalar().is_some_and(Scalar::is_off) {
            return None;
        }
        let probe = reader.field(field, |text| match text {
            "tcp" => Ok(Probe::Tcp),
            "on" | "true" | "yes" | "http" => {
                Err(ScalarError::new("{} is not a probe").help("write a path such as `/healthz`"))
            }
            "grpc" => Ok(grpc(String::new())),
            text => path(text).map(http),
        })?;
        return Some(Health { probe, ..defaults() });
    }
    let fields = reader.fields(field.node, &HEALTH)?;
    let mut out = defaults();
    if let Some(field) = fields.get("http") {
        out.probe = http(reader.field(field, path).unwrap_or_default());
    }
    if let Some(field) = fields.get("grpc") {
        out.probe = grpc(service(reader, field));
    }
    if let Some(field) = fields.get("tcp") {
        let mut on = true;
        reader.switch(Some(field), &mut on);
        if !on {
            let problem = Problem::error(field.node.at, "`tcp` is off, and there is no other probe");
            reader.problems.push(problem.help("write `health: off` to disable probes"));
        }
        out.probe = Probe::Tcp;
    }
    answer(reader, &fields, &mut out.probe);
    reader.time_into(fields.get("interval"), &mut out.interval);
    reader.number_into(fields.get("jitter"), &mut out.jitter);
    reader.time_into(fields.get("timeout"), &mut out.timeout);
    reader.number_into(fields.get("healthy"), &mut out.healthy);
    reader.number_into(fields.get("unhealthy"), &mut out.unhealthy);
    reader.optional_into(fields.get("port"), &mut out.port);
    Some(out)
}

fn defaults() -> Health {
    use std::time::Duration;
    Health {
        probe: Probe::Tcp,
        interval: Duration::from_secs(5),
        jitter: Percent::whole(10),
        timeout: Duration::from_secs(2),
        healthy: 2,
        unhealthy: 3,
        port: None,
    }
}

fn http(path: String) -> Probe {
    Probe::Http { path, host: None, headers: Vec::new(), statuses: vec![(200, 299)], body: None }
}

fn grpc(service: String) -> Probe {
    Probe::Grpc { service, host: None }
}

/// Reads the service to query; empty: the server as a whole.
fn service(reader: &mut Reader, field: Field<'_>) -> String {
    const SERVICE_MAX_BYTES: usize = 256;
    match field.node.scalar().and_then(Scalar::switch) {
        Some(true) => return String::new(),
        Some(false) => {
            let problem = Problem::error(field.node.at, "`grpc` is off, and there is no other probe");
            reader.problems.push(problem.help("write `health: off` to disable probes"));
            return String::new();
        }
        None => {}
    }
    let read = reader.field(field, |text| match text {
        "" => Err(ScalarError::new("{} names no service").help("write `on` to check the server as a whole")),
        text if text.starts_with('/') => Err(ScalarError::new("{} is a path, not a service")
            .suggest(format!("write `{}`", text.trim_matches('/').split('/').next().unwrap_or_default()))),
        text if text.len() > SERVICE_MAX_BYTES || !text.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Err(ScalarError::new("{} is not a service")
                .help("a service has up to 256 ASCII characters and no blank"))
        }
        text => Ok(text.to_owned()),
    });
    read.unwrap_or_default()
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

/// Reads the host of a probe and, for HTTP, its fields and the conditions on the response.
fn answer(reader: &mut Reader, fields: &Fields<'_>, probe: &mut Probe) {
    if let (Probe::Grpc { host, .. }, Some(field)) = (&mut *probe, fields.get("host")) {
        *host = reader.field(field, authority);
    }
    let Probe::Http { host, headers, statuses, body, .. } = probe else {
        let vain: &[&str] = if let Probe::Tcp = probe {
            &["status", "body", "host", "headers"]
        } else {
            &["status", "body", "headers"]
        };
        for name in vain {
            let (why, what) = match fields.get("grpc") {
                Some(_) => (
                    "it applies only to `http`: a gRPC server reports its own status",
                    "the probe is a gRPC call",
                ),
                None => {
                    ("it applies only to `http`: a TCP probe has no response", "the probe is a TCP connect")
                }
            };
            let own = fields.get("tcp").or_else(|| fields.get("grpc"));
            if let (Some(field), Some(own)) = (fields.get(name), own) {
                let problem = Problem::warning(field.at, format!("`{name}` has no effect here"));
                reader.problems.push(problem.help(why).related(own.at, what));
            }
        }
        return;
    };
    if let Some(field) = fields.get("status") {
        *statuses = good(reader, field);
    }
    if let Some(field) = fields.get("body") {
        *body = reader.field(field, |text| match text {
            "" => Err(ScalarError::new("{} would match every body")),
            text => Ok(text.to_owned()),
        });
    }
    if let Some(field) = fields.get("host") {
        *host = reader.field(field, authority);
    }
    *headers = reader.pairs(fields.get("headers"), probe_field, header::value);
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

fn good(reader: &mut Reader, field: Field<'_>) -> Vec<(u16, u16)> {
    let one = if let Shape::OneOrMany(one) = field.key.shape { one } else { &field.key.shape };
    let items = reader.bounded_items(field.node, "`status`");
    if items.is_empty() {
        let problem = Problem::error(field.node.at, "`status` is an empty list: every probe would fail");
        reader.problems.push(problem.expected(one.expected()));
    }
    items.iter().filter_map(|item| reader.parsed(item, "a status", one, status::range)).collect()
}

pub(super) fn outlier(reader: &mut Reader, field: Field<'_>) -> Outlier {
    let mut out = Outlier::default();
    let Some(setting) = reader.setting(field, &OUTLIER) else { return out };
    out.enabled = setting.on();
    let Some(fields) = setting.fields() else { return out };
    reader.optional_into(fields.get("consecutive_5xx"), &mut out.consecutive_5xx);
    reader.optional_into(fields.get("consecutive_gateway_errors"), &mut out.consecutive_gateway_errors);
    reader.switch(fields.get("success_rate"), &mut out.success_rate);
    reader.time_into(fields.get("interval"), &mut out.interval);
    reader.time_into(fields.get("ejection"), &mut out.ejection);
    reader.time_into(fields.get("ejection_max"), &mut out.ejection_max);
    reader.number_into(fields.get("max_ejected"), &mut out.max_ejected);
    if out.ejection > out.ejection_max {
        above(reader, fields, "ejection", "ejection_max");
    }
    if out.consecutive_5xx.is_none() && out.consecutive_gateway_errors.is_none() && !out.success_rate {
        let problem =
            Problem::warning(field.at, "this never ejects an endpoint: all of its conditions are off");
        reader.problems.push(problem.help("write `outlier: off` if that is intended"));
    }
    out
}
