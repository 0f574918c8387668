//! Many resources in one change: time and memory grow with their number only.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_tests::Gateway;
use tollgate_tests::api::JSON;

fn gateway() -> Gateway {
    Gateway::start(
        "store: $DIR/store\nroutes: [{match: /fixed, respond: file}]\nupstreams: {u: \"127.0.0.1:1\"}",
    )
}

/// Returns the CPU time that the gateway has used, in clock ticks (proc(5)). Other processes do not count.
fn ticks(gateway: &Gateway) -> u64 {
    let stat =
        std::fs::read_to_string(format!("/proc/{}/stat", gateway.pid())).expect("the process is there");
    let (_, rest) = stat.rsplit_once(") ").expect("a name in brackets");
    let fields: Vec<&str> = rest.split(' ').collect();
    let number = |index: usize| fields[index].parse::<u64>().expect("a number");
    number(11) + number(12)
}

/// Sends a request to the API, and waits up to five minutes: a change yields to all other work on the
/// machine.
fn ask(gateway: &Gateway, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(gateway.admin_address()).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(300))).expect("set");
    let length = body.len();
    let head = format!(
        "POST /api/v1{path} HTTP/1.1\r\nHost: localhost\r\n{JSON}Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, answer)
}

/// Returns the status of an answer, and the CPU time in clock ticks that it took.
fn costs(gateway: &Gateway, path: &str, changes: Option<Vec<Value>>) -> (u16, u64) {
    let body = changes.map(|changes| json!({ "changes": changes }).to_string()).unwrap_or_default();
    let before = ticks(gateway);
    let (status, _) = ask(gateway, path, &body);
    (status, ticks(gateway) - before)
}

fn routes(count: usize) -> Vec<Value> {
    let put = |n: usize| json!({"op": "put", "kind": "routes", "name": format!("r{n}"), "value": {"match": format!("/r/{n}"), "to": "u"}});
    (0..count).map(put).collect()
}

fn deletions(count: usize) -> Vec<Value> {
    (0..count).map(|n| json!({"op": "delete", "kind": "routes", "name": format!("r{n}")})).collect()
}

/// Each step runs at a small number and at eight times this number. A linear step takes eight times the CPU
/// time, a quadratic one 64 times.
///
/// Other tests on the same cores empty its caches, which adds to the CPU time and never takes from it. So a
/// step that exceeds its bound runs again, and the lowest costs count. A quadratic step exceeds it each time.
#[test]
fn a_transaction_takes_as_long_as_it_has_changes() {
    const FEW: usize = 250;
    const FACTOR: usize = 8;
    const RUNS_MAX: usize = 3;
    let measure = |count: usize| {
        let gateway = gateway();
        let (put, put_cost) = costs(&gateway, "/transactions", Some(routes(count)));
        assert_eq!(gateway.client().get("/r/7").status, 502);
        // One of the changes is invalid, so all are rolled back.
        let mut wrong = deletions(count);
        wrong.push(
            json!({"op": "put", "kind": "routes", "name": "x", "value": {"match": "/x", "to": "nowhere"}}),
        );
        let (refused, refused_cost) = costs(&gateway, "/transactions", Some(wrong));
        let (gone, gone_cost) = costs(&gateway, "/transactions", Some(deletions(count)));
        let (back, back_cost) = costs(&gateway, "/rollback/1", None);
        assert_eq!([put, refused, gone, back], [200, 422, 200, 200]);
        [put_cost, refused_cost, gone_cost, back_cost]
    };
    let lowest = |a: [u64; 4], b: [u64; 4]| std::array::from_fn(|step| a[step].min(b[step]));
    let bound = |few: u64| (2 * FACTOR) as u64 * few.max(5);
    let (mut few, mut many) = ([u64::MAX; 4], [u64::MAX; 4]);
    for _ in 0..RUNS_MAX {
        (few, many) = (lowest(few, measure(FEW)), lowest(many, measure(FEW * FACTOR)));
        if few.iter().zip(many).all(|(few, many)| many < bound(*few)) {
            return;
        }
    }
    panic!(
        "CPU ticks to put, refuse, delete, roll back: {few:?} for {FEW} changes, {many:?} for {FACTOR} times as many"
    );
}

#[test]
fn unknown_names_are_reported_once_and_at_most_some() {
    let gateway = gateway();
    let nowhere = |n: usize| json!({"op": "put", "kind": "routes", "name": format!("r{n}"), "value": {"match": format!("/r/{n}"), "to": format!("n{n}")}});
    let changes: Vec<Value> = (0..1_500).map(nowhere).collect();
    let (status, text) = ask(&gateway, "/transactions", &json!({ "changes": changes }).to_string());
    assert_eq!(status, 422);
    assert!(text.contains("and 500 more problems"), "{}", &text[..300]);
    assert_eq!(gateway.admin("/healthz").status, 200);
}
