//! The settings of `redis` of policies that count for several gateways.

use std::path::PathBuf;
use std::time::Duration;

use tollgate_config::section::{
    Field, Fields, Problem, Reader, ScalarError, Section, Shape, Text, one_or_many, quantity,
};
use tollgate_config::{At, Secret, Spanned};

use super::{OnFailure, RedisRule, RedisServers};

const SCHEMES: [&str; 7] =
    ["redis://", "rediss://", "valkey://", "valkeys://", "unix://", "redis+unix://", "valkey+unix://"];

static NODE_TEXT: Text = Text {
    expected: "a host and its port, such as `10.0.0.1:6379`",
    pattern: Some(r"^\S+:[0-9]+$"),
    loose: false,
};
const NODE: &Shape = &Shape::Text(&NODE_TEXT);
static USER: Text = Text { expected: "the name of a user", pattern: Some(r"^\S+$"), loose: true };
static PASSWORD: Text = Text { expected: "a password, best as `${VARIABLE}`", pattern: None, loose: true };

/// The Redis that counts for several gateways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RedisSettings {
    rule: RedisRule,
    /// Source position of the address.
    at: At,
}

/// The Redis or Valkey that counts for several gateways.
#[derive(Clone, PartialEq, Eq, Section)]
#[section(
    name = "policy_redis", noun = "`redis`", exactly_one = ["url", "sentinel", "cluster"],
    makes = RedisSettings, by = settings,
)]
struct RedisKeys {
    /// One server, with user and database; best as `${VARIABLE}`.
    #[key(
        expected = "a URL such as `redis://10.0.0.1:6379/0`, `rediss://...` for TLS, or `unix:///run/redis.sock`",
        pattern = r"^(rediss?|valkeys?|unix|redis\+unix|valkey\+unix)://.+$", parse = url,
        may_hold_credentials, also = ["address", "host", "uri", "endpoint", "server"],
    )]
    url: Option<Spanned<Secret>>,
    /// The master that Sentinels report.
    #[key(also = ["sentinels", "redis_sentinels"])]
    sentinel: Option<Spanned<RedisSentinel>>,
    /// Some nodes of a cluster.
    #[key(
        shape = Shape::OneOrMany(NODE), read = cluster,
        also = ["nodes", "cluster_nodes", "redis_cluster_nodes", "addresses"],
    )]
    cluster: Option<Spanned<Vec<(String, u16)>>>,
    /// The user, with `sentinel` or `cluster`.
    #[key(text = USER, parse = graphic, also = ["username"])]
    user: Option<String>,
    /// The database, with `sentinel`.
    #[key(count = 0..=65_535, default = 0, also = ["db", "redis_database"])]
    database: u16,
    /// Whether the master or the nodes speak TLS, with `sentinel` or `cluster`.
    #[key(default = off, also = ["ssl", "redis_ssl"])]
    tls: bool,
    /// The password, if it is not in the URL.
    #[key(text = PASSWORD, parse = password, secret, also = ["auth", "secret"])]
    password: Option<Secret>,
    /// How long a request waits for an answer.
    #[key(time = "1ms"..="5s", default = "50ms", also = ["redis_timeout", "read_timeout"])]
    timeout: Duration,
    /// Treatment of requests while Redis does not answer. `local`: each gateway counts on its own; `open`: they are
    /// admitted; `closed`: they are rejected (503).
    #[key(
        default = local,
        also = ["failure_mode", "fault_tolerant", "fail_open", "failure_mode_deny", "fallback"],
    )]
    on_failure: OnFailure,
    /// Prefix of its keys.
    #[key(
        expected = "a text of up to 128 letters, digits, `:`, `-`, `_`, `.`, `{` and `}`",
        pattern = r"^[A-Za-z0-9:_.{}-]+$", loose, parse = prefix, default = "tollgate",
        also = ["key_prefix", "namespace"],
    )]
    prefix: String,
}

/// The Sentinels that report the master.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(noun = "`sentinel`")]
struct RedisSentinel {
    /// Name of the master.
    #[key(
        expected = "the name of a master, such as `mymaster`", pattern = r"^\S+$", loose, parse = graphic,
        required, also = ["name", "service", "master_name", "redis_master", "service_name"],
    )]
    master: String,
    /// The Sentinels. The gateway asks one after another until one knows the master.
    #[key(
        shape = Shape::OneOrMany(NODE), read = nodes, required,
        also = ["sentinels", "hosts", "nodes", "servers", "redis_sentinels"],
    )]
    addresses: Vec<(String, u16)>,
    /// The user at the Sentinels.
    #[key(text = USER, parse = graphic, also = ["username"])]
    user: Option<String>,
    /// The password at the Sentinels.
    #[key(text = PASSWORD, parse = password, secret, also = ["auth"])]
    password: Option<Secret>,
    /// Whether the Sentinels speak TLS.
    #[key(default = off, also = ["ssl"])]
    tls: bool,
}

/// Combines the keys. A URL contains what the other addresses have in keys of their own.
fn settings(reader: &mut Reader, fields: &Fields<'_>, keys: RedisKeys) -> Option<RedisSettings> {
    let RedisKeys { url, sentinel, cluster, user, database, tls, password, timeout, on_failure, prefix } =
        keys;
    let (with, others): (_, &[&str]) = match () {
        () if fields.get("sentinel").is_some() => ("sentinel", &[]),
        () if fields.get("cluster").is_some() => ("cluster", &["database"]),
        () => ("url", &["user", "database", "tls"]),
    };
    for field in others.iter().filter_map(|key| fields.get(key)) {
        let problem = Problem::error(field.at, format!("`{}` conflicts with `{with}`", field.key.name));
        reader.problems.push(if with == "url" { problem.help("it is part of the URL") } else { problem });
    }
    let revealed = |secret: Option<Secret>| secret.map(|secret| secret.reveal().to_owned());
    let (servers, at) = if with == "sentinel" {
        let Spanned { value, at } = sentinel?;
        let RedisSentinel { master, addresses, user: sentinel_user, password, tls: sentinel_tls } = value;
        let login = (sentinel_user, revealed(password));
        (
            RedisServers::Sentinel { master, sentinels: addresses, login, sentinel_tls, user, database, tls },
            at,
        )
    } else if with == "cluster" {
        let Spanned { value: nodes, at } = cluster?;
        (RedisServers::Cluster { nodes, user, tls }, at)
    } else {
        let Spanned { value, at } = url?;
        (RedisServers::One { url: value.reveal().to_owned() }, at)
    };
    let rule = RedisRule { servers, password: revealed(password), timeout, on_failure, prefix };
    Some(RedisSettings { rule, at })
}

impl RedisSettings {
    /// Returns the rule. Reports a URL that the library does not accept.
    pub fn compile(&self, problems: &mut Vec<Problem>) -> RedisRule {
        if let RedisServers::One { url } = &self.rule.servers
            && let Err(why) = RedisRule::check(url)
        {
            let expected = "a URL such as `redis://user:password@host:6379/0`: a port up to 65535, a number as the database";
            problems.push(Problem::error(self.at, why).expected(expected));
        }
        self.rule.clone()
    }

    /// Returns the Unix socket in a URL such as `redis+unix:///run/redis.sock?db=1`, with its source position.
    ///
    /// The Redis library decodes `%XX` and resolves `..` before it connects, so such a path differs from the
    /// checked one. It is replaced by the empty path, which is outside every scope.
    pub fn socket(&self) -> Option<(At, PathBuf)> {
        let RedisServers::One { url } = &self.rule.servers else { return None };
        let (scheme, rest) = url.split_once("://")?;
        if !scheme.ends_with("unix") {
            return None;
        }
        let path = rest.split(['?', '#']).next().unwrap_or_default();
        let is_plain = !path.contains('%') && !path.split('/').any(|part| matches!(part, "." | ".."));
        Some((self.at, if is_plain { PathBuf::from(path) } else { PathBuf::new() }))
    }
}

/// Parses a URL. It may contain a password, so no message repeats it.
fn url(text: &str) -> Result<Secret, ScalarError> {
    let rest = SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme));
    match rest {
        Some(rest) if !rest.is_empty() && !text.contains(char::is_whitespace) => Ok(text.to_owned().into()),
        Some(_) => Err(ScalarError::new("this is not a Redis URL")),
        None => Err(ScalarError::new("this URL does not begin with `redis://`, `rediss://` or `unix://`")),
    }
}

/// Parses a password. No message repeats it, even if the file contains it in plain text.
fn password(text: &str) -> Result<Secret, ScalarError> {
    match text.len() {
        0 => Err(ScalarError::new("the password is empty")),
        1..=1024 => Ok(text.to_owned().into()),
        _ => Err(ScalarError::new("this password is too long")),
    }
}

fn prefix(text: &str) -> Result<String, ScalarError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b":-_.{}".contains(&byte);
    let good = (1..=128).contains(&text.len()) && text.bytes().all(fits);
    if good { Ok(text.to_owned()) } else { Err(ScalarError::new("{} is not a valid prefix")) }
}

fn graphic(text: &str) -> Result<String, ScalarError> {
    match !text.is_empty() && text.len() <= 256 && text.chars().all(|c| !c.is_whitespace() && !c.is_control())
    {
        true => Ok(text.to_owned()),
        false => Err(ScalarError::new("{} is not a valid name")),
    }
}

fn cluster(reader: &mut Reader, field: Field<'_>) -> Option<Spanned<Vec<(String, u16)>>> {
    nodes(reader, field).map(|value| Spanned { value, at: field.node.at })
}

/// Reads a list of hosts with ports.
fn nodes(reader: &mut Reader, field: Field<'_>) -> Option<Vec<(String, u16)>> {
    let name = field.key.name;
    let items = reader.bounded_items(field.node, &format!("`{name}`"));
    let out = reader.each(items, field, &format!("an entry of `{name}`"), node);
    if one_or_many(field.node).is_empty() {
        reader.missing(field.at, format!("`{name}` is an empty list"), NODE);
    }
    Some(out)
}

fn node(text: &str) -> Result<(String, u16), ScalarError> {
    if let Some((_, rest)) = text.split_once("://") {
        let (rest, fault) = (rest.trim_end_matches('/'), ScalarError::new("a URL is not allowed here"));
        // The text may contain a password.
        let fault = if rest.contains('@') { fault } else { fault.suggest(format!("write `{rest}`")) };
        return Err(fault.help("`user`, `password` and `tls` are keys of their own"));
    }
    let Some((host, port)) = text.rsplit_once(':') else { return Err(ScalarError::new("{} has no port")) };
    let inside = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let odd = |c: char| c.is_whitespace() || c.is_control() || "/@[]".contains(c);
    if inside.is_empty() || inside.chars().any(odd) || host.contains(':') && inside.len() == host.len() {
        return Err(ScalarError::new("{} does not begin with a host"));
    }
    let port = quantity::count(port, 1, 65_535)?;
    Ok((inside.to_owned(), u16::try_from(port).unwrap_or(u16::MAX)))
}
