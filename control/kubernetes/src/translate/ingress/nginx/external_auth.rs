//! An authorization service that is asked about each request.

use serde_json::{Map, Value, json};

use super::forms::{is_free_field, is_plain_name, is_token, is_url};
use super::reader::Reader;
use super::variables::for_host as fixed;
use super::wanted::Wanted;

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
    if reader.text("auth-method") == Some("GET") {
        reader.same("auth-method");
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
}
