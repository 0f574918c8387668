//! Further attempts at other endpoints.

use serde_json::{Value, json};

use super::reader::Reader;
use super::wanted::Wanted;

/// The failures that ingress-nginx retries without the annotation, and its number of attempts.
const DEFAULT_FAILURES: &str = "error timeout";
const DEFAULT_TRIES: u64 = 3;
/// The most attempts that the gateway makes, and the longest time for them that it takes.
const ATTEMPTS_MAX: u64 = 16;
const SECONDS_MAX: u64 = 86_400;

pub fn read(reader: &mut Reader<'_>, wanted: &mut Wanted) {
    let text = reader.text("proxy-next-upstream").unwrap_or(DEFAULT_FAILURES);
    let tries = match reader.number("proxy-next-upstream-tries") {
        // As many as there are endpoints.
        Some(0) => ATTEMPTS_MAX,
        tries => tries.unwrap_or(DEFAULT_TRIES).min(ATTEMPTS_MAX),
    };
    // 0 is no limit.
    let seconds = reader.number("proxy-next-upstream-timeout").filter(|seconds| *seconds > 0);
    let (mut on, mut methods): (Vec<Value>, Vec<Value>) = (Vec::new(), Vec::new());
    for word in text.split_whitespace() {
        match word {
            "off" => {
                wanted.route.insert("retry".to_owned(), "off".into());
                return;
            }
            "error" => on.extend([json!("connect_failure"), json!("reset")]),
            "timeout" => on.push(json!("timeout")),
            "invalid_header" => on.push(json!("reset")),
            // The methods that are not idempotent.
            "non_idempotent" => methods.extend([json!("POST"), json!("LOCK"), json!("PATCH")]),
            other => match other.strip_prefix("http_").and_then(|status| status.parse::<u16>().ok()) {
                Some(status @ (403 | 404 | 429 | 500 | 502 | 503 | 504)) => on.push(json!(status)),
                _ => reader.invalid("proxy-next-upstream", format!("there is no condition {other:?}")),
            },
        }
    }
    on.dedup();
    if on.is_empty() || tries < 2 {
        wanted.route.insert("retry".to_owned(), "off".into());
        return;
    }
    // The annotation says how often a request is sent, whatever the share of such requests.
    let mut retry = json!({ "attempts": tries, "on": on, "budget": "100%" });
    if !methods.is_empty() {
        retry["methods"] = methods.into();
    }
    if let Some(seconds) = seconds {
        retry["within"] = format!("{}s", seconds.min(SECONDS_MAX)).into();
    }
    wanted.route.insert("retry".to_owned(), retry);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::ingress::nginx::tests::read_all;

    #[test]
    fn conditions_and_tries() {
        let retry = |annotations: &[(&str, &str)]| read_all(annotations).wanted.route["retry"].clone();
        assert_eq!(
            retry(&[("proxy-next-upstream", "error timeout http_503 non_idempotent")]),
            json!({
                "attempts": 3, "on": ["connect_failure", "reset", "timeout", 503], "budget": "100%",
                "methods": ["POST", "LOCK", "PATCH"],
            })
        );
        let tries = |tries| retry(&[("proxy-next-upstream-tries", tries)])["attempts"].clone();
        assert_eq!((tries("5"), tries("0"), tries("100")), (json!(5), json!(16), json!(16)));
        let within = |seconds| retry(&[("proxy-next-upstream-timeout", seconds)])["within"].clone();
        assert_eq!(
            (within("10"), within("0"), within("100000")),
            (json!("10s"), json!(null), json!("86400s"))
        );
        assert_eq!(retry(&[("proxy-next-upstream-tries", "1")]), json!("off"));
        assert_eq!(retry(&[("proxy-next-upstream", "off")]), json!("off"));
    }
}
