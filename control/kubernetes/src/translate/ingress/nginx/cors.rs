//! CORS.

use serde_json::json;

use super::forms::{is_origin, is_token};
use super::reader::Reader;
use super::wanted::Wanted;

const METHODS: &str = "GET, PUT, POST, DELETE, PATCH, OPTIONS";
const HEADERS: &str = "DNT,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,Content-Type,\
    Range,Authorization";
/// How long a browser may cache the response to a preflight, in seconds: what ingress-nginx says by default, and
/// the most that the gateway says. Browsers keep it for less than either.
const MAX_AGE: u64 = 1_728_000;
const MAX_AGE_MAX: u64 = 86_400;

pub fn read(reader: &mut Reader<'_>, wanted: &mut Wanted) {
    if !reader.is_on("enable-cors") {
        return;
    }
    let mut origins = match reader.text("cors-allow-origin") {
        Some(_) => reader.list("cors-allow-origin"),
        None => vec!["*"],
    };
    let is_any = origins.contains(&"*");
    if is_any {
        origins = vec!["*"];
    }
    if let Some(wrong) = origins.iter().find(|origin| !is_origin(origin)) {
        let why = format!("{wrong:?} is no origin, which is a scheme with a host; it is left out");
        reader.invalid("cors-allow-origin", why);
    }
    origins.retain(|origin| is_origin(origin));
    if origins.is_empty() {
        // Without a valid origin, ingress-nginx permits none.
        return;
    }
    let mut cors = json!({
        "origins": origins,
        "methods": words(reader, "cors-allow-methods").unwrap_or_else(|| split(METHODS)),
        "headers": words(reader, "cors-allow-headers").unwrap_or_else(|| split(HEADERS)),
    });
    if let Some(names) = reader.text("cors-expose-headers") {
        match names == "*" {
            true => cors["expose"] = json!(["*"]),
            false => words(reader, "cors-expose-headers")
                .into_iter()
                .for_each(|names| cors["expose"] = names.into()),
        }
    }
    // With `*`, browsers refuse credentials whatever the response says.
    if reader.flag("cors-allow-credentials") != Some(false) && !is_any {
        cors["credentials"] = true.into();
    }
    let age = reader.number("cors-max-age").unwrap_or(MAX_AGE);
    if age <= MAX_AGE_MAX {
        reader.same("cors-max-age");
    }
    cors["max_age"] = format!("{}s", age.min(MAX_AGE_MAX)).into();
    wanted.policies.insert("cors".to_owned(), cors);
}

/// Returns the words of an annotation; `None`: it is absent, or one of them is none, so that its default applies.
fn words<'a>(reader: &mut Reader<'a>, annotation: &str) -> Option<Vec<&'a str>> {
    let words = split(reader.text(annotation)?);
    match words.iter().find(|word| !is_token(word) || word.contains('*')) {
        Some(wrong) => {
            reader.invalid(annotation, format!("{wrong:?} is no name; the default applies"));
            None
        }
        None => Some(words),
    }
}

fn split(text: &str) -> Vec<&str> {
    text.split([',', ' ']).filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::ingress::nginx::tests::read_all;

    #[test]
    fn cors_has_defaults_and_needs_its_switch() {
        let cors = |annotations: &[(&str, &str)]| read_all(annotations).wanted.policies.get("cors").cloned();
        assert_eq!(cors(&[("cors-allow-origin", "https://a.example")]), None);
        let all = cors(&[("enable-cors", "true")]).expect("a policy");
        assert_eq!((&all["origins"], all.get("credentials")), (&json!(["*"]), None));
        assert_eq!(all["methods"], json!(["GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS"]));
        assert_eq!(read_all(&[("enable-cors", "true")]).findings.len(), 1);
        let some = cors(&[
            ("enable-cors", "true"),
            ("cors-allow-origin", "https://a.example, https://*.b.example"),
            ("cors-allow-headers", "X-A"),
            ("cors-expose-headers", "X-B, X-C"),
            ("cors-max-age", "600"),
        ]);
        let some = some.expect("a policy");
        assert_eq!(some["origins"], json!(["https://a.example", "https://*.b.example"]));
        assert_eq!((&some["credentials"], &some["max_age"]), (&json!(true), &json!("600s")));
        assert_eq!((&some["headers"], &some["expose"]), (&json!(["X-A"]), &json!(["X-B", "X-C"])));
        // An odd value costs itself, as in ingress-nginx.
        let odd = [
            ("enable-cors", "true"),
            ("cors-allow-origin", "a.example, https://b.example"),
            ("cors-allow-methods", "G@T"),
            ("cors-allow-headers", "*"),
        ];
        let reading = read_all(&odd);
        let policy = &reading.wanted.policies["cors"];
        assert_eq!(policy["origins"], json!(["https://b.example"]));
        assert_eq!((&policy["methods"], &policy["headers"]), (&all["methods"], &all["headers"]));
        assert_eq!(reading.findings.iter().filter(|finding| !finding.is_same()).count(), 3);
        assert_eq!(cors(&[("enable-cors", "true"), ("cors-allow-origin", "a.example")]), None);
    }
}
