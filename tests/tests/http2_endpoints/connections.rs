//! Connections to endpoints: few, shared, bounded, and how they end.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use h2::Reason;
use serde_json::Value;
use tollgate_tests::frames::{END_HEADERS, END_STREAM, frame, kind};
use tollgate_tests::http2::{get, request};
use tollgate_tests::{DEADLINE, Gate, Gateway, Http2Origin, Http2Settings, Origin, eventually};

use super::rules::{first_request, next_frame};
use super::{reconcile, to, with};

/// Starts an origin that answers with its path; `/slow...` waits until the gate opens.
fn gated(gate: &Gate, settings: Http2Settings) -> Http2Origin {
    let gate = gate.clone();
    Http2Origin::play_with(settings, move |stream| {
        if stream.request.target.starts_with("/slow") {
            gate.wait();
        }
        let target = stream.request.target.clone();
        stream.ok(&target);
    })
}

fn streams(most: u32) -> Http2Settings {
    Http2Settings { streams: Some(most), ..Http2Settings::default() }
}

#[test]
fn requests_share_a_connection_and_do_not_wait_for_each_other() {
    let gate = Gate::new();
    let origin = gated(&gate, Http2Settings::default());
    let gateway = to(&origin);
    let mut http2 = gateway.http2();
    // All requests arrive before there is a connection, and wait for one together.
    let slow: Vec<_> =
        (0..20).map(|n| http2.begin(get(&format!("/slow{n}")), true).expect("begun")).collect();
    eventually("the slow ones", || origin.count() == 20);
    for n in 0..5 {
        assert_eq!(gateway.client().get(&format!("/quick{n}")).text(), format!("/quick{n}"));
    }
    assert_eq!(origin.connections().0, 1);
    gate.open();
    for (n, stream) in slow.into_iter().enumerate() {
        assert_eq!(stream.response().expect("an answer").text(), format!("/slow{n}"));
    }
    reconcile(&gateway, &origin);
}

#[test]
fn another_connection_is_opened_when_all_are_full() {
    let gate = Gate::new();
    let origin = gated(&gate, streams(4));
    let gateway = to(&origin);
    let mut http2 = gateway.http2();
    let slow: Vec<_> =
        (0..10).map(|n| http2.begin(get(&format!("/slow{n}")), true).expect("begun")).collect();
    eventually("the slow ones", || origin.count() == 10);
    assert_eq!(origin.connections().0, 3, "4 + 4 + 2");
    gate.open();
    for stream in slow {
        assert_eq!(stream.response().expect("an answer").status, 200);
    }
    reconcile(&gateway, &origin);
}

#[test]
fn a_cap_holds_and_others_wait_for_a_place() {
    let gate = Gate::new();
    let origin = gated(&gate, streams(2));
    let gateway = with(&origin, "    limits: {connections: 2}\n    queue: {size: 6, timeout: 15s}\n");
    let mut http2 = gateway.http2();
    let mut slow: Vec<_> =
        (0..10).map(|n| http2.begin(get(&format!("/slow{n}")), true).expect("begun")).collect();
    eventually("as many as there are places", || origin.count() == 4);
    eventually("the others to wait", || {
        gateway.metrics().sum("tollgate_upstream_queue_length", "").is_some_and(|count| count >= 6.0)
    });
    let full = gateway.client().get("/slow-too-many");
    assert_eq!((full.status, full.header("tollgate-reason")), (503, Some("connection_limit_reached")));
    // A client that closes leaves the queue.
    slow.pop().expect("ten").reset();
    gate.open();
    for stream in slow {
        assert_eq!(stream.response().expect("an answer").status, 200);
    }
    assert_eq!((origin.connections().0, origin.most_at_once() <= 4), (2, true));
    reconcile(&gateway, &origin);
}

#[test]
fn a_used_up_connection_frees_its_permit_for_waiting_requests() {
    let gate = Gate::new();
    let origin = gated(&gate, streams(2));
    // If the permit were not released, the others would wait for the idle timeout.
    let gateway = with(
        &origin,
        "    limits: {endpoint_connections: 1}\n    queue: {size: 6, timeout: 15s}\n    pool: {max_requests: 2, \
         idle_timeout: 10m}\n",
    );
    let mut http2 = gateway.http2();
    let slow: Vec<_> = (0..6).map(|n| http2.begin(get(&format!("/slow{n}")), true).expect("begun")).collect();
    eventually("the others to wait", || {
        gateway.metrics().sum("tollgate_upstream_queue_length", "").is_some_and(|count| count >= 4.0)
    });
    gate.open();
    for stream in slow {
        assert_eq!(stream.response().expect("an answer").status, 200);
    }
    assert_eq!(origin.connections().0, 3, "two requests each");
    reconcile(&gateway, &origin);
}

#[test]
fn workers_share_a_cap_though_connections_stay_where_they_are() {
    let origin = Http2Origin::echo();
    let address = origin.address();
    let gateway = Gateway::start(&format!(
        "workers: 2\nroutes:\n- {{match: /*, to: up}}\nupstreams:\n  up:\n    endpoints: \"h2c://{address}\"\n\
         \x20   limits: {{connections: 1}}\n    queue: {{timeout: 15s}}\n"
    ));
    std::thread::scope(|scope| {
        for client in 0..6 {
            let gateway = &gateway;
            scope.spawn(move || {
                let mut client = (client, gateway.client());
                for n in 0..20 {
                    let path = format!("/{}/{n}", client.0);
                    assert_eq!(client.1.get(&path).text(), format!("GET {path} "));
                }
            });
        }
    });
    eventually("one connection at most", || origin.connections().1 <= 1);
    reconcile(&gateway, &origin);
}

#[test]
fn a_client_that_goes_cancels_its_stream_alone() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Http2Origin::play(move |stream| {
        if stream.request.target == "/slow" {
            assert_eq!(stream.wait_reset(), Some(Reason::CANCEL));
            held.open();
            return;
        }
        stream.echo();
    });
    let gateway = to(&origin);
    let mut http2 = gateway.http2();
    let mut other = http2.begin(request("POST", "/other", &[]), false).expect("begun");
    other.send("a", false).expect("sent");
    let slow = http2.begin(get("/slow"), true).expect("begun");
    eventually("both", || origin.count() == 2);
    slow.reset();
    gate.wait();
    let mut client = gateway.client();
    client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the third", || origin.count() == 3);
    client.reset();
    eventually("both to be cancelled", || origin.resets().len() == 2);
    other.send("b", true).expect("sent");
    assert_eq!(other.response().expect("an answer").text(), "POST /other ab");
    assert_eq!(origin.connections(), (1, 1));
    reconcile(&gateway, &origin);
}

#[test]
fn a_goodbye_leaves_what_is_under_way_and_takes_nothing_more() {
    let gate = Gate::new();
    let origin = gated(&gate, Http2Settings::default());
    let gateway = to(&origin);
    let mut http2 = gateway.http2();
    let slow = http2.begin(get("/slow"), true).expect("begun");
    eventually("the slow one", || origin.count() == 1);
    origin.say_goodbye();
    // Some requests may cross the GOAWAY; they are sent again.
    for n in 0..20 {
        let path = format!("/{n}");
        assert_eq!(gateway.client().post(&path, b"x").text(), path);
    }
    assert_eq!(origin.connections().0, 2);
    gate.open();
    assert_eq!(slow.response().expect("an answer").text(), "/slow");
    eventually("the first connection to close", || origin.connections().1 == 1);
    assert!(gateway.records().iter().all(|record| record["status"] == 200));
    // Each request reached the origin once. A request that crossed the GOAWAY had two attempts, but the
    // origin counts one, because it ignores streams after a GOAWAY.
    gateway.reconcile_with(|| {
        let attempts = |record: &Value| record["attempts"].as_u64().map_or(0, |n| n as usize);
        let again: usize = gateway.records().iter().map(|record| attempts(record).saturating_sub(1)).sum();
        origin.count() + again
    });
    assert_eq!(origin.count(), 21);
}

#[test]
fn the_pools_limits_on_connections_hold() {
    let origin = Http2Origin::echo();
    let gateway = with(&origin, "    pool: {max_requests: 3, idle_timeout: 3s}\n");
    let mut client = gateway.client();
    for n in 0..7 {
        assert_eq!(client.get(&format!("/{n}")).status, 200);
    }
    let connections: Vec<_> = origin.requests().iter().map(|request| request.connection).collect();
    assert_eq!(connections, [0, 0, 0, 1, 1, 1, 2]);
    eventually("the idle one to close", || origin.connections() == (3, 0));
    assert_eq!(client.get("/again").status, 200);
    reconcile(&gateway, &origin);
}

#[test]
fn connections_are_kept_ready() {
    let origin = Http2Origin::echo();
    let gateway = with(&origin, "    pool: {warm: 1}\n");
    eventually("a connection without a request", || origin.connections() == (1, 1));
    assert_eq!(gateway.client().get("/").status, 200);
    assert_eq!(origin.connections().0, 1);
    reconcile(&gateway, &origin);
}

#[test]
fn a_reload_keeps_connections_and_another_protocol_ends_them() {
    let origin = Http2Origin::echo();
    let gateway = with(&origin, "    pool: {idle_timeout: 60s}\n");
    let mut client = gateway.client();
    assert_eq!(client.get("/1").status, 200);
    let address = origin.address();
    let config = |endpoint: &str, more: &str| {
        format!(
            "workers: 1\nroutes:\n- {{match: /*, to: up}}\nupstreams:\n  up:\n    endpoints: \"{endpoint}{address}\"\n\
             \x20   pool: {{idle_timeout: 60s}}\n{more}"
        )
    };
    gateway.write_config(&config("h2c://", "    queue: {size: 7}\n    limits: {connections: 9}\n"));
    let before = gateway.stderr().len();
    gateway.signal(tollgate_tests::Signal::HUP);
    eventually("the reload", || gateway.stderr().len() > before);
    assert_eq!(client.get("/2").status, 200);
    assert_eq!(origin.connections(), (1, 1));
    gateway.write_config(&config("", ""));
    gateway.signal(tollgate_tests::Signal::HUP);
    eventually("the connection to close", || origin.connections().1 == 0);
    reconcile(&gateway, &origin);
}

#[test]
fn a_connection_on_which_much_was_cancelled_gets_no_more() {
    let origin = Http2Origin::play(|stream| match stream.request.target.as_str() {
        "/slow" => {
            stream.wait_reset();
        }
        _ => stream.echo(),
    });
    let gateway = to(&origin);
    // Several clients, each of which cancels fewer streams than the gateway tolerates.
    let mut cancelled = 0;
    for _ in 0..5 {
        let mut client = gateway.http2();
        for _ in 0..50 {
            let slow = client.begin(get("/slow"), true).expect("begun");
            eventually("the request", || origin.count() == cancelled + 1);
            slow.reset();
            cancelled += 1;
            // The last cancellation ends the connection, because no other stream is on it.
            let ended = usize::from(cancelled >= 200);
            eventually("the reset", || origin.resets().len() + ended >= cancelled);
        }
    }
    // 200 on the first connection, and the rest on the second.
    eventually("the first to be closed", || origin.connections() == (2, 1));
    assert_eq!(gateway.client().get("/").status, 200);
    assert_eq!(origin.connections(), (2, 1));
}

#[test]
fn an_idle_connection_ends_with_a_goaway() {
    let (sender, ends) = channel();
    let sender = Mutex::new(sender);
    let origin = Origin::play(move |conn| {
        if first_request(conn).is_none() {
            return;
        }
        // `:status: 200` of the static table.
        conn.send(frame(kind::HEADERS, END_HEADERS | END_STREAM, 1, &[0x88]));
        let goodbye = loop {
            match next_frame(conn) {
                Some(got) if got.kind == kind::GOAWAY => break Some(got.payload),
                Some(_) => {}
                None => break None,
            }
        };
        let _ = sender.lock().expect("a sender").send((goodbye, conn.wire().fill()));
    });
    let address = origin.address();
    let gateway = Gateway::start(&format!(
        "routes: [{{match: /*, to: up}}]\nupstreams: {{up: {{endpoints: \"h2c://{address}\", pool: {{idle_timeout: 200ms}}}}}}\n"
    ));
    assert_eq!(gateway.client().get("/").status, 200);
    // No stream of the endpoint was processed, and there was no error.
    assert_eq!(ends.recv_timeout(DEADLINE).expect("an end"), (Some(vec![0; 8]), Ok(false)));
}

#[test]
fn a_connection_that_is_silent_after_a_ping_is_closed_and_its_requests_go_elsewhere() {
    let (sender, pings) = channel();
    let sender = Mutex::new(sender);
    let silent = Origin::play(move |conn| {
        if first_request(conn).is_none() {
            return;
        }
        let started = Instant::now();
        // No request gets an answer, and no PING.
        let mut pinged = None;
        while let Some(got) = next_frame(conn) {
            if got.kind == kind::PING {
                pinged = Some(started.elapsed());
            }
        }
        let _ = sender.lock().expect("a sender").send((pinged, started.elapsed()));
    });
    let good = Http2Origin::play(|stream| {
        if stream.request.target == "/slow" {
            // Much longer than the silence that is allowed: h2 answers the PINGs.
            std::thread::sleep(Duration::from_millis(1500));
        }
        stream.ok("good");
    });
    let gateway = Gateway::start(&format!(
        "workers: 1\nroutes: [{{match: /*, to: up}}]\nupstreams:\n  up:\n    endpoints: [\"h2c://{}\", \"h2c://{}\"]\n\
         \x20   outlier: off\n    pool: {{ping: 300ms}}\n",
        silent.address(),
        good.address()
    ));
    for _ in 0..2 {
        assert_eq!(gateway.client().get("/").text(), "good");
    }
    let (pinged, closed) = pings.recv_timeout(DEADLINE).expect("the connection is closed");
    let pinged = pinged.expect("a PING");
    assert!(
        pinged >= Duration::from_millis(250) && closed >= pinged + Duration::from_millis(250),
        "{pinged:?} {closed:?}"
    );
    let records = gateway.wait_records(2);
    let moved = records.iter().find(|record| record["attempts"] == 2).expect("a request had two attempts");
    assert_eq!(moved["status"], 200);
    let gateway = with(&good, "    pool: {ping: 300ms}\n");
    assert_eq!(gateway.client().get("/slow").text(), "good");
    assert_eq!(gateway.wait_records(1)[0]["attempts"], 1);
}
