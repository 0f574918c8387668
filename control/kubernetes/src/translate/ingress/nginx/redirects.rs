//! Redirects: to `https`, to other places, and between the names with and without `www.`.

use serde_json::{Map, Value, json};

use super::forms::is_url;
use super::reader::Reader;
use super::variables::{has_variables, template};
use super::wanted::{HttpsRedirect, Wanted};

pub fn read(reader: &mut Reader<'_>, wanted: &mut Wanted) {
    if reader.flag("ssl-redirect") == Some(false) {
        wanted.https = HttpsRedirect::Off;
    }
    if reader.is_on("force-ssl-redirect") {
        wanted.https = HttpsRedirect::Always;
    }
    if reader.flag("use-port-in-redirects") == Some(false) {
        reader.same("use-port-in-redirects");
    }
    if reader.flag("preserve-trailing-slash") == Some(false) {
        reader.differs("preserve-trailing-slash", "redirects to https keep the slash at the end");
    }
    wanted.redirects_www = reader.is_on("from-to-www-redirect");
    // The temporary one wins.
    let (annotation, code, default) = match reader.text("temporal-redirect") {
        Some(_) => ("temporal-redirect", "temporal-redirect-code", 302),
        None => ("permanent-redirect", "permanent-redirect-code", 301),
    };
    let Some(to) = reader.text(annotation) else { return };
    if !is_redirect_url(to) {
        return reader.invalid(annotation, format!("{to:?} is not a URL"));
    }
    let status = match reader.number(code) {
        Some(status @ (301 | 302 | 303 | 307 | 308)) => {
            reader.same(code);
            status
        }
        Some(other) => {
            reader.invalid(code, format!("{other} is not the status of a redirect; it is {default}"));
            default
        }
        None => default,
    };
    match action(to, status) {
        Ok(action) => wanted.redirect = Some(action),
        Err(why) => {
            reader.unsupported(annotation, format!("{why}; all paths answer 503"));
            wanted.deny(format!("{annotation}: {why}"));
        }
    }
}

/// Returns whether a text can be a `Location`. Unlike a URL that the gateway asks, it may have a fragment.
fn is_redirect_url(text: &str) -> bool {
    let (url, fragment) = text.split_once('#').unwrap_or((text, ""));
    is_url(url) && is_url(&format!("http://host/{fragment}"))
}

/// Returns the keys of a route that redirects all its requests.
fn action(to: &str, status: u64) -> Result<Map<String, Value>, String> {
    if !has_variables(to) {
        let redirect = json!({ "status": status, "to": to });
        return Ok(Map::from_iter([("redirect".to_owned(), redirect)]));
    }
    let template = template(to)?;
    let mut rule = json!({ "status": status, "location": template.text });
    if template.keeps_query {
        rule["keep_query"] = true.into();
    }
    Ok(answering(rule))
}

/// Returns the keys of a route that redirects to `app-root`.
pub fn to_root(root: &str) -> Map<String, Value> {
    if !root.contains(['?', '#']) {
        let redirect = json!({ "status": 302, "path": root.replace('$', "$$") });
        return Map::from_iter([("redirect".to_owned(), redirect)]);
    }
    let rule = json!({ "status": 302, "location": format!("{{scheme}}://{{host}}{root}") });
    answering(rule)
}

/// Returns the keys of a route that answers by a rule. The rule matches every request, so the action of the route is
/// never taken.
fn answering(rule: Value) -> Map<String, Value> {
    Map::from_iter([
        ("policies".to_owned(), json!({ "intercept": [rule] })),
        ("respond".to_owned(), 404.into()),
    ])
}

/// Returns the rule that redirects requests in plain text. It counts what a trusted proxy says about the
/// client's scheme, so a proxy that ends TLS causes no circle.
pub fn to_https() -> Value {
    json!({ "scheme": "http", "status": 308, "location": "https://{host}{path}", "keep_query": true })
}

/// Returns the host that redirects to a host: the one with `www.` if this has none, and the other way round.
pub fn www_counterpart(host: &str) -> Option<String> {
    if host.is_empty() || host.starts_with('*') {
        return None;
    }
    Some(host.strip_prefix("www.").map_or_else(|| format!("www.{host}"), str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::ingress::nginx::tests::read_all;

    #[test]
    fn redirects_to_https() {
        let https = |annotations: &[(&str, &str)]| read_all(annotations).wanted.https;
        assert_eq!(https(&[]), HttpsRedirect::WithCertificate);
        assert_eq!(https(&[("ssl-redirect", "false")]), HttpsRedirect::Off);
        assert_eq!(https(&[("ssl-redirect", "perhaps")]), HttpsRedirect::WithCertificate);
        assert_eq!(
            https(&[("ssl-redirect", "false"), ("force-ssl-redirect", "true")]),
            HttpsRedirect::Always
        );
    }

    #[test]
    fn redirects_to_other_places() {
        let redirect = |annotations: &[(&str, &str)]| {
            read_all(annotations).wanted.redirect.map(Value::from).unwrap_or_default()
        };
        let permanent = redirect(&[("permanent-redirect", "https://b.example/x")]);
        assert_eq!(permanent, json!({"redirect": {"status": 301, "to": "https://b.example/x"}}));
        let coded =
            redirect(&[("permanent-redirect", "https://b.example"), ("permanent-redirect-code", "308")]);
        assert_eq!(coded["redirect"]["status"], json!(308));
        let odd =
            redirect(&[("permanent-redirect", "https://b.example"), ("permanent-redirect-code", "304")]);
        assert_eq!(odd["redirect"]["status"], json!(301));
        let both = redirect(&[
            ("permanent-redirect", "https://b.example"),
            ("temporal-redirect", "https://c.example"),
        ]);
        assert_eq!(both, json!({"redirect": {"status": 302, "to": "https://c.example"}}));
        let with_path = redirect(&[("permanent-redirect", "https://b.example$request_uri")]);
        let rule = json!({"status": 301, "location": "https://b.example{path}", "keep_query": true});
        assert_eq!(with_path, json!({"policies": {"intercept": [rule]}, "respond": 404}));
        assert!(read_all(&[("permanent-redirect", "https://$unknown/")]).wanted.denied.is_some());
        for odd in ["/x", "http://", "http://a b", "https://b.example/ö"] {
            assert_eq!(redirect(&[("permanent-redirect", odd)]), Value::Null, "{odd}");
        }
        let fragment = redirect(&[("permanent-redirect", "https://b.example/${host}#x")]);
        assert_eq!(fragment["policies"]["intercept"][0]["location"], json!("https://b.example/{host}#x"));
    }

    #[test]
    fn roots_with_more_than_a_path() {
        let root = |root| read_all(&[("app-root", root)]).wanted.app_root;
        for good in ["/a", "/a/b?c=d", "/#/login"] {
            assert_eq!(root(good).as_deref(), Some(good));
        }
        for odd in ["a", "http://a/", "/a b", "/{a}", "/../a"] {
            assert_eq!(root(odd), None, "{odd}");
        }
        assert_eq!(Value::from(to_root("/a")), json!({"redirect": {"status": 302, "path": "/a"}}));
        let rule = json!({"status": 302, "location": "{scheme}://{host}/#/login"});
        assert_eq!(to_root("/#/login")["policies"], json!({"intercept": [rule]}));
    }

    #[test]
    fn the_other_name_of_a_host() {
        for (host, other) in [
            ("a.example", Some("www.a.example")),
            ("www.a.example", Some("a.example")),
            ("*.a.example", None),
            ("", None),
        ] {
            assert_eq!(www_counterpart(host).as_deref(), other, "{host}");
        }
    }
}
