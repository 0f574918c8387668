//! Many resources in one change: the time and the memory grow with their number, and with nothing else.

use serde_json::{Value, json};
use tollgate_tests::api::{JSON, call};
use tollgate_tests::{Gateway, Response};

fn gateway() -> Gateway {
    Gateway::start(
        "store: $DIR/store\nroutes: [{match: /fixed, respond: file}]\nupstreams: {u: \"127.0.0.1:1\"}",
    )
}

/// CPU time that the gateway has used, in clock ticks (proc(5)). Other processes do not count.
fn ticks(gateway: &Gateway) -> u64 {
    let stat =
        std::fs::read_to_string(format!("/proc/{}/stat", gateway.pid())).expect("the process is there");
    let (_, rest) = stat.rsplit_once(") ").expect("a name in brackets");
    let fields: Vec<&str> = rest.split(' ').collect();
    let number = |index: usize| fields[index].parse::<u64>().expect("a number");
    number(11) + number(12)
}

/// An answer, and the CPU time that it took.
fn costs(gateway: &Gateway, ask: impl FnOnce() -> Response) -> (Response, u64) {
    let before = ticks(gateway);
    let answer = ask();
    (answer, ticks(gateway) - before)
}

fn post(gateway: &Gateway, changes: Vec<Value>) -> (Response, u64) {
    let body = json!({ "changes": changes }).to_string();
    costs(gateway, || call(gateway, "POST", "/transactions", JSON, &body))
}

fn routes(count: usize) -> Vec<Value> {
    let put = |n: usize| json!({"op": "put", "kind": "routes", "name": format!("r{n}"), "value": {"match": format!("/r/{n}"), "to": "u"}});
    (0..count).map(put).collect()
}

fn deletions(count: usize) -> Vec<Value> {
    (0..count).map(|n| json!({"op": "delete", "kind": "routes", "name": format!("r{n}")})).collect()
}

/// Each step at a small number and at eight times as many: what is linear takes eight times the CPU time, what is quadratic
/// 64 times.
#[test]
fn a_transaction_takes_as_long_as_it_has_changes() {
    const FEW: usize = 1_000;
    const FACTOR: usize = 8;
    let measure = |count: usize| {
        let gateway = gateway();
        let (put, put_cost) = post(&gateway, routes(count));
        assert_eq!(put.status, 200, "{put:?}");
        assert_eq!(gateway.client().get("/r/7").status, 502);
        // None of its upstreams is there: each is told, and all is taken back.
        let mut wrong = deletions(count);
        wrong.push(
            json!({"op": "put", "kind": "routes", "name": "x", "value": {"match": "/x", "to": "nowhere"}}),
        );
        let (refused, refused_cost) = post(&gateway, wrong);
        assert_eq!(refused.status, 422);
        let (gone, gone_cost) = post(&gateway, deletions(count));
        assert_eq!(gone.status, 200, "{gone:?}");
        let (back, back_cost) = costs(&gateway, || call(&gateway, "POST", "/rollback/1", "", ""));
        assert_eq!(back.status, 200, "{back:?}");
        [put_cost, refused_cost, gone_cost, back_cost]
    };
    let (few, many) = (measure(FEW), measure(FEW * FACTOR));
    for (step, (few, many)) in ["put", "refuse", "delete", "roll back"].iter().zip(few.into_iter().zip(many))
    {
        let bound = (2 * FACTOR) as u64 * few.max(5);
        assert!(many < bound, "{step}: {few} ticks for {FEW}, {many} for {FACTOR} times as many");
    }
}

#[test]
fn names_that_nobody_has_are_told_once_and_not_all() {
    let gateway = gateway();
    let nowhere = |n: usize| json!({"op": "put", "kind": "routes", "name": format!("r{n}"), "value": {"match": format!("/r/{n}"), "to": format!("n{n}")}});
    let (answer, _) = post(&gateway, (0..5_000).map(nowhere).collect());
    assert_eq!(answer.status, 422);
    assert!(answer.text().contains("and 4000 more problems"), "{}", &answer.text()[..200]);
    assert_eq!(gateway.admin("/healthz").status, 200);
}
