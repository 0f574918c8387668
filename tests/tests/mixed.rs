//! Everything at once: good and bad clients, closing origins, reloads. The counts must agree, and nothing may
//! leak.

use std::thread;
use std::time::Duration;

use tollgate_tests::{Client, Gateway, Origin, Signal, eventually, full_backlog};

/// A small random generator (xorshift), so that a run can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// Does one random thing that a client may do, and checks the answer.
fn act(client: &mut Client, dice: &mut Dice, name: &str) -> bool {
    let body = "b".repeat(usize::try_from(dice.roll(20_000)).expect("small"));
    match dice.roll(8) {
        0 | 1 => assert_eq!(client.get(name).text(), format!("GET {name} ")),
        2 => assert_eq!(client.post(name, body.as_bytes()).text(), format!("POST {name} {body}")),
        3 => {
            client.send(format!("PUT {name} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"));
            for piece in body.as_bytes().chunks(1000) {
                client.send(format!("{:x}\r\n", piece.len()));
                client.send([piece, b"\r\n"].concat());
            }
            client.send("0\r\n\r\n");
            assert_eq!(client.response().text(), format!("PUT {name} {body}"));
        }
        4 => {
            let one = format!("GET {name}/p HTTP/1.1\r\nHost: a\r\n\r\n");
            client.send(one.repeat(5));
            for _ in 0..5 {
                assert_eq!(client.response().text(), format!("GET {name}/p "));
            }
        }
        5 => {
            client.dribble(format!("GET {name}/d HTTP/1.1\r\nHost: a\r\n\r\n"));
            assert_eq!(client.response().text(), format!("GET {name}/d "));
        }
        6 => {
            let bad =
                ["Content-Length: 1\r\nTransfer-Encoding: chunked", "Host: b", "Content-Length: x", "X : y"];
            let field = bad[usize::try_from(dice.roll(4)).expect("small")];
            client.send(format!(
                "POST {name} HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n"
            ));
            assert_eq!(client.response().status, 400);
            client.expect_close();
            return false;
        }
        _ => {
            client.send(format!("GET {name}/h HTTP/1.1\r\nHost: a\r\n\r\n"));
            client.half_close();
            assert_eq!(client.response().text(), format!("GET {name}/h "));
            client.expect_close();
            return false;
        }
    }
    true
}

#[test]
fn the_books_balance_whatever_clients_do_and_while_plans_change() {
    const CLIENTS: u64 = 6;
    let origin = Origin::echo();
    let gateway = Gateway::with(&origin, "workers: 2\nlisten: {bind: $LISTEN, half_close: on}");
    thread::scope(|scope| {
        for n in 0..CLIENTS {
            let gateway = &gateway;
            scope.spawn(move || {
                let mut dice = Dice(0x9E37_79B9_7F4A_7C15 ^ (n + 1));
                let mut client = gateway.client();
                for i in 0..60 {
                    if !act(&mut client, &mut dice, &format!("/{n}/{i}")) {
                        client = gateway.client();
                    }
                }
            });
        }
        for _ in 0..10 {
            gateway.signal(Signal::HUP);
            thread::sleep(Duration::from_millis(20));
        }
    });
    assert!(origin.requests().iter().all(|request| request.target != "/smuggled" && request.complete));
    gateway.reconcile(&[&origin]);
    let gauge = |name: &str| gateway.metrics().sum(name, "");
    eventually("nothing to be in flight", || gauge("tollgate_requests_in_flight") == Some(0.0));
    eventually("no client to be left", || gauge("tollgate_client_connections") == Some(0.0));
}

#[test]
fn no_get_is_lost_to_an_origin_that_closes_without_a_word() {
    // Every connection carries one request and closes a moment later, so the gateway keeps hitting
    // connections that are about to close.
    let origin = Origin::play(|conn| {
        if conn.request().is_some() {
            conn.ok("ok");
            conn.pause(Duration::from_micros(u64::try_from(conn.index() % 7).expect("small") * 100));
        }
    });
    let gateway = Gateway::with(&origin, "workers: 2");
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = gateway.client();
                for _ in 0..150 {
                    let response = client.get("/");
                    assert_eq!(response.status, 200, "{response:?}");
                }
            });
        }
    });
    eventually("all to be let go", || origin.open() == 0);
}

#[test]
fn a_pipelined_request_behind_one_that_is_sent_again_is_not_lost() {
    let origin = Origin::play(|conn| {
        while let Some(request) = conn.request() {
            if conn.index() == 0 && request.target != "/first" {
                return;
            }
            conn.ok(&request.target);
        }
    });
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    assert_eq!(client.get("/first").text(), "/first");
    client.send(
        "PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbodyGET /b HTTP/1.1\r\nHost: a\r\n\r\n\
         GET /c HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    for target in ["/a", "/b", "/c"] {
        assert_eq!(client.response().text(), target);
    }
    gateway.reconcile(&[&origin]);
}

#[test]
fn clients_that_reset_leave_nothing_behind() {
    let (stuck, kept) = full_backlog();
    let origin = Origin::play(|conn| {
        if conn.head().is_some() {
            conn.wait_close();
        }
    });
    let gateway = Gateway::start(&format!(
        "routes:\n  - {{match: /connecting, to: [\"{stuck}\"]}}\n  - {{match: \"/*\", to: [\"{}\"]}}\n",
        origin.address()
    ));
    let before = gateway.open_files();
    for message in [
        "",
        "GET / HT",
        "GET /connecting HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /connecting HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf",
        "GET /waiting HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /waiting HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf",
        "POST /waiting HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    ] {
        for _ in 0..10 {
            let mut client = gateway.client();
            client.send(message);
            thread::sleep(Duration::from_millis(2));
            client.reset();
        }
    }
    eventually("nothing to be in flight", || {
        gateway.metrics().sum("tollgate_requests_in_flight", "") == Some(0.0)
    });
    eventually("the origin to be let go", || origin.open() == 0);
    eventually("every file to be closed", || gateway.open_files() <= before + 2);
    assert!(gateway.records().iter().all(|record| record["reason"] != "proxy_internal_error"));
    drop(kept);
}
