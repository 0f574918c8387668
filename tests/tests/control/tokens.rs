//! Wrong credentials are logged, counted, slowed and audited.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tollgate_tests::{Client, Gateway, Response, eventually};

const RIGHT: &str = "reader-reader-reader";
const WRONG: &str = "guesser-guesser-guesser";

fn gateway() -> Gateway {
    Gateway::start(&format!(
        "store: $DIR/store\nadmin: {{bind: $ADMIN, audit_log: audit.jsonl, tokens: {{a: {{role: write, token: {RIGHT}}}}}}}\n\
         routes: [{{match: /a, respond: a}}]"
    ))
}

fn ask(gateway: &Gateway, path: &str, line: &str) -> Response {
    let mut client = Client::connect(gateway.admin_address(), Arc::default());
    client.ask(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{line}\r\nConnection: close\r\n\r\n"))
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

fn count(gateway: &Gateway, reason: &str) -> f64 {
    let answer = ask(gateway, "/metrics", &bearer(RIGHT));
    let line = format!("tollgate_admin_refused_total{{reason=\"{reason}\"}} ");
    let text = answer.text();
    let value = text.lines().find_map(|found| found.strip_prefix(&line)).expect("a metric");
    value.parse().expect("a number")
}

fn audit(gateway: &Gateway) -> Vec<Value> {
    let text = std::fs::read_to_string(gateway.directory().join("audit.jsonl")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn wrong_tokens_are_logged_and_slowed() {
    let gateway = gateway();
    let began = Instant::now();
    for _ in 0..7 {
        assert_eq!(ask(&gateway, "/metrics", &bearer(WRONG)).status, 401);
    }
    assert!(began.elapsed() >= Duration::from_secs(2), "the last two wait: {:?}", began.elapsed());
    assert_eq!(ask(&gateway, "/apisix/admin/routes", &format!("X-API-KEY: {WRONG}")).status, 401);
    assert_eq!(ask(&gateway, "/metrics", "Authorization: Basic Z3Vlc3M=").status, 401);
    assert_eq!(ask(&gateway, "/metrics", "Accept: */*").status, 401);
    assert_eq!(count(&gateway, "token_unknown"), 8.0);
    assert_eq!(count(&gateway, "credentials_malformed"), 1.0);
    assert_eq!(count(&gateway, "token_missing"), 1.0);
    let reported = gateway.stderr();
    assert!(
        reported.contains("warning: admin: wrong credentials (token_unknown) from 127.0.0.1:"),
        "{reported}"
    );
    assert!(reported.matches("wrong credentials").count() <= 2, "{reported}");
    let lines = audit(&gateway);
    assert_eq!(lines.len(), 9, "{lines:#?}");
    let first = &lines[0];
    assert_eq!(
        (&first["who"], &first["status"], &first["outcome"]),
        (&Value::Null, &401.into(), &"refused".into())
    );
    assert!(first["peer"].as_str().is_some_and(|peer| peer.starts_with("127.")), "{first}");
    let audited = std::fs::read_to_string(gateway.directory().join("audit.jsonl")).expect("the audit log");
    assert!(!reported.contains("guesser") && !audited.contains("guesser"), "a token is told nowhere");
    // A request with the right token is accepted.
    assert_eq!(ask(&gateway, "/metrics", &bearer(RIGHT)).status, 200);
}

#[test]
fn many_wrong_tokens_at_once_are_not_looked_at() {
    let gateway = gateway();
    let address = gateway.admin_address();
    let guess = |_| {
        std::thread::spawn(move || {
            let mut client = Client::connect(address, Arc::default());
            let request = format!(
                "GET /metrics HTTP/1.1\r\nHost: localhost\r\n{}\r\nConnection: close\r\n\r\n",
                bearer(WRONG)
            );
            client.ask(request)
        })
    };
    let guesses: Vec<_> = (0..30).map(guess).collect();
    let answers: Vec<Response> = guesses.into_iter().map(|it| it.join().expect("an answer")).collect();
    let refused: Vec<&Response> = answers.iter().filter(|answer| answer.status == 429).collect();
    assert!(
        !refused.is_empty() && refused.iter().all(|it| it.headers.get("retry-after") == Some("1")),
        "{answers:?}"
    );
    assert!(answers.iter().all(|answer| matches!(answer.status, 401 | 429)), "{answers:?}");
    eventually("the right one again", || ask(&gateway, "/metrics", &bearer(RIGHT)).status == 200);
    assert_eq!(gateway.client().get("/a").status, 200);
}
