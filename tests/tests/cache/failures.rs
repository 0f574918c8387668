//! An origin that fails while many clients wait for one response gets few of their requests.

use std::thread;
use std::time::Duration;

use tollgate_tests::{Client, Gate, Gateway, Origin, api, eventually};

use super::answering;

const CLIENTS: usize = 200;
/// How many leaders may fail before all that wait do.
const LEADERS_MAX: usize = 3;

fn start(origin: &Origin) -> Gateway {
    Gateway::start(&format!(
        "workers: 2\nroutes: [{{name: r, match: \"/*\", to: \"{}\", policies: {{cache: on}}}}]\n",
        origin.address()
    ))
}

fn asking(gateway: &Gateway, lines: &str) -> Client {
    let mut client = gateway.client();
    client.send(format!("GET / HTTP/1.1\r\nHost: a.example\r\n{lines}\r\n"));
    client
}

/// Starts requests that wait for the response of one that has reached the origin.
fn waiting(gateway: &Gateway, count: usize) -> Vec<Client> {
    let clients: Vec<Client> = (0..count).map(|_| asking(gateway, "")).collect();
    eventually("all of them to wait", || {
        let state = api::json_of(&api::call(gateway, "GET", "/cache", "", ""));
        state["followed"].as_u64() >= Some(count as u64)
    });
    clients
}

/// Starts an origin whose responses wait for the gate.
fn behind(gate: &Gate, answer: impl Fn(usize, bool) -> &'static str + Send + Sync + 'static) -> Origin {
    let gate = gate.clone();
    answering(move |number, request| {
        gate.wait();
        answer(number, request.headers.has("X-Odd")).to_owned()
    })
}

const OK: &str = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\n\r\nok";
const ERROR: &str = "HTTP/1.1 500 X\r\nContent-Length: 3\r\n\r\nbad";

#[test]
fn many_clients_of_a_failing_origin_cause_few_requests() {
    let gate = Gate::new();
    let origin = behind(&gate, |_, _| {
        thread::sleep(Duration::from_millis(20));
        ERROR
    });
    let gateway = start(&origin);
    let leader = asking(&gateway, "");
    eventually("the request of the leader", || origin.count() == 1);
    let mut clients = waiting(&gateway, CLIENTS - 1);
    clients.push(leader);
    gate.open();
    let statuses: Vec<u16> = clients.iter_mut().map(|client| client.response().status).collect();
    let with = |status: u16| statuses.iter().filter(|it| **it == status).count();
    assert_eq!(origin.count(), LEADERS_MAX);
    // Each leader gets the origin's own response.
    assert_eq!((with(500), with(503)), (LEADERS_MAX, CLIENTS - LEADERS_MAX), "{statuses:?}");
    // It is over with these: a later request tries again.
    assert_eq!(asking(&gateway, "").response().status, 500);
    assert_eq!(origin.count(), LEADERS_MAX + 1);
}

#[test]
fn an_error_that_one_odd_request_causes_reaches_no_other() {
    let gate = Gate::new();
    let origin = behind(&gate, |_, is_odd| if is_odd { ERROR } else { OK });
    let gateway = start(&origin);
    let mut odd = asking(&gateway, "X-Odd: 1\r\n");
    eventually("the request of the leader", || origin.count() == 1);
    let mut clients = waiting(&gateway, CLIENTS);
    gate.open();
    assert_eq!(odd.response().status, 500);
    for client in &mut clients {
        assert_eq!(client.response().text(), "ok");
    }
    assert_eq!(origin.count(), 2);
}

#[test]
fn an_origin_that_closes_its_connections_gets_few_requests() {
    let gate = Gate::new();
    let origin = {
        let gate = gate.clone();
        Origin::play(move |conn| {
            if conn.request().is_some() {
                gate.wait();
            }
        })
    };
    let gateway = Gateway::start(&format!(
        "workers: 2\nroutes: [{{name: r, match: \"/*\", to: \"{}\", retry: off, policies: {{cache: on}}}}]\n",
        origin.address()
    ));
    let leader = asking(&gateway, "");
    eventually("the request of the leader", || origin.count() == 1);
    let mut clients = waiting(&gateway, CLIENTS - 1);
    clients.push(leader);
    gate.open();
    for client in &mut clients {
        assert!(matches!(client.response().status, 502 | 503));
    }
    assert!(origin.count() <= LEADERS_MAX, "{}", origin.count());
}

#[test]
fn a_stale_response_serves_all_that_wait_after_one_failure() {
    let gate = Gate::new();
    let origin = behind(&gate, |number, _| match number {
        1 => {
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60, stale-if-error=60\r\nETag: \"a\"\r\nContent-Length: 4\r\n\r\ngood"
        }
        _ => ERROR,
    });
    let gateway = start(&origin);
    gate.open();
    assert_eq!(asking(&gateway, "").response().text(), "good");
    let soft = r#"{"all": true, "soft": true}"#;
    assert_eq!(api::call(&gateway, "POST", "/cache/purge", api::JSON, soft).status, 200);
    gate.close();
    let leader = asking(&gateway, "");
    eventually("the request of the leader", || origin.count() == 2);
    let mut clients = waiting(&gateway, CLIENTS - 1);
    clients.push(leader);
    gate.open();
    for client in &mut clients {
        assert_eq!(client.response().text(), "good");
    }
    assert_eq!(origin.count(), 2);
}
