//! How endpoints are reached and chosen: protocol, TLS, session affinity, hashing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::forms::{is_host, is_token, unusable_path};
use super::reader::Reader;
use super::timeouts::seconds;
use super::wanted::Wanted;
use crate::object::Kind;

/// The name of the cookie that keeps a client at its endpoint.
const COOKIE: &str = "INGRESSCOOKIE";

/// Reads the protocol and TLS.
pub fn protocol(reader: &mut Reader<'_>, wanted: &mut Wanted) {
    let text = reader.text("backend-protocol").unwrap_or_default().to_ascii_uppercase();
    match text.as_str() {
        "" => return,
        "HTTP" => return reader.same("backend-protocol"),
        "HTTPS" => wanted.scheme = Some("https://"),
        "GRPC" => {
            wanted.scheme = Some("h2c://");
            return reader.same("backend-protocol");
        }
        "GRPCS" => {
            wanted.scheme = Some("https://");
            wanted.upstream.insert("http2".to_owned(), true.into());
        }
        other => {
            reader.unsupported("backend-protocol", format!("{other} is not spoken; all paths answer 503"));
            return wanted.deny(format!("backend-protocol {other} is not supported"));
        }
    }
    match tls(reader) {
        Ok(tls) => {
            if tls.get("verify").is_some() {
                reader.differs(
                    "backend-protocol",
                    "certificates of endpoints are not verified, as there; a BackendTLSPolicy verifies them",
                );
            }
            wanted.upstream.insert("tls".to_owned(), tls.into());
        }
        Err(why) => {
            reader.invalid("proxy-ssl-secret", format!("{why}; all paths answer 503"));
            wanted.deny(why);
        }
    }
}

/// Returns the settings of TLS towards endpoints. ingress-nginx verifies certificates only with `proxy-ssl-verify`.
fn tls(reader: &mut Reader<'_>) -> Result<Map<String, Value>, String> {
    let mut tls = Map::new();
    let mut set = |key: &str, value: Value| drop(tls.insert(key.to_owned(), value));
    let secret = reader.reference("proxy-ssl-secret", Kind::Secret)?;
    let name = reader.text("proxy-ssl-name");
    if reader.text("proxy-ssl-server-name") == Some("on")
        && let Some(name) = name
    {
        set("sni", name.into());
    }
    let verifies = reader.text("proxy-ssl-verify") == Some("on");
    if !verifies {
        set("verify", "dangerously_off".into());
    }
    if let Some(name) = name.filter(|_| verifies) {
        set("server_name", name.into());
    }
    let Some(secret) = secret else {
        return if verifies { Err("proxy-ssl-verify needs proxy-ssl-secret".to_owned()) } else { Ok(tls) };
    };
    let found = reader.objects.secrets.get(&secret).and_then(|secret| secret.spec.as_ref().ok());
    let found = found.ok_or_else(|| format!("there is no Secret {secret}"))?;
    let entry = |key: &str| {
        let bytes = STANDARD.decode(found.data.get(key)?).ok()?;
        String::from_utf8(bytes).ok().filter(|text| !text.trim().is_empty())
    };
    match entry("ca.crt") {
        Some(authorities) if verifies => set("ca", authorities.into()),
        None if verifies => return Err(format!("the Secret {secret} has no `ca.crt`")),
        _ => {}
    }
    if let (Some(certificate), Some(key)) = (entry("tls.crt"), entry("tls.key")) {
        set("certificate", certificate.into());
        set("key", key.into());
    }
    Ok(tls)
}

/// Reads session affinity.
pub fn affinity(reader: &mut Reader<'_>, wanted: &mut Wanted) {
    match reader.text("affinity") {
        None => return,
        Some("cookie") => {}
        Some(other) => return reader.invalid("affinity", format!("{other:?} is not cookie")),
    }
    let mut name = reader.text("session-cookie-name").unwrap_or(COOKIE);
    if !is_token(name) {
        reader.invalid("session-cookie-name", format!("{name:?} is not the name of a cookie"));
        name = COOKIE;
    }
    let mut sticky = json!({ "cookie": name });
    let lifetime = match reader.text("session-cookie-max-age") {
        Some(_) => "session-cookie-max-age",
        None => "session-cookie-expires",
    };
    if reader.text(lifetime).is_some()
        && let Some(time) = seconds(reader, lifetime)
    {
        sticky["ttl"] = time;
    }
    if let Some(path) = reader.text("session-cookie-path") {
        match unusable_path(path).is_none() && !path.contains(';') {
            true => sticky["path"] = path.into(),
            false => reader.invalid("session-cookie-path", format!("{path:?} is not a path")),
        }
    }
    if let Some(secure) = reader.flag("session-cookie-secure") {
        sticky["secure"] = secure.into();
    }
    if let Some(text) = reader.text("session-cookie-samesite") {
        let site = text.to_ascii_lowercase();
        match matches!(site.as_str(), "strict" | "lax" | "none") {
            true => {
                // Browsers ignore `None` without `Secure`.
                if site == "none" {
                    sticky["secure"] = true.into();
                }
                sticky["same_site"] = site.into();
            }
            false => {
                reader.invalid("session-cookie-samesite", format!("{text:?} is not Strict, Lax or None"));
            }
        }
    }
    if let Some(domain) = reader.text("session-cookie-domain") {
        match is_host(domain.strip_prefix('.').unwrap_or(domain)) {
            true => sticky["domain"] = domain.into(),
            false => reader.invalid("session-cookie-domain", format!("{domain:?} is not a domain")),
        }
    }
    balance(wanted, "sticky", sticky);
}

/// Reads how endpoints are chosen.
pub fn choice(reader: &mut Reader<'_>, wanted: &mut Wanted) {
    match reader.text("load-balance") {
        None | Some("round_robin") => {}
        // Both prefer the endpoints that answer soon.
        Some("ewma") => balance(wanted, "policy", "least_requests".into()),
        Some(other) => reader.invalid("load-balance", format!("{other:?} is neither round_robin nor ewma")),
    }
    let Some(text) = reader.text("upstream-hash-by") else { return };
    match hash_by(text) {
        Some(by) => {
            balance(wanted, "policy", "hash".into());
            balance(wanted, "by", by);
        }
        None => reader.unsupported(
            "upstream-hash-by",
            format!("{text} is not one part of the request; requests go to endpoints in turn"),
        ),
    }
}

/// Returns the part of the request that is hashed.
fn hash_by(text: &str) -> Option<Value> {
    let name = text.strip_prefix('$')?;
    let name = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name);
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return None;
    }
    match name {
        "remote_addr" | "binary_remote_addr" | "the_real_ip" => Some(json!("client_address")),
        "uri" | "request_uri" | "document_uri" => Some(json!("path")),
        "host" | "http_host" => Some(json!({ "header": "Host" })),
        _ => match name.split_once('_')? {
            (_, "") => None,
            ("http", field) => Some(json!({ "header": field.replace('_', "-") })),
            ("cookie", cookie) => Some(json!({ "cookie": cookie })),
            ("arg", parameter) => Some(json!({ "query": parameter })),
            _ => None,
        },
    }
}

fn balance(wanted: &mut Wanted, key: &str, value: Value) {
    let balance = wanted.upstream.entry("balance".to_owned()).or_insert_with(|| Map::new().into());
    if let Some(balance) = balance.as_object_mut() {
        balance.insert(key.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::ingress::nginx::tests::read_all;

    #[test]
    fn protocols() {
        let wanted = |protocol| read_all(&[("backend-protocol", protocol)]).wanted;
        assert_eq!((wanted("HTTP").scheme, wanted("GRPC").scheme), (None, Some("h2c://")));
        for protocol in ["https", "GRPCS"] {
            let wanted = wanted(protocol);
            assert_eq!(wanted.scheme, Some("https://"));
            assert_eq!(wanted.upstream["tls"], json!({"verify": "dangerously_off"}));
        }
        assert_eq!(wanted("GRPCS").upstream["http2"], json!(true));
        assert!(wanted("FCGI").denied.is_some());
        let verified =
            [("backend-protocol", "HTTPS"), ("proxy-ssl-verify", "on"), ("proxy-ssl-secret", "ca")];
        assert!(read_all(&verified).wanted.denied.is_some(), "nothing could be verified");
        let named =
            [("backend-protocol", "HTTPS"), ("proxy-ssl-name", "b.example"), ("proxy-ssl-server-name", "on")];
        let expected = json!({"sni": "b.example", "verify": "dangerously_off"});
        assert_eq!(read_all(&named).wanted.upstream["tls"], expected);
    }

    #[test]
    fn cookies_that_keep_a_client() {
        let sticky =
            |annotations: &[(&str, &str)]| read_all(annotations).wanted.upstream["balance"]["sticky"].clone();
        assert_eq!(sticky(&[("affinity", "cookie")]), json!({"cookie": "INGRESSCOOKIE"}));
        let all = sticky(&[
            ("affinity", "cookie"),
            ("session-cookie-name", "route"),
            ("session-cookie-max-age", "60"),
            ("session-cookie-expires", "90"),
            ("session-cookie-path", "/shop"),
            ("session-cookie-secure", "true"),
        ]);
        assert_eq!(all, json!({"cookie": "route", "ttl": "60s", "path": "/shop", "secure": true}));
        let embedded = [
            ("affinity", "cookie"),
            ("session-cookie-samesite", "None"),
            ("session-cookie-domain", ".a.example"),
        ];
        let expected =
            json!({"cookie": "INGRESSCOOKIE", "secure": true, "same_site": "none", "domain": ".a.example"});
        assert_eq!(sticky(&embedded), expected);
        let odd = [("affinity", "cookie"), ("session-cookie-name", "a b"), ("session-cookie-path", "/a;b")];
        assert_eq!(sticky(&odd), json!({"cookie": "INGRESSCOOKIE"}));
    }

    #[test]
    fn parts_of_the_request_that_are_hashed() {
        for (text, expected) in [
            ("$request_uri", Some(json!("path"))),
            ("$binary_remote_addr", Some(json!("client_address"))),
            ("$http_x_user_id", Some(json!({"header": "x-user-id"}))),
            ("${cookie_user}", Some(json!({"cookie": "user"}))),
            ("$arg_id", Some(json!({"query": "id"}))),
            ("$request_uri$host", None),
            ("$arg_", None),
            ("$http_a b", None),
            ("text", None),
        ] {
            assert_eq!(hash_by(text), expected, "{text}");
        }
        let balance = read_all(&[("upstream-hash-by", "$arg_id")]).wanted.upstream["balance"].clone();
        assert_eq!(balance, json!({"policy": "hash", "by": {"query": "id"}}));
    }
}
