//! The settings of `cache` of `forward_auth`.

use std::time::Duration;

use tollgate_config::nearest;
use tollgate_config::section::{
    Field, Fields, NodeKind, Problem, Reader, ScalarError, Section, Shape, Text, header, quantity,
    status_range,
};

use super::DecisionCacheRules;
use super::decision_key::{COMMON_FIELDS, DecisionKeyRules, KeyPart};
use crate::recent_map::RecentBounds;

/// Maximum number of parts of a key.
const PARTS_MAX: usize = 16;
/// Longest time for which a decision can be remembered. A client whose rights are withdrawn keeps them until then.
const LIFETIME_MAX: Duration = Duration::from_secs(86_400);

const PART: &Shape = &Shape::Text(&PART_TEXT);
const KEY: Shape = Shape::OneOrMany(PART);
static PART_TEXT: Text = Text {
    expected: "`header NAME`, `cookie NAME`, `query NAME`, `claim NAME`, `consumer`, `certificate`, `address`, \
               `scheme`, `host`, `path`, `query` or `method`",
    pattern: Some(
        r"^(consumer|certificate|address|scheme|host|path|query|method|(header|cookie|query|claim) \S.*)$",
    ),
    loose: false,
};
const WORDS: [&str; 11] = [
    "header",
    "cookie",
    "query",
    "claim",
    "consumer",
    "certificate",
    "address",
    "scheme",
    "host",
    "path",
    "method",
];

/// Remembers decisions of the service. Only requests with an equal key share a decision.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "forward_auth_cache", noun = "`cache`", check = check)]
pub(crate) struct DecisionCacheSettings {
    /// The parts of a request on which the decision depends. At least one must identify the client. The route, the
    /// consumer and `Authorization` always count, and all cookies unless a part names one.
    #[key(shape = KEY, read = key, required, also = ["auth_cache_key", "proxy_cache_key", "cache_key", "by", "keys"])]
    key: Vec<KeyPart>,
    /// How long decisions are remembered, by status, class or range: `{2xx: 5m, 401: 10s}`. Others are not remembered, nor
    /// those with `0s`; the entry for the fewest statuses decides.
    #[key(
        expected = "a time such as `5m`", pattern = "^[0-9]", pairs = (status_range, lifetime), required,
        also = ["ttls", "valid", "proxy_cache_valid", "duration", "auth_cache_duration"],
    )]
    ttl: Vec<((u16, u16), Duration)>,
    /// Maximum number of decisions.
    #[key(count = 64..=10_000_000, default = 10_000, also = ["max_entries", "max_keys", "size"])]
    entries: usize,
    /// Maximum bytes of all decisions. One of more than 32 KiB is not remembered.
    #[key(size = "4MiB"..="4GiB", default = "16MiB", also = ["max_bytes", "max_size", "bytes"])]
    memory: usize,
}

impl DecisionCacheSettings {
    /// `request_headers` are the fields that the service receives; `None`: all of them.
    pub fn compile(&self, request_headers: Option<&[String]>) -> DecisionCacheRules {
        DecisionCacheRules {
            key: DecisionKeyRules::new(&self.key, request_headers),
            lifetimes: self.ttl.as_slice().into(),
            bounds: RecentBounds { entries: self.entries, bytes: self.memory },
        }
    }

    /// Returns whether requests with other values of a field have other keys, or whether the field says nothing about the
    /// client.
    pub fn covers(&self, field: &str) -> bool {
        let field = field.to_ascii_lowercase();
        let is_part = self.key.iter().any(|part| matches!(part, KeyPart::Header(name) if **name == *field));
        is_part || ["authorization", "cookie"].contains(&&*field) || COMMON_FIELDS.contains(&&*field)
    }
}

fn check(reader: &mut Reader, fields: &Fields<'_>, settings: &mut DecisionCacheSettings) {
    if let Some(field) = fields.get("ttl")
        && matches!(&field.node.kind, NodeKind::Map(entries) if entries.is_empty())
    {
        reader.missing(field.at, "`ttl` is empty: no decision is remembered".to_owned(), &field.key.shape);
    }
    let Some(field) = fields.get("key").filter(|_| !settings.key.is_empty()) else { return };
    let identifying: Vec<&KeyPart> = settings.key.iter().filter(|part| part.identifies()).collect();
    let problem = match identifying.as_slice() {
        [] => Problem::error(
            field.at,
            "`key` names nothing that identifies the client: one client's decision would admit others",
        ),
        [KeyPart::Address] => {
            Problem::warning(field.at, "clients with one address share decisions here, as behind a NAT")
        }
        _ => return,
    };
    let help =
        "name where the service finds the credential, such as `header Authorization` or `cookie session`";
    reader.problems.push(problem.help(help));
}

fn key(reader: &mut Reader, field: Field<'_>) -> Option<Vec<KeyPart>> {
    let NodeKind::List(items) = &field.node.kind else {
        return reader.field(field, part).map(|part| vec![part]);
    };
    if items.is_empty() {
        reader.missing(field.at, "`key` is an empty list".to_owned(), PART);
    }
    let mut parts: Vec<KeyPart> = Vec::new();
    for item in items {
        let Some(part) = reader.parsed(item, "an entry of `key`", PART, part) else { continue };
        let problem = if parts.contains(&part) {
            Problem::error(item.at, "this is in the list twice")
        } else if parts.len() == PARTS_MAX {
            Problem::error(item.at, format!("`key` has more than {PARTS_MAX} parts"))
        } else {
            parts.push(part);
            continue;
        };
        reader.problems.push(problem);
    }
    Some(parts)
}

/// Parses a part of a key. A word is the same as in `by` of a limit.
fn part(text: &str) -> Result<KeyPart, ScalarError> {
    let (word, name) = match text.split_once(' ') {
        Some((word, name)) => (word, Some(name.trim())),
        None => (text, None),
    };
    match (word, name) {
        ("header", Some(name)) => Ok(KeyPart::Header(header::name(name)?.to_ascii_lowercase().into())),
        ("cookie", Some(name)) if header::is_token(name) => Ok(KeyPart::Cookie(name.into())),
        ("cookie", Some(_)) => Err(ScalarError::new("{} does not name a cookie")),
        ("query", Some(name)) => Ok(KeyPart::Parameter(name.into())),
        ("claim", Some(name)) => Ok(KeyPart::Claim(name.into())),
        ("consumer", None) => Ok(KeyPart::Consumer),
        ("certificate", None) => Ok(KeyPart::Certificate),
        ("address", None) => Ok(KeyPart::Address),
        ("scheme", None) => Ok(KeyPart::Scheme),
        ("host", None) => Ok(KeyPart::Host),
        ("path", None) => Ok(KeyPart::Path),
        ("query", None) => Ok(KeyPart::Query),
        ("method", None) => Ok(KeyPart::Method),
        ("header" | "cookie" | "claim", None) => {
            Err(ScalarError::new("{} needs a name").suggest(format!("write `{text} NAME`")))
        }
        _ if text.starts_with('$') => Err(ScalarError::new("{} is a variable of nginx")
            .help("`$http_authorization` is `header Authorization`, `$cookie_x` is `cookie x`")),
        (word, _) => {
            let fault = ScalarError::new("{} is not a part of a request that can be in a key");
            Err(match nearest(word, WORDS.into_iter()) {
                Some(near) => fault.suggest(format!("did you mean `{near}`?")),
                None => fault,
            })
        }
    }
}

fn lifetime(text: &str) -> Result<Duration, ScalarError> {
    quantity::time(text, Duration::ZERO, LIFETIME_MAX)
}
