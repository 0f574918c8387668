//! The settings of `cache`.

use std::sync::Arc;
use std::time::Duration;

use regex::bytes::Regex;
use tollgate_cache::{Admission, Normal, VaryRules};
use tollgate_config::section::{
    CONDITION, Fields, HEADER_NAME, KeySpec, Problem, Reader, ScalarError, Section, Shape, Word, header,
    header_conditions, quantity, query_conditions, status_range,
};
use tollgate_config::{FieldMatch, ValueMatch};

use super::active::{CacheRules, StaleTimes};
use super::conditions::{Condition, Conditions, ValueTest};
use super::key::{KeyRules, QueryRule};
use crate::Planned;
use crate::policy_config::{Compilation, PolicyConfig, policy_key};
use crate::texts::{cookie, word};

/// Longest lifetime that can be configured: a year, as RFC 9111 recommended once and clients still assume.
const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// Stores responses, and answers later requests with them (RFC 9111).
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "cache_policy", noun = "`cache`", switch, check = check)]
pub(crate) struct CacheSettings {
    /// The parts of a request that identify its response, in addition to the method, scheme, host and path.
    #[key(also = ["cache_key", "proxy_cache_key", "vary_by", "keys"])]
    key: KeySettings,
    /// Methods that are answered from the cache. A stored response to GET answers HEAD too.
    #[key(
        expected = "`GET` or `HEAD`", pattern = "^(GET|HEAD)$", each = method, what = "a method", bounded,
        default = "[GET, HEAD]", also = ["method", "proxy_cache_methods", "cache_method"],
    )]
    methods: Vec<String>,
    /// How long responses with a status are fresh, whatever they say themselves: `{200: 10m, 404: 30s}`. The keys are
    /// statuses, classes or ranges.
    #[key(
        expected = "a time such as `10m`", pattern = "^[0-9]", pairs = (status_range, lifetime),
        also = ["ttls", "valid", "proxy_cache_valid", "cache_ttl", "status_ttl"],
    )]
    ttl: Vec<((u16, u16), Duration)>,
    /// How long responses are fresh that do not say it, if their status is cacheable by default, as 200 and 404 are.
    /// `off`: a tenth of the time since `Last-Modified`, at most a day.
    #[key(time = "0s"..="365d", off, default = off, also = ["default", "expires", "min_ttl"])]
    default_ttl: Option<Duration>,
    /// How long a stale response is still served while a fresh one is fetched, if the response does not say it.
    #[key(time = "0s"..="365d", off, default = off, also = ["swr", "background_update", "grace"])]
    stale_while_revalidate: Option<Duration>,
    /// How long a stale response replaces an error of the upstream, if the response does not say it.
    #[key(time = "0s"..="365d", off, default = off, also = ["sie", "use_stale", "proxy_cache_use_stale", "keep"])]
    stale_if_error: Option<Duration>,
    /// Requests that are neither answered from the cache nor stored. One of the conditions is enough.
    #[key(also = ["proxy_cache_bypass", "skip", "cache_bypass"])]
    bypass: ConditionSettings,
    /// Requests whose responses are not stored. One of the conditions is enough.
    #[key(also = ["no_cache", "proxy_no_cache"])]
    no_store: ConditionSettings,
    /// Maximum bytes of a stored body. A longer one streams through.
    #[key(size = 1..="1GiB", default = "8MiB", also = ["max_object_size", "max_size", "max_body", "maxobjsize"])]
    max_object: u64,
    /// Size of the slices in which responses are fetched and stored, by ranges, for large files of which clients ask for
    /// parts. At most `max_object`, which then bounds a slice.
    #[key(size = "64KiB"..="64MiB", off, default = off, also = ["slice_size", "proxy_cache_slice", "range_size"])]
    slice: Option<u64>,
    /// Number of requests from which on a response is stored.
    #[key(count = 1..=100, default = 1, also = ["proxy_cache_min_uses"])]
    min_uses: u8,
    /// Response fields that list tags, separated by blanks or commas.
    #[key(text = HEADER_NAME, each = header::name, bounded, default = "[Surrogate-Key, Cache-Tag]", also = ["tag", "tag_header"])]
    tags: Vec<String>,
    /// Whether responses with `Set-Cookie` are stored.
    #[key(default = off, also = ["store_cookies", "cookies"])]
    set_cookie: bool,
    /// Fields that take precedence over `Cache-Control`, the first that is present (RFC 9213).
    #[key(text = HEADER_NAME, each = header::name, bounded, default = "[CDN-Cache-Control]")]
    targeted: Vec<String>,
    /// Fields on which responses do not depend, although their `Vary` names them.
    #[key(text = HEADER_NAME, each = header::name, bounded, also = ["ignore_vary", "proxy_ignore_headers"])]
    vary_ignore: Vec<String>,
    /// Whether `Accept-Encoding` counts as the set of accepted codings, if a response varies by it. Otherwise it counts
    /// as sent.
    #[key(default = on, also = ["accept_encoding", "normalize_accept_encoding"])]
    normalize_encoding: bool,
    /// Whether requests with credentials are answered with responses that other clients caused, and store theirs,
    /// even if the response does not allow it.
    #[key(default = off, also = ["shared", "ignore_authorization"])]
    across_identities: bool,
    /// Whether the request's `Cache-Control` counts.
    #[key(default = on, also = ["honor_request", "request_directives"])]
    client_directives: bool,
    /// Whether responses say in `Cache-Status` how the cache handled the request (RFC 9211).
    #[key(default = on, also = ["cache_status", "status_header", "add_status"])]
    status: bool,
}

/// The parts of a request that identify its response, in addition to the method, scheme, host and path.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "cache_key", noun = "`key`", at_most_one = ["query_only", "query_without"])]
struct KeySettings {
    /// How the query counts.
    #[key(default = all)]
    query: QueryWord,
    /// The only parameters that count.
    #[key(
        expected = "the name of a parameter", pattern = ".", loose, each = word, what = "a parameter", bounded,
        also = ["include_query", "query_include", "only"],
    )]
    query_only: Vec<String>,
    /// Parameters that do not count; `utm_*` is every parameter whose name begins with `utm_`.
    #[key(
        expected = "the name of a parameter", pattern = ".", loose, each = word, what = "a parameter", bounded,
        also = ["exclude_query", "query_exclude", "without", "ignore_query"],
    )]
    query_without: Vec<String>,
    /// Request fields whose values count.
    #[key(text = HEADER_NAME, each = header::name, what = "a field", bounded, also = ["header", "fields"])]
    headers: Vec<String>,
    /// Cookies whose values count.
    #[key(
        expected = "the name of a cookie", pattern = "^[!-~]+$", each = cookie, what = "a cookie", bounded,
        also = ["cookie"],
    )]
    cookies: Vec<String>,
    /// Whether the host counts.
    #[key(default = on, also = ["hostname"])]
    host: bool,
}

/// `query`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Word)]
enum QueryWord {
    All,
    Sorted,
    Off,
}

/// Conditions of which one is enough.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "cache_condition", noun = "a condition of `cache`")]
struct ConditionSettings {
    /// Conditions on header fields.
    #[key(shape = Shape::MapOf(&CONDITION), read = header_conditions, also = ["header"])]
    headers: Vec<FieldMatch>,
    /// Conditions on query parameters.
    #[key(shape = Shape::MapOf(&CONDITION), read = query_conditions, also = ["params", "args", "queries"])]
    query: Vec<FieldMatch>,
    /// Cookies that are present.
    #[key(
        expected = "the name of a cookie", pattern = "^[!-~]+$", each = cookie, what = "a cookie", bounded,
        also = ["cookie"],
    )]
    cookies: Vec<String>,
}

impl PolicyConfig for CacheSettings {
    const KEY: KeySpec =
        policy_key::<Self>("cache", "Stores responses, and answers later requests with them.").aliases(&[
            "proxy_cache",
            "proxy-cache",
            "http_cache",
            "response_cache",
            "caching",
        ]);

    fn compile(&self, _: &mut Compilation<'_>) -> Arc<dyn Planned> {
        let bytes = |texts: &[String]| texts.iter().map(|text| text.as_bytes().into()).collect();
        let key = &self.key;
        let query = match key.query {
            _ if !key.query_only.is_empty() => QueryRule::Only(bytes(&key.query_only)),
            _ if !key.query_without.is_empty() => QueryRule::Without(bytes(&key.query_without)),
            QueryWord::Off => QueryRule::Only(Box::default()),
            QueryWord::All | QueryWord::Sorted => QueryRule::All,
        };
        let lower = |names: &[String]| names.iter().map(|name| name.to_ascii_lowercase().into()).collect();
        let admission = Admission {
            targeted_fields: lower(&self.targeted),
            stores_cookies: self.set_cookie,
            stores_identified: self.across_identities,
            default_seconds: self.default_ttl.map(seconds),
            vary: vary_rules(&self.vary_ignore, self.normalize_encoding),
            tag_fields: lower(&self.tags),
            ..Admission::default()
        };
        let forced = |lifetime| Admission { forced_seconds: Some(seconds(lifetime)), ..admission.clone() };
        Arc::new(CacheRules {
            key: KeyRules {
                query,
                sorts: key.query == QueryWord::Sorted,
                headers: key.headers.iter().map(|name| name.to_ascii_lowercase().into()).collect(),
                cookies: key.cookies.iter().map(|name| name.as_str().into()).collect(),
                host: key.host,
            },
            get: self.methods.iter().any(|method| method == "GET"),
            head: self.methods.iter().any(|method| method == "HEAD"),
            stale_times: StaleTimes {
                stale_while_revalidate: self.stale_while_revalidate,
                stale_if_error: self.stale_if_error,
            },
            bypass: conditions(&self.bypass),
            no_store: conditions(&self.no_store),
            max_object: self.max_object,
            slice: self.slice,
            min_uses: self.min_uses,
            by_status: self.ttl.iter().map(|(statuses, lifetime)| (*statuses, forced(*lifetime))).collect(),
            admission,
            across_identities: self.across_identities,
            client_directives: self.client_directives,
            status: self.status,
        })
    }
}

fn conditions(settings: &ConditionSettings) -> Conditions {
    let all = |matches: &[FieldMatch]| matches.iter().filter_map(condition).collect();
    Conditions {
        headers: all(&settings.headers),
        query: all(&settings.query),
        cookies: settings.cookies.iter().map(|name| name.as_str().into()).collect(),
    }
}

/// Returns a condition. The reader has checked that patterns compile. A pattern that exceeds the library's size limit
/// never matches.
fn condition(written: &FieldMatch) -> Option<Condition> {
    let regex = |pattern: &str| Regex::new(&format!("^(?:{pattern})$")).ok();
    let test = match &written.value {
        ValueMatch::Present => ValueTest::Present,
        ValueMatch::Absent => ValueTest::Absent,
        ValueMatch::Exact(text) => ValueTest::Exactly(text.as_bytes().into()),
        ValueMatch::NotExact(text) => ValueTest::Not(text.as_bytes().into()),
        ValueMatch::Regex(pattern) => ValueTest::Matches(regex(pattern)?),
        ValueMatch::NotRegex(pattern) => ValueTest::MatchesNot(regex(pattern)?),
    };
    Some(Condition { name: written.name.as_bytes().into(), test })
}

fn check(reader: &mut Reader, fields: &Fields<'_>, cache: &mut CacheSettings) {
    if let Some(field) = fields.get("methods")
        && cache.methods.iter().all(|method| method != "GET")
    {
        let problem = Problem::error(field.at, "`methods` of `cache` needs `GET`");
        reader.problems.push(problem.help("a response to HEAD has no body that could be stored"));
    }
    if let Some(field) = fields.get("vary_ignore")
        && let Some(name) = cache.vary_ignore.iter().find(|name| is_personal(name))
    {
        let message = format!("clients with other values of `{name}` get the same response");
        let problem = Problem::warning(field.at, message);
        reader
            .problems
            .push(problem.help("ignore it only if no response depends on it, whatever `Vary` says"));
    }
    if let Some(field) = fields.get("slice")
        && cache.slice.is_some_and(|slice| slice > cache.max_object)
    {
        let problem =
            Problem::error(field.at, "`slice` is larger than `max_object`, so no slice would be stored");
        reader.problems.push(problem.help("each slice is stored as an object; 1MiB is usual"));
    }
    let key = &cache.key;
    let chooses = !(key.query_only.is_empty() && key.query_without.is_empty());
    if let Some(field) = fields.get("key")
        && chooses
        && key.query == QueryWord::Off
    {
        let message = "`query: off` and a choice of parameters exclude each other";
        reader.problems.push(Problem::error(field.at, message));
    }
    if let Some(field) = fields.get("key")
        && !key.host
    {
        let message = "responses of all hosts of this route share entries";
        let problem = Problem::warning(field.at, message);
        reader.problems.push(problem.help("leave `host: off` out unless no host has content of its own"));
    }
}

/// Returns whether a field tells clients apart, or what they can read.
fn is_personal(name: &str) -> bool {
    ["cookie", "authorization", "accept-encoding"].iter().any(|personal| name.eq_ignore_ascii_case(personal))
}

fn method(text: &str) -> Result<String, ScalarError> {
    match text {
        "GET" | "HEAD" => Ok(text.to_owned()),
        _ => Err(ScalarError::new("{} is not answered from a cache").help("there are `GET` and `HEAD`")),
    }
}

fn lifetime(text: &str) -> Result<Duration, ScalarError> {
    quantity::time(text, Duration::ZERO, YEAR)
}

/// Returns whole seconds; a lifetime has no fraction in HTTP.
fn seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}

fn vary_rules(ignored: &[String], normalizes_encoding: bool) -> VaryRules {
    let encoding = if normalizes_encoding { Normal::Codings } else { Normal::Exact };
    let rules = VaryRules::default().with("accept-encoding", encoding);
    ignored.iter().fold(rules, |rules, name| rules.ignoring(name))
}
