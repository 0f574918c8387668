//! One fetch for many clients that wait for the same response.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tollgate_tests::{Client, Gate, Gateway, Origin, api, eventually};

const CLIENTS: usize = 100;

/// Starts an origin that sends the head and a part of the body, and the rest once the gate is open.
fn in_two_parts(gate: &Gate, head: &'static str) -> Origin {
    let gate = gate.clone();
    Origin::play(move |conn| {
        while conn.request().is_some() {
            conn.send(head);
            gate.wait();
            if !conn.send("second") {
                return;
            }
        }
    })
}

const HEAD: &str = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 11\r\n\r\nfirst";

fn start(origin: &Origin, settings: &str) -> Gateway {
    Gateway::start(&format!(
        "workers: 2\nroutes: [{{name: r, match: \"/*\", to: \"{}\", policies: {{cache: {settings}}}}}]\n",
        origin.address()
    ))
}

fn asking(gateway: &Gateway, count: usize) -> Vec<Client> {
    let ask = |_| {
        let mut client = gateway.client();
        client.send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
        client
    };
    (0..count).map(ask).collect()
}

#[test]
fn many_clients_cause_one_request() {
    let gate = Gate::new();
    let origin = in_two_parts(&gate, HEAD);
    let gateway = start(&origin, "on");
    let mut clients = asking(&gateway, CLIENTS);
    // All get the part that is there, before the rest exists.
    for client in &mut clients {
        let head = client.head();
        assert_eq!((head.status, head.header("Content-Length")), (200, Some("11")));
        while client.wire().pending().len() < 5 {
            assert_eq!(client.wire().fill(), Ok(true));
        }
        assert_eq!(client.wire().pending(), b"first");
    }
    assert_eq!(origin.count(), 1);
    gate.open();
    for client in &mut clients {
        while client.wire().pending().len() < 11 {
            assert_eq!(client.wire().fill(), Ok(true));
        }
        assert_eq!(client.wire().pending(), b"firstsecond");
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_leader_that_leaves_harms_nobody() {
    let gate = Gate::new();
    let origin = in_two_parts(&gate, HEAD);
    let gateway = start(&origin, "on");
    let mut leader = asking(&gateway, 1).remove(0);
    assert_eq!(leader.head().status, 200);
    let mut others = asking(&gateway, 10);
    for client in &mut others {
        assert_eq!(client.head().status, 200);
    }
    leader.reset();
    gate.open();
    for client in &mut others {
        while client.wire().pending().len() < 11 {
            assert_eq!(client.wire().fill(), Ok(true));
        }
        assert_eq!(client.wire().pending(), b"firstsecond");
    }
    assert_eq!(
        (gateway.client().ask("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").text().as_str(), origin.count()),
        ("firstsecond", 1)
    );
}

#[test]
fn a_leader_that_leaves_before_the_head_harms_nobody() {
    let gate = Gate::new();
    let origin = {
        let gate = gate.clone();
        Origin::play(move |conn| {
            while conn.request().is_some() {
                gate.wait();
                conn.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\n\r\nok");
            }
        })
    };
    let gateway = start(&origin, "on");
    let leader = asking(&gateway, 1).remove(0);
    eventually("the request of the leader", || origin.count() == 1);
    let mut others = asking(&gateway, 10);
    leader.reset();
    gate.open();
    for client in &mut others {
        assert_eq!(client.response().text(), "ok");
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_slow_leader_delays_nobody() {
    let body = "0123456789abcdef".repeat(1 << 17);
    let length = body.len();
    let origin = Origin::fixed(format!(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {length}\r\n\r\n{body}"
    ));
    let gateway = start(&origin, "on");
    let mut leader = gateway.small_client(4096);
    leader.send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert_eq!(leader.head().status, 200);
    for client in &mut asking(&gateway, 5) {
        assert!(client.response().text() == body);
    }
    assert_eq!(origin.count(), 1);
}

/// Checks that requests for the same key reach the origin together. The origin counts them in `at_once`, and holds them
/// at `gate`.
fn assert_all_are_forwarded(gateway: &Gateway, gate: &Gate, at_once: &AtomicUsize) {
    gate.close();
    at_once.store(0, Ordering::SeqCst);
    let mut clients = asking(gateway, 8);
    eventually("all of them at once", || at_once.load(Ordering::SeqCst) == 8);
    gate.open();
    for client in &mut clients {
        assert_eq!(client.response().text(), "ok");
    }
}

#[test]
fn clients_do_not_queue_for_what_is_not_stored() {
    let at_once = Arc::new(AtomicUsize::new(0));
    let gate = Gate::new();
    let origin = {
        let (gate, at_once) = (gate.clone(), at_once.clone());
        Origin::play(move |conn| {
            while let Some(request) = conn.request() {
                if request.target != "/first" {
                    at_once.fetch_add(1, Ordering::SeqCst);
                    gate.wait();
                }
                conn.send("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 2\r\n\r\nok");
            }
        })
    };
    let gateway = start(&origin, "{key: {query: off}}");
    let mut first = gateway.client();
    assert_eq!(first.ask("GET /first HTTP/1.1\r\nHost: a.example\r\n\r\n").text(), "ok");
    let mut clients = asking(&gateway, 8);
    eventually("the first of them", || at_once.load(Ordering::SeqCst) >= 1);
    gate.open();
    for client in &mut clients {
        assert_eq!(client.response().text(), "ok");
    }
    // The key is known to be uncacheable: no client waits for another.
    assert_all_are_forwarded(&gateway, &gate, &at_once);
}

#[test]
fn followers_of_a_cut_response_are_cut_too() {
    let gate = Gate::new();
    let origin = {
        let gate = gate.clone();
        Origin::play(move |conn| {
            if conn.request().is_some() {
                conn.send(HEAD);
                gate.wait();
            }
        })
    };
    let gateway = start(&origin, "on");
    let mut clients = asking(&gateway, 5);
    let mut heads: Vec<_> = clients.iter_mut().map(Client::head).collect();
    gate.open();
    for (client, head) in clients.iter_mut().zip(&mut heads) {
        assert!(client.try_body(head).is_err(), "{head:?}");
        assert_eq!(head.text(), "first");
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn an_expired_response_is_validated_once_for_all() {
    let gate = Gate::new();
    let origin = {
        let gate = gate.clone();
        super::answering(move |number, request| {
            if number == 1 {
                return "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nETag: \"a\"\r\nContent-Length: 2\r\n\r\nok".to_owned();
            }
            assert_eq!(request.headers.get("If-None-Match"), Some("\"a\""));
            gate.wait();
            "HTTP/1.1 304 X\r\nCache-Control: max-age=60\r\nETag: \"a\"\r\n\r\n".to_owned()
        })
    };
    let gateway = start(&origin, "on");
    assert_eq!(super::get(&gateway, "/", "").text(), "ok");
    let soft = r#"{"all": true, "soft": true}"#;
    assert_eq!(api::call(&gateway, "POST", "/cache/purge", api::JSON, soft).status, 200);
    let mut clients = asking(&gateway, 20);
    eventually("the validation", || origin.count() == 2);
    let opener = thread::spawn(move || gate.open());
    for client in &mut clients {
        assert_eq!(client.response().text(), "ok");
    }
    opener.join().expect("opened");
    assert_eq!(origin.count(), 2);
}

/// Which fields a response varies by is unknown before it arrives.
#[test]
fn clients_with_other_fields_share_a_fetch_of_their_own() {
    const VARIANTS: usize = 4;
    let gate = Gate::new();
    let origin = {
        let gate = gate.clone();
        super::answering(move |_, request| {
            gate.wait();
            let language = request.headers.get("Accept-Language").unwrap_or("-").to_owned();
            format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nVary: Accept-Language\r\nContent-Length: {}\r\n\r\n{language}",
                language.len()
            )
        })
    };
    let gateway = start(&origin, "on");
    let mut clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let mut client = gateway.client();
            let language = format!("l{}", number % VARIANTS);
            client.send(format!("GET / HTTP/1.1\r\nHost: a.example\r\nAccept-Language: {language}\r\n\r\n"));
            (client, language)
        })
        .collect();
    let waiting = || {
        let state = api::json_of(&api::call(&gateway, "GET", "/cache", "", ""));
        state["followed"].as_u64() >= Some(CLIENTS as u64 - 1)
    };
    eventually("the clients wait", waiting);
    gate.open();
    for (client, language) in &mut clients {
        assert_eq!(client.response().text(), *language);
    }
    assert_eq!(origin.count(), VARIANTS, "one request for each variant");
}

#[test]
fn clients_do_not_queue_for_what_is_not_stored_any_more() {
    let gate = Gate::new();
    gate.open();
    let at_once = Arc::new(AtomicUsize::new(0));
    let origin = {
        let (gate, at_once) = (gate.clone(), at_once.clone());
        super::answering(move |number, _| {
            at_once.fetch_add(1, Ordering::SeqCst);
            gate.wait();
            let lines = if number == 1 { "max-age=0\r\nETag: \"a\"" } else { "no-store" };
            format!("HTTP/1.1 200 OK\r\nCache-Control: {lines}\r\nContent-Length: 2\r\n\r\nok")
        })
    };
    let gateway = start(&origin, "on");
    for _ in 0..2 {
        assert_eq!(super::get(&gateway, "/", "").text(), "ok");
    }
    // The second response was not stored, so the first one is out of date, and no client waits for another.
    assert_all_are_forwarded(&gateway, &gate, &at_once);
}

#[test]
fn a_response_for_one_client_leaves_the_variants_of_others() {
    let origin = super::answering(|number, request| {
        let rule = match request.headers.has("Cookie") {
            true => "private",
            false => "max-age=0, stale-if-error=600",
        };
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: {rule}\r\nVary: Cookie\r\nContent-Length: {}\r\n\r\n{number}",
            super::digits(number)
        )
    });
    let gateway = start(&origin, "on");
    let text = |lines: &str| super::get(&gateway, "/", lines).text();
    assert_eq!([text(""), text("Cookie: s=1\r\n")], ["1", "2"]);
    drop(origin);
    assert_eq!(text(""), "1", "it still replaces an error");
}

/// RFC 9111, 4.4: a client that has changed a resource gets no response from before.
#[test]
fn a_client_does_not_follow_a_fetch_from_before_a_change() {
    let gate = Gate::new();
    let origin = {
        let gate = gate.clone();
        super::answering(move |number, request| {
            if number == 1 {
                gate.wait();
            }
            let rule = if request.method == "POST" { "no-store" } else { "max-age=60" };
            format!("HTTP/1.1 200 OK\r\nCache-Control: {rule}\r\nContent-Length: 1\r\n\r\n{number}")
        })
    };
    let gateway = start(&origin, "on");
    let mut before = asking(&gateway, 1).remove(0);
    eventually("the first request", || origin.count() == 1);
    assert_eq!(super::ask(&gateway, "POST", "/", "Content-Length: 0\r\n").text(), "2");
    assert_eq!(super::get(&gateway, "/", "").text(), "3");
    let all = r#"{"all": true}"#;
    assert_eq!(api::call(&gateway, "POST", "/cache/purge", api::JSON, all).status, 200);
    assert_eq!(super::get(&gateway, "/", "").text(), "4", "nor one from before a purge");
    gate.open();
    assert_eq!(before.response().text(), "1");
    assert_eq!(super::get(&gateway, "/", "").text(), "4", "the old response is not stored");
}
