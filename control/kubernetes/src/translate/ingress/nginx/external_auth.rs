//! An authorization service that is asked about requests.

use serde_json::{Map, Value, json};

use super::forms::{is_free_field, is_plain_name, is_token, is_url};
use super::reader::Reader;
use super::variables::for_host as fixed;
use super::variables::names as variable_names;
use super::wanted::Wanted;

/// How long decisions are remembered if an Ingress does not say it, as in ingress-nginx.
const CACHE_DURATION: &str = "200 202 401 5m";
/// The statuses of nginx's `any`.
const ANY_STATUS: &str = "100-599";
/// The time of a status whose decisions are not remembered.
const NO_TIME: &str = "0ms";
/// The longest time for which the gateway remembers a decision.
const DAY_MILLIS: u64 = 86_400_000;
/// The most parts that a key may have.
const KEY_PARTS_MAX: usize = 16;
/// Fields that do not identify a client, as the gateway sees it.
const COMMON_FIELDS: [&str; 9] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "content-type",
    "host",
    "origin",
    "referer",
    "user-agent",
    "x-forwarded-host",
];
/// How long the service may take: ingress-nginx's timeout for reading an answer.
const TIMEOUT: &str = "60s";
/// The parameter of the page that gets the URL of the request.
const PARAMETER: &str = "rd";
/// Variables for the request's path and query, and for its host.
const URIS: [&str; 2] = ["$escaped_request_uri", "$request_uri"];
const HOSTS: [&str; 3] = ["$http_host", "$host", "$best_http_host"];

pub fn read(reader: &mut Reader<'_>, wanted: &mut Wanted) {
    let Some(url) = reader.text("auth-url") else { return };
    if !is_url(url) {
        // The message does not repeat the value, which may contain a password.
        let why = "the value is not a URL that the gateway can ask; all paths answer 503";
        reader.invalid("auth-url", why);
        return wanted.deny("auth-url is not valid");
    }
    let mut policy = json!({
        "url": url, "timeout": TIMEOUT, "consumer_header": "off", "groups_header": "off",
    });
    let mut names = reader.list("auth-response-headers");
    if let Some(wrong) = names.iter().find(|name| !is_token(name) || name.contains('*')) {
        let why = format!("{wrong:?} is not the name of a field");
        reader.invalid("auth-response-headers", format!("{why}; all paths answer 503"));
        return wanted.deny(format!("auth-response-headers: {why}"));
    }
    if let Some(own) = names.iter().find(|name| !is_free_field(name)) {
        reader.differs("auth-response-headers", format!("only the gateway sets {own}"));
    }
    names.retain(|name| is_free_field(name));
    if !names.is_empty() {
        policy["response_headers"] = names.into();
    }
    match reader.text("auth-method") {
        None => {}
        Some(method @ ("GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS")) => {
            policy["method"] = method.into();
            reader.same("auth-method");
        }
        Some(other) => {
            let why = format!("{other:?} is not a method that the service can be asked with");
            reader.invalid("auth-method", format!("{why}; all paths answer 503"));
            return wanted.deny(format!("auth-method: {why}"));
        }
    }
    let always = reader.is_on("auth-always-set-cookie");
    policy["set_cookies"] = if always { "always" } else { "successful" }.into();
    match cache(reader) {
        Ok(Some(cache)) => policy["cache"] = cache,
        Ok(None) => {}
        Err(why) => return wanted.deny(why),
    }
    if let Some(page) = reader.text("auth-signin") {
        let mut parameter = reader.text("auth-signin-redirect-param").unwrap_or(PARAMETER);
        if !is_plain_name(parameter) {
            let why = format!("{parameter:?} is not the name of a parameter; it is {PARAMETER}");
            reader.invalid("auth-signin-redirect-param", why);
            parameter = PARAMETER;
        }
        match sign_in(page, parameter) {
            Ok(page) => policy.as_object_mut().into_iter().for_each(|policy| policy.extend(page.clone())),
            Err(why) => reader.unsupported("auth-signin", format!("{why}; clients get the service's 401")),
        }
    }
    wanted.policies.insert("forward_auth".to_owned(), policy);
}

/// Returns how decisions are remembered; `None`: each request is checked.
///
/// # Errors
/// Returns why no request can be served: ingress-nginx refuses such a value too.
fn cache(reader: &mut Reader<'_>) -> Result<Option<Value>, String> {
    let lifetimes = match lifetimes(reader.text("auth-cache-duration").unwrap_or(CACHE_DURATION)) {
        Ok(lifetimes) => lifetimes,
        Err(why) => {
            reader.invalid("auth-cache-duration", format!("{why}; all paths answer 503"));
            return Err(format!("auth-cache-duration: {why}"));
        }
    };
    if !lifetimes.is_shortened {
        reader.same("auth-cache-duration");
    }
    let Some(key) = reader.text("auth-cache-key") else { return Ok(None) };
    match cache_key(key) {
        Ok(_) if lifetimes.ttl.values().all(|time| time == NO_TIME) => Ok(None),
        Ok(parts) => {
            let names: Vec<&str> = variable_names(key).collect();
            if !names.contains(&"remote_user") || names.contains(&"http_authorization") {
                reader.same("auth-cache-key");
            }
            Ok(Some(json!({ "key": parts, "ttl": lifetimes.ttl })))
        }
        Err(why) => {
            reader.unsupported("auth-cache-key", format!("{why}; each request is checked"));
            Ok(None)
        }
    }
}

/// Returns the parts of a request that a key of nginx names. A part that tells more requests apart than the variable
/// takes its place: decisions are never shared by more requests than with nginx.
fn cache_key(text: &str) -> Result<Vec<String>, String> {
    let mut parts: Vec<String> = Vec::new();
    for name in variable_names(text) {
        let own: &[&str] = match name {
            // The name and the password, not the name alone.
            "remote_user" => &["header authorization"],
            "remote_addr" | "binary_remote_addr" | "the_real_ip" => &["address"],
            "host" | "http_host" | "best_http_host" | "server_name" => &["host"],
            "uri" | "document_uri" => &["path"],
            "request_uri" | "escaped_request_uri" => &["path", "query"],
            "args" | "query_string" => &["query"],
            "is_args" => &[],
            "request_method" => &["method"],
            "scheme" | "pass_access_scheme" => &["scheme"],
            "ssl_client_cert"
            | "ssl_client_raw_cert"
            | "ssl_client_escaped_cert"
            | "ssl_client_fingerprint"
            | "ssl_client_s_dn" => &["certificate"],
            other => {
                parts.push(named_part(other)?);
                continue;
            }
        };
        parts.extend(own.iter().map(|part| (*part).to_owned()));
    }
    let mut known = std::collections::HashSet::new();
    parts.retain(|part| known.insert(part.clone()));
    let is_identity = |part: &String| {
        let fixed = ["host", "path", "query", "method", "scheme"].contains(&part.as_str());
        !fixed && part.strip_prefix("header ").is_none_or(|name| !COMMON_FIELDS.contains(&name))
    };
    match parts.iter().any(is_identity) {
        _ if parts.len() > KEY_PARTS_MAX => Err(format!("the key has more than {KEY_PARTS_MAX} parts")),
        true => Ok(parts),
        false => Err("the key names nothing that identifies the client".to_owned()),
    }
}

/// Returns the part for a variable whose name has the name of a field, a cookie or a parameter.
fn named_part(variable: &str) -> Result<String, String> {
    let part = match variable.split_once('_') {
        Some(("http", name)) => Some(format!("header {}", name.replace('_', "-"))),
        Some(("cookie", name)) => Some(format!("cookie {name}")),
        Some(("arg", name)) => Some(format!("query {name}")),
        _ => None,
    };
    let part = part.filter(|part| part.split_once(' ').is_some_and(|(_, name)| is_plain_name(name)));
    part.ok_or_else(|| format!("the variable ${variable} has no counterpart here"))
}

/// How long decisions are remembered.
struct Lifetimes {
    /// The times by status.
    ttl: Map<String, Value>,
    /// Whether one of them was too long.
    is_shortened: bool,
}

/// Parses lists such as `200 202 401 5m, 403 10s`. The first list with a status decides.
fn lifetimes(text: &str) -> Result<Lifetimes, String> {
    let mut out = Lifetimes { ttl: Map::new(), is_shortened: false };
    for list in text.split(',').map(str::trim).filter(|list| !list.is_empty()) {
        let (statuses, time) = list.rsplit_once(char::is_whitespace).unwrap_or(("", list));
        let millis = milliseconds(time).ok_or_else(|| format!("{list:?} does not end with a time"))?;
        let mut statuses: Vec<&str> = statuses.split_whitespace().collect();
        if statuses.is_empty() {
            // nginx's default for a list without statuses.
            statuses = vec!["200", "301", "302"];
        }
        if out.ttl.contains_key(ANY_STATUS) {
            continue;
        }
        for status in statuses {
            let status = match status {
                "any" => ANY_STATUS,
                code if code.len() == 3 && code.parse().is_ok_and(|code: u16| (100..600).contains(&code)) => {
                    code
                }
                other => return Err(format!("{other:?} is not a status")),
            };
            // A status without a time is an exception from `any`.
            out.ttl.entry(status.to_owned()).or_insert_with(|| {
                out.is_shortened |= millis > DAY_MILLIS;
                format!("{}ms", millis.min(DAY_MILLIS)).into()
            });
        }
    }
    Ok(out)
}

/// Parses a time of nginx with its unit.
fn milliseconds(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let unit = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => DAY_MILLIS,
        "w" => 7 * DAY_MILLIS,
        "M" => 30 * DAY_MILLIS,
        "y" => 365 * DAY_MILLIS,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// Returns the keys for the page where clients sign in.
fn sign_in(page: &str, parameter: &str) -> Result<Map<String, Value>, String> {
    if !is_url(page) {
        return Err(format!("{page:?} is not a URL"));
    }
    let (path, query) = page.split_once('?').unwrap_or((page, ""));
    let (mut kept, mut value) = (Vec::new(), "url");
    for part in query.split('&').filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some((name, text)) if name == parameter => value = redirect_value(text)?,
            _ => kept.push(part),
        }
    }
    let url = if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) };
    let keys = json!({ "sign_in": url, "sign_in_parameter": parameter, "sign_in_value": value });
    Ok(keys.as_object().cloned().unwrap_or_default())
}

/// Returns what a parameter with variables of the request holds: its whole URL, or its path and query.
fn redirect_value(text: &str) -> Result<&'static str, String> {
    let start = URIS.iter().find_map(|uri| text.strip_suffix(uri));
    match start {
        Some("") => Ok("uri"),
        Some(origin)
            if HOSTS.iter().any(|host| origin.strip_suffix(host).is_some_and(|s| s.ends_with("://"))) =>
        {
            Ok("url")
        }
        _ => Err(format!("the parameter {text:?} is neither the URL of the request nor its path")),
    }
}

/// Fills in the variables that are fixed for a host.
///
/// # Errors
/// Returns the variable that is not.
pub fn for_host(policies: &mut Map<String, Value>, host: &str, is_tls: bool) -> Result<(), String> {
    let scheme = if is_tls { "https" } else { "http" };
    let own = policies.get_mut("forward_auth").into_iter();
    for policy in own {
        fill(policy, host, scheme)?;
    }
    if let Some(alternatives) = policies.get_mut("any_of").and_then(Value::as_array_mut) {
        for policy in alternatives.iter_mut().filter_map(|one| one.get_mut("forward_auth")) {
            fill(policy, host, scheme)?;
        }
    }
    Ok(())
}

fn fill(policy: &mut Value, host: &str, scheme: &str) -> Result<(), String> {
    for key in ["url", "sign_in"] {
        if let Some(value) = policy.get_mut(key) {
            *value = fixed(value.as_str().unwrap_or_default(), host, scheme)?.into();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::ingress::nginx::Reading;
    use crate::translate::ingress::nginx::reader::Behaviour;
    use crate::translate::ingress::nginx::tests::read_all;

    #[test]
    fn a_service_with_a_page_where_clients_sign_in() {
        let policy =
            |annotations: &[(&str, &str)]| read_all(annotations).wanted.policies["forward_auth"].clone();
        let all = policy(&[
            ("auth-url", "https://$host/oauth2/auth"),
            ("auth-signin", "https://$host/oauth2/start?rd=$escaped_request_uri"),
            ("auth-response-headers", "X-User, X-Email"),
        ]);
        assert_eq!(all["response_headers"], json!(["X-User", "X-Email"]));
        let keys = ["sign_in", "sign_in_parameter", "sign_in_value"];
        assert_eq!(
            keys.map(|key| &all[key]),
            [&json!("https://$host/oauth2/start"), &json!("rd"), &json!("uri")]
        );
        let mut policies = Map::from_iter([("forward_auth".to_owned(), all)]);
        for_host(&mut policies, "a.example", true).expect("fixed");
        assert_eq!(policies["forward_auth"]["url"], json!("https://a.example/oauth2/auth"));
        assert_eq!(policies["forward_auth"]["sign_in"], json!("https://a.example/oauth2/start"));
        assert!(
            for_host(
                &mut Map::from_iter([(
                    "any_of".to_owned(),
                    json!([{"forward_auth": {"url": "http://$arg_x/"}}])
                )]),
                "a",
                true
            )
            .is_err()
        );
        for (page, value) in [
            ("https://b.example/start", "url"),
            ("https://b.example/start?rd=https://$host$request_uri", "url"),
            ("https://b.example/start?a=b&rd=$scheme://$http_host$escaped_request_uri", "url"),
        ] {
            let policy = policy(&[("auth-url", "http://auth.example/"), ("auth-signin", page)]);
            assert_eq!(policy["sign_in_value"], json!(value), "{page}");
        }
        let odd =
            policy(&[("auth-url", "http://auth.example/"), ("auth-signin", "https://b.example/?rd=/home")]);
        assert_eq!(odd.get("sign_in"), None);
        // What keeps clients out is not left out because of its form.
        for url in
            ["auth.example", "http://", "http://user:password@auth.example/", "http://a b/", "http://a/#b"]
        {
            let reading = read_all(&[("auth-url", url)]);
            assert!(reading.wanted.denied.is_some(), "{url}");
            assert!(reading.findings.iter().all(|finding| !finding.text.contains("password")));
        }
        let names =
            |names| read_all(&[("auth-url", "http://auth.example/"), ("auth-response-headers", names)]);
        assert!(names("X A").wanted.denied.is_some());
        let policy = names("X-User,Host").wanted.policies["forward_auth"].clone();
        assert_eq!(policy["response_headers"], json!(["X-User"]));
    }

    /// Reads the cache of an Ingress with these annotations.
    fn cache_of(annotations: &[(&str, &str)]) -> (Option<Value>, Reading) {
        let reading = read_all(&[&[("auth-url", "http://auth.example/")], annotations].concat());
        (reading.wanted.policies.get("forward_auth").and_then(|policy| policy.get("cache")).cloned(), reading)
    }

    #[test]
    fn decisions_are_remembered_by_the_parts_that_the_key_names() {
        for (key, parts) in [
            ("$remote_user$http_authorization", vec!["header authorization"]),
            ("$http_authorization", vec!["header authorization"]),
            ("$cookie_session", vec!["cookie session"]),
            ("${http_x_api_key}-$host$request_uri", vec!["header x-api-key", "host", "path", "query"]),
            (
                "$scheme$request_method$arg_token$remote_addr",
                vec!["scheme", "method", "query token", "address"],
            ),
            ("$ssl_client_s_dn", vec!["certificate"]),
        ] {
            let (cache, reading) = cache_of(&[("auth-cache-key", key)]);
            let ttl = json!({"200": "300000ms", "202": "300000ms", "401": "300000ms"});
            assert_eq!(cache, Some(json!({"key": parts, "ttl": ttl})), "{key}");
            assert!(reading.findings.iter().any(|one| one.annotation == "auth-cache-key" && one.is_same()));
        }
        let (cache, reading) = cache_of(&[("auth-cache-key", "$remote_user")]);
        assert_eq!(cache.expect("a cache")["key"], json!(["header authorization"]));
        assert!(reading.findings.iter().any(|one| one.annotation == "auth-cache-key" && !one.is_same()));
        for key in ["foo", "$host$request_uri", "$http_user_agent", "$cookie_a$tmp_cache_key", "$http_", "$"]
        {
            let (cache, reading) = cache_of(&[("auth-cache-key", key)]);
            assert_eq!(cache, None, "{key}");
            assert!(reading.wanted.denied.is_none(), "each request is checked");
            let found = reading.findings.iter().find(|one| one.annotation == "auth-cache-key");
            assert!(found.is_some_and(|one| one.behaviour == Behaviour::Unsupported), "{key}");
        }
        assert_eq!(cache_of(&[("auth-cache-duration", "200 5m")]).0, None, "there is no key");
    }

    #[test]
    fn times_by_status() {
        let ttl = |text: &str| lifetimes(text).map(|lifetimes| Value::from(lifetimes.ttl));
        assert_eq!(
            ttl("200 202 10m, 401 30s"),
            Ok(json!({"200": "600000ms", "202": "600000ms", "401": "30000ms"}))
        );
        assert_eq!(ttl("5m"), Ok(json!({"200": "300000ms", "301": "300000ms", "302": "300000ms"})));
        assert_eq!(ttl("401 0s, any 1m, 403 5m"), Ok(json!({"401": "0ms", "100-599": "60000ms"})));
        assert_eq!(cache_of(&[("auth-cache-key", "$cookie_a"), ("auth-cache-duration", "200 0s")]).0, None);
        assert_eq!(ttl("200 2w"), Ok(json!({"200": "86400000ms"})));
        assert_eq!(ttl("200 1s, 200 9s"), Ok(json!({"200": "1000ms"})));
        for wrong in ["200", "5m 200", "2000 5m", "200 5", "200 5x", "200 99999999999999999999y", "6m 5m"] {
            let (cache, reading) =
                cache_of(&[("auth-cache-key", "$cookie_a"), ("auth-cache-duration", wrong)]);
            assert!(cache.is_none() && reading.wanted.denied.is_some(), "{wrong}");
        }
        let (_, reading) = cache_of(&[("auth-cache-key", "$cookie_a"), ("auth-cache-duration", "200 2d")]);
        let found = reading.findings.iter().find(|one| one.annotation == "auth-cache-duration");
        assert!(found.is_some_and(|one| one.behaviour == Behaviour::Differs));
    }

    #[test]
    fn methods_and_cookies() {
        let policy = |annotations: &[(&str, &str)]| {
            let all = [&[("auth-url", "http://auth.example/")], annotations].concat();
            read_all(&all).wanted.policies.get("forward_auth").cloned().unwrap_or_default()
        };
        let plain = policy(&[]);
        assert_eq!((plain.get("method"), &plain["set_cookies"]), (None, &json!("successful")));
        assert_eq!(policy(&[("auth-always-set-cookie", "true")])["set_cookies"], json!("always"));
        assert_eq!(policy(&[("auth-method", "HEAD")])["method"], json!("HEAD"));
        assert_eq!(policy(&[("auth-method", "get")]), Value::Null);
    }
}
