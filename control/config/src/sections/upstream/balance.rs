//! `balance`: how an upstream chooses the endpoint of a request.

use std::time::Duration;

use crate::model::{Percent, Secret};
use crate::scalar::{field as header, host, path};
use crate::section::{Field, Fields, Problem, Reader, ScalarError, Section, Shape, Text, Value, Word};
use crate::suggest;

use super::super::texts::HEADER_NAME;

/// Policies of the short form. `hash` needs `by`, which only the mapping has.
const SHORT_POLICIES: [&str; 3] = ["round_robin", "least_requests", "random"];
const POLICIES: [&str; 4] = ["round_robin", "least_requests", "random", HASH];

static COOKIE: Text = Text {
    expected: "the name of a cookie such as `session`",
    pattern: Some(r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"),
    loose: false,
};

/// Load balancing. The short form is the policy alone.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(own_forms, check = check_sticky)]
pub struct Balance {
    /// How an endpoint is chosen among the available ones.
    #[key(flatten)]
    pub policy: Policy,
    /// Session affinity by cookie.
    #[key(
        default = off,
        also = ["session", "affinity", "sticky_session", "sticky_sessions", "session_affinity"]
    )]
    pub sticky: Option<Sticky>,
    /// How long an endpoint that is new or healthy again takes to reach its full share. The share grows
    /// linearly from a tenth.
    #[key(time = "100ms"..="1d", off, default = off, also = ["slow_start_window", "warmup", "warm_up"])]
    pub slow_start: Option<Duration>,
    /// Percentage of healthy weight below which health is ignored and all endpoints take requests; 0 switches
    /// it off.
    #[key(percent = 0..=100, default = "50%", also = ["panic", "healthy_panic_threshold"])]
    pub panic_threshold: Percent,
    /// Percentage of healthy weight in the gateway's own zone at which that zone takes all requests; below it
    /// a part spills over to other zones.
    #[key(percent = 0..=100, default = "70%", also = ["zone", "spill", "spillover", "locality"])]
    pub zone_spill: Percent,
}

impl Value for Balance {
    const SHAPE: Shape = Shape::AnyOf(&[Shape::Word(&SHORT_POLICIES), Shape::Section(Balance::SPEC)]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        if field.is_mapping() {
            return reader.section(field);
        }
        let policy = reader.field(field, |text| plain_policy(text, &SHORT_POLICIES))?;
        Some(Self { policy, ..Self::default() })
    }
}

fn check_sticky(reader: &mut Reader, fields: &Fields<'_>, balance: &mut Balance) {
    if let (Policy::Hash(_), Some(_), Some(field)) = (&balance.policy, &balance.sticky, fields.get("sticky"))
    {
        let problem = Problem::warning(field.at, "with `sticky`, `policy: hash` is rarely used");
        reader.problems.push(
            problem.help("the cookie selects the endpoint, so only a client's first request is hashed"),
        );
    }
}

/// How an endpoint is chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Smooth weighted round robin (`round_robin`).
    #[default]
    RoundRobin,
    /// Fewest active requests relative to weight, out of two random endpoints (`least_requests`).
    LeastRequests,
    /// Fewest active requests relative to weight, out of all endpoints (`{policy: least_requests, choices:
    /// all}`).
    LeastRequestsOfAll,
    /// A random endpoint, by weight (`random`).
    Random,
    /// Maglev consistent hashing (`hash`, with `by`).
    Hash(HashBy),
}

/// The keys that choose an endpoint.
#[derive(Clone, Debug, Section)]
#[section(makes = Policy, by = policy)]
struct PolicyKeys {
    /// How an endpoint is chosen among the available ones; `hash` needs `by`.
    #[key(
        shape = Shape::Word(&POLICIES), read = chosen_policy, default = round_robin,
        also = ["algorithm", "strategy", "method", "type", "lb_policy", "mode"]
    )]
    policy: Option<ChosenPolicy>,
    /// With `least_requests`: whether the endpoint with the fewest active requests is chosen out of two
    /// random ones or out of all.
    #[key(default = two, also = ["choice_count", "candidates"])]
    choices: Choices,
    /// With `hash`: the part of the request that is hashed. A request without it goes to any endpoint.
    #[key(also = ["hash_by", "key", "hash_on", "on", "hash", "header", "cookie", "query"])]
    by: Option<HashBy>,
}

/// The endpoints that `least_requests` compares.
#[derive(Clone, Copy, Debug, PartialEq, Word)]
enum Choices {
    Two,
    All,
}

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

fn plain_policy(text: &str, words: &[&'static str]) -> Result<Policy, ScalarError> {
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

/// A value of `policy` in the mapping.
#[derive(Clone, Debug, PartialEq)]
enum ChosenPolicy {
    Plain(Policy),
    Hash,
}

const HASH: &str = "hash";

fn chosen_policy(reader: &mut Reader, field: Field<'_>) -> Option<ChosenPolicy> {
    reader.field(field, |text| match text {
        HASH => Ok(ChosenPolicy::Hash),
        text => plain_policy(text, &POLICIES).map(ChosenPolicy::Plain),
    })
}

/// Combines the policy with the keys that belong to it alone.
fn policy(reader: &mut Reader, fields: &Fields<'_>, keys: PolicyKeys) -> Option<Policy> {
    let (by, choices) = (fields.get("by"), fields.get("choices"));
    Some(match (fields.get("policy"), keys.policy) {
        (Some(policy), Some(ChosenPolicy::Hash)) => {
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
            keys.by.map_or(Policy::RoundRobin, Policy::Hash)
        }
        // The policy is unknown, and the error has been reported.
        (Some(_), None) => Policy::RoundRobin,
        (_, chosen) => {
            let policy = match chosen {
                Some(ChosenPolicy::Plain(policy)) => policy,
                _ => Policy::default(),
            };
            if let Some(field) = by {
                stray(reader, field, HASH);
            }
            match (policy, choices) {
                (Policy::LeastRequests, _) if keys.choices == Choices::All => Policy::LeastRequestsOfAll,
                (Policy::LeastRequests, _) => Policy::LeastRequests,
                (policy, Some(field)) => {
                    stray(reader, field, "least_requests");
                    policy
                }
                (policy, None) => policy,
            }
        }
    })
}

/// Reports a key that belongs to another policy.
fn stray(reader: &mut Reader, field: Field<'_>, policy: &str) {
    let problem = Problem::error(field.at, format!("`{}` needs `policy: {policy}`", field.key.name));
    reader.problems.push(problem.help(format!("add `policy: {policy}`, or remove it")));
}

/// Checks the name of a cookie: a token (RFC 6265, section 4.1.1).
fn cookie(text: &str) -> Result<String, ScalarError> {
    if !header::is_token(text) || text.len() > 128 {
        return Err(ScalarError::new("{} is not the name of a cookie")
            .help("names have letters, digits, `_` and `-`"));
    }
    Ok(text.to_owned())
}

/// The part of the request that is hashed.
#[derive(Clone, Debug, Section)]
#[section(
    name = "hash_by", noun = "`by`", exactly_one = ["header", "cookie", "query"], makes = HashBy, by = hash_by, own_forms
)]
struct HashByKeys {
    /// A header's value.
    #[key(text = HEADER_NAME, parse = header::name, also = ["headers"])]
    header: Option<String>,
    /// A cookie's value.
    #[key(text = COOKIE, parse = cookie, also = ["cookies"])]
    cookie: Option<String>,
    /// A query parameter's value.
    #[key(
        expected = "the name of a query parameter such as `user`", pattern = ".", loose, parse = parameter,
        also = ["param", "parameter", "arg", "query_param", "vars"]
    )]
    query: Option<String>,
}

/// The part of a request that is hashed. A request without it goes to any endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HashBy {
    /// A header's value; the name in lower case (`by: {header: NAME}`).
    Header(String),
    /// A cookie's value (`by: {cookie: NAME}`).
    Cookie(String),
    /// A query parameter's value (`by: {query: NAME}`).
    Query(String),
    /// The client's address, without its port (`by: client_address`).
    ClientAddress,
    /// The path as matched, without the query (`by: path`).
    Path,
}

impl Value for HashBy {
    const SHAPE: Shape =
        Shape::AnyOf(&[Shape::Word(&["client_address", "path"]), Shape::Section(HashBy::SPEC)]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        if field.is_mapping() {
            return reader.section(field);
        }
        reader.field(field, |text| match text {
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
        })
    }
}

fn hash_by(_: &mut Reader, _: &Fields<'_>, keys: HashByKeys) -> Option<HashBy> {
    let HashByKeys { header, cookie, query } = keys;
    let header = header.map(|name| HashBy::Header(name.to_ascii_lowercase()));
    header.or(cookie.map(HashBy::Cookie)).or(query.map(HashBy::Query))
}

fn parameter(text: &str) -> Result<String, ScalarError> {
    match text {
        "" => Err(ScalarError::new("{} is not the name of a query parameter")),
        text => Ok(text.to_owned()),
    }
}

/// A cookie, or a header, that names a client's endpoint by a keyed hash of its address, not by the address itself.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(switch, at_most_one = ["cookie", "header"], check = check_sticky_field)]
pub struct Sticky {
    /// Its name. Default: `tollgate_` and eight digits of a hash of the upstream's name.
    #[key(text = COOKIE, parse = cookie, also = ["name"])]
    pub cookie: Option<String>,
    /// A header in place of a cookie, for clients that keep none: the client sends the value that a response gave it.
    #[key(text = HEADER_NAME, parse = header::name, also = ["response_header", "session_header"])]
    pub header: Option<String>,
    /// Lifetime of the cookie from when it is set; `off`: a session cookie.
    #[key(time = "1s"..="366d", off, default = off, also = ["expires", "max_age", "maxAge"])]
    pub ttl: Option<Duration>,
    /// Its `Path`.
    #[key(expected = "a path such as `/shop`", pattern = "^/[^;]*$", parse = cookie_path, default = "/")]
    pub path: String,
    /// Whether it is `Secure`: sent over TLS only.
    #[key(default = off)]
    pub secure: bool,
    /// From which sites browsers send it (`SameSite`). They ignore a cookie with `none` that is not `Secure`.
    #[key(also = ["samesite", "sameSite"])]
    pub same_site: Option<CookieSite>,
    /// Its `Domain`. Default: the host that set it, alone.
    #[key(
        expected = "a domain such as `example.com`", pattern = r"^\.?[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*$", parse = domain
    )]
    pub domain: Option<String>,
    /// The key of the hash, the same on every gateway that serves the client; best as `${VARIABLE}`. Without
    /// it, a client that guesses an endpoint's address can confirm the guess.
    #[key(
        expected = "a text of 16 to 1024 bytes", pattern = "^.{16,}$", loose, parse = secret,
        secret,
        also = ["key", "salt"]
    )]
    pub secret: Option<Secret>,
}

/// The sites from which browsers send a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Word)]
pub enum CookieSite {
    /// Its own site only.
    Strict,
    /// Also other sites, when a user follows a link there.
    Lax,
    /// All sites.
    None,
}

impl CookieSite {
    /// Returns the value of the attribute.
    #[must_use]
    pub fn value(self) -> &'static str {
        match self {
            Self::Strict => "Strict",
            Self::Lax => "Lax",
            Self::None => "None",
        }
    }
}

fn check_sticky_field(reader: &mut Reader, fields: &Fields<'_>, sticky: &mut Sticky) {
    if sticky.header.is_some() {
        for name in ["ttl", "path", "secure", "same_site", "domain"] {
            if let Some(field) = fields.get(name) {
                let message = format!("`{name}` is a property of a cookie, and conflicts with `header`");
                reader.problems.push(Problem::error(field.at, message));
            }
        }
    }
    if let (Some(CookieSite::None), false, Some(field)) =
        (sticky.same_site, sticky.secure, fields.get("same_site"))
    {
        let problem = Problem::warning(
            field.at,
            "browsers ignore a cookie with `same_site: none` that is not `Secure`",
        );
        reader.problems.push(problem.help("add `secure: on`"));
    }
    if let (Some(ttl), Some(field)) = (sticky.ttl, fields.get("ttl"))
        && ttl.subsec_nanos() != 0
    {
        let problem = Problem::error(field.node.at, "the lifetime of a cookie is in whole seconds");
        reader.problems.push(problem.expected(field.key.shape.expected()));
    }
}

fn cookie_path(text: &str) -> Result<String, ScalarError> {
    match path::path(text) {
        Ok(_) if text.contains(';') => Err(ScalarError::new("{} has a `;`, which would end the attribute")),
        other => other,
    }
}

fn domain(text: &str) -> Result<String, ScalarError> {
    // Browsers ignore a dot in front (RFC 6265, section 5.2.3).
    host::literal(text.strip_prefix('.').unwrap_or(text)).map(|_| text.to_owned())
}

/// Checks the key of the hash. No message repeats it, even if the file contains it in plain text.
fn secret(text: &str) -> Result<Secret, ScalarError> {
    match text.len() {
        16..=1024 => Ok(text.to_owned().into()),
        0..16 => Err(ScalarError::new("this secret is too short")),
        _ => Err(ScalarError::new("this secret is too long")),
    }
}
