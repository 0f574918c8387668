//! Streams over a reload, a drain and an upgrade; `check`, and the admin API.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;
use tollgate_tests::api::{call, json_of, put};
use tollgate_tests::{DEADLINE, Signal, eventually, free_address};

use super::{Relay, Server, config, expect, rest};

fn generation(relay: &Relay) -> u64 {
    json_of(&relay.gateway.admin("/status"))["config"]["generation"].as_u64().expect("a number")
}

fn reload(relay: &Relay, keys: &str, more: &str) {
    let before = generation(relay);
    relay.gateway.write_config(&config(relay.address, keys, more));
    relay.gateway.signal(Signal::HUP);
    eventually("the reload", || generation(relay) > before);
}

#[test]
fn open_streams_live_on_over_reloads() {
    let (one, other) = (Server::named("one "), Server::named("other "));
    let relay = Relay::to(&one);
    let mut client = relay.connect();
    expect(&mut client, "one ");
    reload(&relay, &format!("to: \"{}\"", other.address), "");
    client.write_all(b"still here").expect("written");
    expect(&mut client, "still here");
    expect(&mut relay.connect(), "other ");
    // The listener goes, and the stream stays.
    let before = generation(&relay);
    relay.gateway.write_config("listen: $LISTEN\nroutes: []\n");
    relay.gateway.signal(Signal::HUP);
    eventually("the reload", || generation(&relay) > before);
    eventually("nothing listens", || {
        TcpStream::connect(relay.address).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    });
    client.write_all(b"still here").expect("written");
    expect(&mut client, "still here");
}

#[test]
fn a_listener_of_http_becomes_one_of_tcp() {
    let server = Server::named("one ");
    let address = free_address();
    let gateway = tollgate_tests::Gateway::start(&format!(
        "listen: [$LISTEN, \"{address}\"]\nroutes: [{{respond: hello}}]\n"
    ));
    let relay = Relay { gateway, address };
    let mut client = relay.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("written");
    assert!(String::from_utf8_lossy(&rest(&mut client).expect("an answer")).ends_with("hello"));
    reload(&relay, &format!("to: \"{}\"", server.address), "");
    expect(&mut relay.connect(), "one ");
}

#[test]
fn streams_end_with_the_drain() {
    let server = Server::named("one ");
    let mut relay = Relay::start(&format!("to: \"{}\"", server.address), "timeouts: {drain: 2s}");
    let mut client = relay.connect();
    expect(&mut client, "one ");
    let begun = Instant::now();
    relay.gateway.signal(Signal::TERM);
    eventually("nothing listens", || TcpStream::connect(relay.address).is_err());
    client.write_all(b"still here").expect("written");
    expect(&mut client, "still here");
    assert_eq!(rest(&mut client).unwrap_or_default(), b"");
    assert!(begun.elapsed() >= Duration::from_millis(1900), "{:?}", begun.elapsed());
    assert_eq!(relay.gateway.wait_exit().code(), Some(0));
    let records = relay.gateway.records();
    let reasons: Vec<_> = records.iter().map(|record| &record["reason"]).collect();
    assert!(reasons.contains(&&json!("shutting_down")), "{records:#?}");
}

#[test]
fn a_drain_waits_for_a_stream_that_ends() {
    let server = Server::named("one ");
    let mut relay = Relay::start(&format!("to: \"{}\"", server.address), "timeouts: {drain: 60s}");
    let mut client = relay.connect();
    expect(&mut client, "one ");
    relay.gateway.signal(Signal::TERM);
    eventually("nothing listens", || TcpStream::connect(relay.address).is_err());
    client.write_all(b"last words").expect("written");
    expect(&mut client, "last words");
    drop(client);
    let begun = Instant::now();
    assert_eq!(relay.gateway.wait_exit().code(), Some(0));
    assert!(begun.elapsed() < DEADLINE);
}

#[test]
fn streams_live_on_over_an_upgrade() {
    let server = Server::named("one ");
    let mut relay = Relay::start(&format!("to: \"{}\"", server.address), "timeouts: {drain: 60s}");
    let mut old = relay.connect();
    expect(&mut old, "one ");
    relay.gateway.upgrade();
    expect(&mut relay.connect(), "one ");
    old.write_all(b"still here").expect("written");
    expect(&mut old, "still here");
    drop(old);
    relay.gateway.wait_predecessor(0);
}

#[test]
fn streams_are_documents_of_the_admin_api() {
    let (one, other) = (Server::named("one "), Server::named("other "));
    let relay = Relay::start("", "store: $DIR/store");
    assert_eq!(rest(&mut relay.connect()).unwrap_or_default(), b"", "there is no stream");
    let made =
        put(&relay.gateway, "/streams/db", &json!({"listeners": ["l4"], "to": one.address.to_string()}));
    assert_eq!(made.status, 201, "{made:?}");
    expect(&mut relay.connect(), "one ");
    let changed =
        put(&relay.gateway, "/streams/db", &json!({"listeners": ["l4"], "to": other.address.to_string()}));
    assert_eq!(changed.status, 200, "{changed:?}");
    expect(&mut relay.connect(), "other ");
    let read = json_of(&call(&relay.gateway, "GET", "/streams/db", "", ""));
    assert_eq!(read["to"], other.address.to_string(), "{read}");
    let listed = json_of(&call(&relay.gateway, "GET", "/listeners?name=l4", "", ""));
    assert_eq!(
        (&listed["items"][0]["protocols"], &listed["items"][0]["routes"]),
        (&json!(["tcp"]), &json!(0))
    );
    let wrong = put(&relay.gateway, "/streams/x", &json!({"listeners": ["nowhere"], "to": "127.0.0.1:1"}));
    assert_eq!(wrong.status, 422, "{wrong:?}");
    assert!(wrong.text().contains("there is no listener named `nowhere`"), "{}", wrong.text());
    let twice = put(&relay.gateway, "/streams/y", &json!({"listeners": ["l4"], "to": "127.0.0.1:1"}));
    assert_eq!(twice.status, 422, "{twice:?}");
    assert_eq!(call(&relay.gateway, "DELETE", "/streams/db", "", "").status, 200);
    assert_eq!(rest(&mut relay.connect()).unwrap_or_default(), b"", "it is gone");
}
