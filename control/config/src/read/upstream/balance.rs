//! Reads `balance`.

use crate::model::{Balance, HashBy, Policy, Sticky};
use crate::problem::Problem;
use crate::reader::{Field, Fields, Reader};
use crate::scalar::{ScalarError, field as header, path};
use crate::spec::{BALANCE, HASH_BY, STICKY};
use crate::suggest;
use crate::tree::NodeKind;

/// Names that other gateways use for policies, with the equivalent here.
const ALIASES: &[(&[&str], &str)] = &[
    (&["rr", "wrr", "roundrobin", "weighted_round_robin", "static-rr", "smooth"], "write `round_robin`"),
    (
        &[
            "least_conn",
            "leastconn",
            "least_connections",
            "least_connection",
            "least_request",
            "least_outstanding",
            "p2c",
            "power_of_two",
            "ewma",
            "least_time",
        ],
        "write `least_requests`",
    ),
    (
        &["ip_hash", "source", "source_ip", "client_ip", "iphash"],
        "write `{policy: hash, by: client_address}`",
    ),
    (&["uri", "url", "uri_hash", "url_hash", "path"], "write `{policy: hash, by: path}`"),
    (
        &["hash", "chash", "ketama", "maglev", "ring_hash", "ringhash", "consistent", "consistent_hash"],
        "name the hashed part: `{policy: hash, by: {header: X-User}}`",
    ),
    (&["cookie", "sticky"], "write `{sticky: on}`, optionally with a `policy`"),
];

pub(super) fn balance(reader: &mut Reader, field: Field<'_>) -> Balance {
    let mut out = Balance::default();
    if !matches!(field.node.kind, NodeKind::Map(_)) {
        out.policy = reader
            .field(field, |text| policy(text, &["round_robin", "least_requests", "random"]))
            .unwrap_or_default();
        return out;
    }
    let Some(fields) = reader.fields(field.node, &BALANCE) else { return out };
    out.policy = chosen(reader, &fields);
    if let Some(field) = fields.get("sticky") {
        out.sticky = sticky(reader, field);
    }
    reader.duration_into(fields.get("slow_start"), &mut out.slow_start);
    reader.number_into(fields.get("panic_threshold"), &mut out.panic_threshold);
    reader.number_into(fields.get("zone_spill"), &mut out.zone_spill);
    if let (Policy::Hash(_), Some(_), Some(field)) = (&out.policy, &out.sticky, fields.get("sticky")) {
        let problem = Problem::warning(field.at, "with `sticky`, `policy: hash` is rarely used");
        reader.problems.push(
            problem.help("the cookie selects the endpoint, so only a client's first request is hashed"),
        );
    }
    out
}

fn policy(text: &str, words: &[&'static str]) -> Result<Policy, ScalarError> {
    if words.contains(&text) {
        return Ok(match text {
            "least_requests" => Policy::LeastRequests,
            "random" => Policy::Random,
            _ => Policy::RoundRobin,
        });
    }
    let fault = ScalarError::new("{} is not a policy");
    let plain = text.to_ascii_lowercase();
    if let Some((_, help)) = ALIASES.iter().find(|(names, _)| names.contains(&plain.as_str())) {
        return Err(fault.help(help));
    }
    Err(match suggest::nearest(text, words.iter().copied()) {
        Some(near) => fault.suggest(format!("did you mean `{near}`?")),
        None => fault,
    })
}

/// Reads the policy with the keys that belong to it alone.
fn chosen(reader: &mut Reader, fields: &Fields<'_>) -> Policy {
    const HASH: &str = "hash";
    let word = fields.get("policy").and_then(|field| {
        reader.field(field, |text| match text {
            HASH => Ok(None),
            text => policy(text, &["round_robin", "least_requests", "random", HASH]).map(Some),
        })
    });
    let by = fields.get("by");
    let hashed = by.and_then(|field| hash_by(reader, field));
    let choices = fields.get("choices");
    let all = reader.word(choices) == Some("all");
    match (fields.get("policy"), word) {
        (Some(policy), Some(None)) => {
            if let Some(field) = choices {
                stray(reader, field, "least_requests");
            }
            if by.is_none() && reader.complete {
                let problem = Problem::error(policy.node.at, "`policy: hash` needs `by`");
                reader.problems.push(problem.expected(
                    "`by`: `client_address`, `path`, or a mapping with `header`, `cookie` or \
                            `query`",
                ));
            }
            hashed.map_or(Policy::RoundRobin, Policy::Hash)
        }
        // The policy is unknown, and the error has been reported.
        (Some(_), None) => Policy::RoundRobin,
        (_, word) => {
            let policy = word.flatten().unwrap_or_default();
            if let Some(field) = by {
                stray(reader, field, HASH);
            }
            match (policy, choices) {
                (Policy::LeastRequests, _) if all => Policy::LeastRequestsOfAll,
                (Policy::LeastRequests, _) => Policy::LeastRequests,
                (policy, Some(field)) => {
                    stray(reader, field, "least_requests");
                    policy
                }
                (policy, None) => policy,
            }
        }
    }
}

/// Reports a key that belongs to another policy.
fn stray(reader: &mut Reader, field: Field<'_>, policy: &str) {
    let problem = Problem::error(field.at, format!("`{}` needs `policy: {policy}`", field.key.name));
    reader.problems.push(problem.help(format!("add `policy: {policy}`, or remove it")));
}

fn hash_by(reader: &mut Reader, field: Field<'_>) -> Option<HashBy> {
    if !matches!(field.node.kind, NodeKind::Map(_)) {
        return reader.field(field, |text| match text {
            "client_address" => Ok(HashBy::ClientAddress),
            "path" => Ok(HashBy::Path),
            "ip" | "source" | "source_ip" | "client_ip" | "remote_addr" | "$remote_addr" | "client" => {
                Err(ScalarError::new("{} is not supported here").help("write `client_address`"))
            }
            "uri" | "url" | "$uri" | "$request_uri" => {
                Err(ScalarError::new("{} is not supported here").help("write `path`"))
            }
            "header" | "cookie" | "query" => {
                Err(ScalarError::new("{} needs a name").suggest(format!("write `{{{text}: NAME}}`")))
            }
            _ => {
                let fault = ScalarError::new("{} is not a part of a request that can be hashed")
                    .help("a header is written `{header: X-User}`, a cookie `{cookie: session}`");
                Err(match suggest::nearest(text, ["client_address", "path"].into_iter()) {
                    Some(near) => fault.suggest(format!("did you mean `{near}`?")),
                    None => fault,
                })
            }
        });
    }
    let fields = reader.fields(field.node, &HASH_BY)?;
    if let Some(field) = fields.get("header") {
        return reader.field(field, |text| Ok(HashBy::Header(header::name(text)?.to_ascii_lowercase())));
    }
    if let Some(field) = fields.get("cookie") {
        return reader.field(field, cookie).map(HashBy::Cookie);
    }
    reader.field(fields.get("query")?, |text| match text {
        "" => Err(ScalarError::new("{} is not the name of a query parameter")),
        text => Ok(HashBy::Query(text.to_owned())),
    })
}

/// Checks the name of a cookie: a token (RFC 6265, section 4.1.1).
fn cookie(text: &str) -> Result<String, ScalarError> {
    if !header::is_token(text) || text.len() > 128 {
        return Err(ScalarError::new("{} is not the name of a cookie")
            .help("names have letters, digits, `_` and `-`"));
    }
    Ok(text.to_owned())
}

fn sticky(reader: &mut Reader, field: Field<'_>) -> Option<Sticky> {
    let setting = reader.setting(field, &STICKY)?;
    let mut out = setting.on().then(Sticky::default)?;
    let Some(fields) = setting.fields() else { return Some(out) };
    if let Some(field) = fields.get("cookie") {
        out.cookie = reader.field(field, cookie);
    }
    reader.duration_into(fields.get("ttl"), &mut out.ttl);
    if let (Some(ttl), Some(field)) = (out.ttl, fields.get("ttl"))
        && ttl.subsec_nanos() != 0
    {
        let problem = Problem::error(field.node.at, "the lifetime of a cookie is in whole seconds");
        reader.problems.push(problem.expected(field.key.shape.expected()));
    }
    if let Some(field) = fields.get("path") {
        out.path = reader
            .field(field, |text| match path::path(text) {
                Ok(_) if text.contains(';') => {
                    Err(ScalarError::new("{} has a `;`, which would end the attribute"))
                }
                other => other,
            })
            .unwrap_or_default();
    }
    reader.switch(fields.get("secure"), &mut out.secure);
    if let Some(field) = fields.get("secret") {
        // No message repeats the secret, even if the file contains it in plain text.
        out.secret = reader.field(field, |text| match text.len() {
            16..=1024 => Ok(text.to_owned().into()),
            0..16 => Err(ScalarError::new("this secret is too short")),
            _ => Err(ScalarError::new("this secret is too long")),
        });
    }
    Some(out)
}
