//! CORS.

use serde_json::json;

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
    let words = |text: &str| -> Vec<String> {
        text.split(',').map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
    };
    let origins = reader.text("cors-allow-origin").map(words).unwrap_or_else(|| vec!["*".to_owned()]);
    let is_any = origins.iter().any(|origin| origin == "*");
    let mut cors = json!({
        "origins": if is_any { vec!["*".to_owned()] } else { origins },
        "methods": words(reader.text("cors-allow-methods").unwrap_or(METHODS)),
        "headers": words(reader.text("cors-allow-headers").unwrap_or(HEADERS)),
    });
    if let Some(names) = reader.text("cors-expose-headers") {
        cors["expose"] = words(names).into();
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
    }
}
