//! An item of `routes`: the requests that it matches, and how the gateway answers them.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::model::Policies;
use crate::position::{At, Spanned};
use crate::scalar::field as header;
use crate::scalar::name::{listener_name, name};
use crate::scalar::time::{Timestamp, timestamp};
use crate::section::{Field, Fields, NodeKind, Problem, Reader, ScalarError, Section, Text, Word, shown};

use super::access_log::AccessLog;
use super::buffer::RouteBuffer;
use super::fallback::{Fallback, check_fallbacks, fallbacks};
use super::files::Files;
use super::limits::{RouteLimitKeys, RouteRates};
use super::matching::{Match, matches};
use super::path_match::PathMatch;
use super::redirect::Redirect;
use super::respond::Respond;
use super::rewrite::{PathRewrite, Rewrite, WithGroups, check_uses};
use super::target::{Target, targets};
use super::texts::{LISTENER_NAME, NAME};
use super::timeouts::{RouteStay, RouteTimeoutKeys, RouteTimeouts};
use super::upstream::{RETRY_ALSO, Retry};

static TIME: Text = Text {
    expected: "a time such as `2026-01-02T03:04:05Z`",
    pattern: Some(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9:.]+([Zz]|[+-][0-9]{2}:[0-9]{2})$"),
    loose: true,
};
static PROTOCOL: Text = Text {
    expected: "a protocol such as `websocket`",
    pattern: Some(r"^[!#$%&'*+.^_`|~0-9A-Za-z/-]+$"),
    loose: false,
};

/// Identifies a route as it was read, so that results computed for it can be found again. A clone keeps the
/// identity; code that changes a route must assign a new one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity(u64);

/// Omits the number, so that two reads of the same text print alike.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}

impl Identity {
    /// Returns an identity that no other route has.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "two defaults would differ")]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// One route.
#[derive(Clone, Debug)]
pub struct Route {
    /// Identity of this reading of the route.
    pub identity: Identity,
    /// Name in logs, metrics and `explain`; `None`: the match as text is used.
    pub name: Option<Spanned<String>>,
    /// Source position of the route.
    pub at: At,
    /// Names of the listeners that it is attached to; empty: all.
    pub listeners: Vec<Spanned<String>>,
    /// When it was created; decides between routes that are otherwise equal.
    pub created: Option<Timestamp>,
    /// Whether it takes requests. A disabled route is checked like any other. Default true.
    pub enabled: bool,
    /// Conditions of the requests that it matches.
    pub matches: Match,
    /// How it answers requests.
    pub action: Action,
    /// Changes to the request before it is forwarded.
    pub rewrite: Rewrite,
    /// Overrides of the gateway's timeouts.
    pub timeouts: RouteTimeouts,
    /// Maximum request body in bytes; `None`: the gateway's.
    pub body_limit: Option<u64>,
    /// Overrides of the gateway's minimum rates.
    pub rates: RouteRates,
    /// Overrides of the gateway's `buffer`.
    pub buffer: RouteBuffer,
    /// Protocols that a client may request with `Upgrade`, lower case. Default `websocket`.
    pub upgrade: Vec<String>,
    /// Retry rules; `None`: the upstream's.
    pub retry: Option<Retry>,
    /// Priority of its requests under overload.
    pub priority: Priority,
    /// Whether gRPC-Web calls are translated to gRPC. Default false.
    pub grpc_web: bool,
    /// Its policies.
    pub policies: Policies,
    /// Its access logs, which replace the gateway's; `None`: the gateway's.
    pub access_log: Option<Vec<AccessLog>>,
    /// Replacements for error responses, in the order tried.
    pub fallback: Vec<Fallback>,
    /// Overrides of the time that a client connection is kept.
    pub stay: RouteStay,
}

impl Route {
    /// Returns the name in logs, metrics and `explain`: the route's name, or its match as text, followed by its listeners.
    #[must_use]
    pub fn display_name(&self) -> String {
        if let Some(name) = &self.name {
            return name.value.clone();
        }
        let host = self.matches.host.as_ref().map_or("", |host| host.value.as_str());
        let path = match self.matches.path.as_ref().map(|path| &path.value) {
            None => "/*".to_owned(),
            Some(PathMatch::Exact(path)) => path.clone(),
            Some(PathMatch::Prefix(path)) => format!("{path}/*"),
            Some(PathMatch::Regex(pattern)) => format!("~{pattern}"),
            Some(PathMatch::RawPrefix(text)) => format!("{text}*"),
            Some(PathMatch::Suffix(text)) => format!("*{text}"),
        };
        let methods = self.matches.methods.join(",");
        let space = if methods.is_empty() { "" } else { " " };
        let listeners: Vec<&str> = self.listeners.iter().map(|name| name.value.as_str()).collect();
        // Routes of different listeners may have the same match, but statistics and policies keep them apart.
        let at = if listeners.is_empty() { String::new() } else { format!(" @{}", listeners.join(",")) };
        format!("{methods}{space}{host}{path}{at}")
    }
}

/// How a route answers.
#[derive(Clone, Debug)]
pub enum Action {
    /// Forward to upstreams, chosen by weight.
    Forward(Vec<Target>),
    /// Answer with a redirect.
    Redirect(Redirect),
    /// Answer with a fixed response.
    Respond(Respond),
    /// Answer with files of a directory.
    Files(Box<Files>),
}

/// Priority of a route's requests under overload: the lowest is shed first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Word)]
pub enum Priority {
    /// Shed first (`low`).
    Low,
    /// The default (`normal`).
    #[default]
    Normal,
    /// Shed last (`high`).
    High,
}

/// A route: the requests that it matches, and how it answers them.
#[derive(Clone, Debug, Section)]
#[section(name = "route", noun = "a route", exactly_one = ["to", "redirect", "respond", "files"], check = check)]
pub(crate) struct RouteKeys {
    /// The requests that it matches, and its name.
    #[key(flatten)]
    pub conditions: RouteConditions,
    /// Names of the listeners that it is attached to: requests that arrive elsewhere do not reach it. Default: all
    /// listeners.
    #[key(
        text = LISTENER_NAME, each = listener_name, what = "a listener", nonempty, bounded,
        also = ["listener", "listen", "entrypoints", "entryPoints", "ports", "parentRefs", "gateways"]
    )]
    pub listeners: Vec<Spanned<String>>,
    /// When it was created, as RFC 3339 writes it. Of routes with the same conditions that all have it, the oldest takes the
    /// requests, and the others are shadowed. Default: routes with the same conditions are an error.
    #[key(text = TIME, parse = timestamp, also = ["created_at", "creationTimestamp", "creation_time", "age"])]
    pub created: Option<Timestamp>,
    /// Whether it takes requests. `off`: the route is checked like any other, but matches nothing.
    #[key(default = on, also = ["enable", "active", "disabled", "disable", "status"])]
    pub enabled: bool,
    /// Forwards to endpoints or upstreams, chosen by weight.
    #[key(
        list, read = targets,
        also = [
            "proxy_pass", "upstream", "backend", "backends", "target", "targets", "forward", "service",
            "endpoints"
        ]
    )]
    pub to: Option<Vec<Target>>,
    /// Answers with a redirect: a complete `Location`, or the parts that change.
    pub redirect: Option<WithGroups<Redirect>>,
    /// Answers with a fixed response: a status, a text, or a mapping.
    #[key(also = ["return", "response", "direct_response"])]
    pub respond: Option<Respond>,
    /// Answers with files of a directory: the directory, or a mapping.
    #[key(
        also = [
            "root", "static", "static_files", "file_server", "try_files", "alias", "serve", "directory", "document_root",
            "spa"
        ]
    )]
    pub files: Option<Files>,
    /// Changes to the request before it is forwarded.
    pub rewrite: WithGroups<Rewrite>,
    /// Overrides of the gateway's timeouts.
    #[key(also = ["timeout"])]
    pub timeouts: RouteTimeoutKeys,
    /// Overrides of the gateway's limits.
    pub limits: RouteLimitKeys,
    /// Whether bodies are buffered before they are passed on: `on` buffers both directions, `request` or
    /// `response` one of them.
    #[key(also = ["buffering", "proxy_request_buffering", "request_buffering"])]
    pub buffer: RouteBuffer,
    /// Retry rules, which replace the upstream's.
    #[key(also = RETRY_ALSO)]
    pub retry: Option<Retry>,
    /// Priority of its requests under overload: `low` is shed first and `high` last.
    #[key(default = normal, also = ["importance", "criticality"])]
    pub priority: Priority,
    /// Whether gRPC-Web calls, as browsers make them, are translated to gRPC.
    #[key(default = off, also = ["grpcweb"])]
    pub grpc_web: bool,
    /// Replacements for error responses: another upstream, a page from one, or a fixed response. The first one
    /// that matches applies.
    #[key(
        list, read = fallbacks,
        also = [
            "fallbacks", "error_page", "error_pages", "errors", "failover", "proxy_intercept_errors",
            "on_error"
        ]
    )]
    pub fallback: Vec<Fallback>,
    /// Policies that apply to requests. The innermost policy of each kind applies; `off` disables an
    /// inherited one.
    #[key(also = ["policy", "plugins", "middlewares", "filters"])]
    pub policies: Policies,
    /// Its access logs, which replace the gateway's; `off`: none.
    #[key(also = ["log", "logs", "accesslog", "access_logs"])]
    pub access_log: Option<Vec<AccessLog>>,
    /// Protocols that a client may request with `Upgrade`.
    #[key(
        text = PROTOCOL, off, list, read = upgrade, default = websocket, also = ["websocket", "websockets"]
    )]
    pub upgrade: Vec<String>,
}

/// The requests that a route matches, and its name.
#[derive(Clone, Debug, Section)]
#[section(check = check_conditions)]
pub(crate) struct RouteConditions {
    /// Name in logs and metrics. Default: the match.
    #[key(text = NAME, parse = name)]
    pub name: Option<Spanned<String>>,
    /// The requests that it matches: `host/path`, either of which may be omitted. Default: all.
    #[key(
        name = "match", list, read = matches,
        also = [
            "matches", "when", "location", "path", "host", "hosts", "paths", "uri", "rule", "prefix"
        ]
    )]
    pub matches: Vec<Match>,
    /// Whether the matches are as intended, so that they can be compared with the matches of other routes although
    /// the route has a mistake elsewhere.
    #[key(skip)]
    pub are_reliable: bool,
}

fn check_conditions(reader: &mut Reader, fields: &Fields<'_>, conditions: &mut RouteConditions) {
    if fields.get("match").is_none() {
        conditions.matches = vec![Match { at: fields.at, ..Match::default() }];
    }
    conditions.are_reliable = !reader.has_errors_since(fields.start) && !fields.hold_invalid();
}

fn check(reader: &mut Reader, fields: &Fields<'_>, route: &mut RouteKeys) {
    let matches = &route.conditions.matches;
    check_fallbacks(reader, &route.fallback, route.to.as_deref().unwrap_or_default());
    let redirect = route.redirect.as_ref().filter(|_| route.to.is_none());
    if route.conditions.are_reliable {
        let mut uses = route.rewrite.uses.clone();
        uses.extend(redirect.iter().flat_map(|redirect| redirect.uses.iter().cloned()));
        check_uses(reader, &uses, matches);
    }
    let new_path = redirect.and_then(|redirect| redirect.value.path.as_ref());
    for path in [route.rewrite.value.path.as_ref(), new_path].into_iter().flatten() {
        prefix(reader, path, matches);
    }
    if route.to.is_none() {
        if route.redirect.is_some() || route.respond.is_some() {
            unused(
                reader,
                fields,
                &["rewrite", "timeouts", "buffer", "retry", "grpc_web", "upgrade", "fallback"],
            );
        } else if route.files.is_some() {
            // The rest of a forwarding route's keys may concern its fallback.
            unused(reader, fields, &["grpc_web", "upgrade"]);
        }
    }
}

/// Reports a rewrite of the prefix if the route does not match a prefix.
fn prefix(reader: &mut Reader, path: &Spanned<PathRewrite>, matches: &[Match]) {
    let PathRewrite::Prefix(_) = path.value else { return };
    let mut paths = matches.iter().filter_map(|matches| matches.path.as_ref());
    if let Some(whole) = paths.find(|path| !matches!(path.value, PathMatch::Prefix(_))) {
        reader.problems.push(
            Problem::error(path.at, "a prefix can be replaced only if the route matches a prefix")
                .help("end the route's path in `/*`, or rewrite the whole `path`")
                .related(whole.at, "this is not a prefix match"),
        );
    }
}

/// Warns of keys that only a forwarding route uses.
fn unused(reader: &mut Reader, fields: &Fields<'_>, names: &[&str]) {
    for name in names.iter().copied() {
        if let Some(field) = fields.get(name)
            && !(name == "timeouts" && is_of_clients(field))
        {
            let problem = Problem::warning(field.at, format!("`{name}` has no effect here"));
            reader.problems.push(problem.help("it applies only with `to`: this route answers by itself"));
        }
    }
}

/// Returns whether these timeouts concern only client connections, which every route has.
fn is_of_clients(timeouts: Field<'_>) -> bool {
    match &timeouts.node.kind {
        NodeKind::Map(entries) => entries.iter().all(|entry| matches!(entry.key.as_str(), "idle" | "age")),
        _ => false,
    }
}

/// Reads the protocols of `upgrade`. `on` is `websocket`.
fn upgrade(reader: &mut Reader, field: Field<'_>) -> Option<Vec<String>> {
    if let Some(scalar) = field.node.scalar() {
        match scalar.switch() {
            Some(true) => return Some(vec!["websocket".to_owned()]),
            Some(false) => return Some(Vec::new()),
            None => {}
        }
    }
    let mut out: Vec<String> = Vec::new();
    for item in reader.bounded_items(field.node, "`upgrade`") {
        let protocol = reader.parsed(item, "a protocol", &field.key.shape, |text| {
            // `protocol-name ["/" protocol-version]` (RFC 9110, section 7.8).
            if text.split('/').count() <= 2 && text.split('/').all(header::is_token) {
                return Ok(text.to_ascii_lowercase());
            }
            Err(ScalarError::new("{} is not a protocol").help("several protocols are a list"))
        });
        if let Some(protocol) = protocol.filter(|protocol| !out.contains(protocol)) {
            if protocol == "h2c" {
                let message = format!("{} would carry HTTP/2 past every rule of this gateway", shown("h2c"));
                let problem = Problem::error(item.at, message);
                reader.problems.push(problem.help("remove it; an `h2c://` target uses HTTP/2"));
            }
            out.push(protocol);
        }
    }
    Some(out)
}
