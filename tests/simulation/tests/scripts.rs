//! Faults that seeds have found, one case each.

use tollgate_net::simulated::{NetworkConditions, sleep};
use tollgate_simulation::message::Framing;
use tollgate_simulation::script::{ORIGIN, client, play};
use tollgate_simulation::wire::Broken;

fn plan(route: &str) -> String {
    format!("listen: 10.0.0.1:80\nadmin: off\nroutes: [{{match: /*, to: \"{ORIGIN}\"{route}}}]\n")
}

/// Returns a buffer so small that a head cannot be sent at once.
fn narrow() -> NetworkConditions {
    NetworkConditions { capacity: (64, 64), pieces: 0, ..NetworkConditions::default() }
}

/// The head of a request with an empty collected body entered the bytes that a retry sends. The second
/// attempt began with the end of the first one's head.
#[test]
fn a_retried_request_starts_with_its_head() {
    let lines = play(1, narrow(), &plan(", buffer: {request: on}"), |origin| async move {
        let (wire, mut answers) = client().await;
        wire.write(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("sent");
        let (there, mut requests) = origin.accept().await;
        requests.head().await.expect("a request");
        there.write(b"HTTP/1.1 204 No Content\r\n\r\n").await.expect("sent");
        assert_eq!(answers.head().await.expect("an answer").status(), 204);
        wire.write(b"PUT /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
            .await
            .expect("sent");
        // The origin reads a part of it, and then nothing more.
        requests.wait().await.expect("some bytes");
        there.close(true);
        let (there, mut requests) = origin.accept().await;
        let head = requests.head().await.expect("a request");
        assert_eq!(head.start, "PUT /2 HTTP/1.1");
        there.write(b"HTTP/1.1 204 No Content\r\n\r\n").await.expect("sent");
        assert_eq!(answers.head().await.expect("an answer").status(), 204);
    });
    assert_eq!(lines.iter().map(|line| line.attempts).collect::<Vec<_>>(), [1, 2]);
}

/// The kernel reported a reset while the gateway wrote the request. The gateway took it for the orderly end
/// of a response that ends with its connection.
#[test]
fn a_reset_is_no_end_of_a_body() {
    for seed in 0..20 {
        let lines = play(seed, narrow(), &plan(""), |origin| async move {
            let (wire, mut answers) = client().await;
            wire.write(b"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n").await.expect("sent");
            let (there, mut requests) = origin.accept().await;
            requests.head().await.expect("a request");
            there.write(b"HTTP/1.1 200 OK\r\n\r\npart").await.expect("sent");
            let head = answers.head().await.expect("a head");
            assert_eq!(head.response_framing("POST"), Ok(Framing::Chunked));
            there.write(b"of what").await.expect("sent");
            there.close(true);
            tollgate_net::spawn(async move {
                // Until the gateway closes the connection.
                while wire.write(&[b'z'; 64]).await.is_ok() {
                    sleep(std::time::Duration::from_micros(10)).await;
                }
            });
            let body = answers.body(Framing::Chunked, |_| Ok(())).await;
            assert!(matches!(body, Err(Broken::Short | Broken::Reset)), "{body:?}");
        });
        assert_eq!(lines[0].reason, "http_response_incomplete");
    }
}

/// The kernel reported a reset while the gateway wrote to the endpoint of a stream. The gateway passed it on as an
/// orderly end.
#[test]
fn a_reset_is_no_end_of_a_stream() {
    let text =
        format!("listen: {{bind: 10.0.0.1:80, protocol: tcp, to: \"{ORIGIN}\"}}\nadmin: off\nroutes: []\n");
    for seed in 0..20 {
        let lines = play(seed, narrow(), &text, |origin| async move {
            let (wire, mut back) = client().await;
            wire.write(b"begin").await.expect("sent");
            let (there, mut requests) = origin.accept().await;
            requests.wait().await.expect("some bytes");
            there.write(b"part").await.expect("sent");
            back.wait().await.expect("some bytes");
            there.close(true);
            // Until the gateway closes the connection.
            while wire.write(&[b'z'; 64]).await.is_ok() {
                sleep(std::time::Duration::from_micros(10)).await;
            }
        });
        assert_eq!(lines[0].reason, "connection_terminated", "seed {seed}");
    }
}

/// A request waited in the queue longer than `timeouts.connect`. The gateway answered that the endpoint could
/// not be reached, and counted a failure against it.
#[test]
fn the_queue_is_not_the_endpoints_time() {
    let text = format!(
        "listen: 10.0.0.1:80\nadmin: off\ntimeouts: {{connect: 100ms}}\nroutes: [{{match: /*, to: one}}]\n\
         upstreams: {{one: {{endpoints: \"{ORIGIN}\", limits: {{connections: 1}}, queue: {{timeout: 1m}}}}}}\n"
    );
    let lines = play(1, NetworkConditions::default(), &text, |origin| async move {
        let (first, mut first_answers) = client().await;
        first.write(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("sent");
        let (there, mut requests) = origin.accept().await;
        requests.head().await.expect("a request");
        let (second, mut second_answers) = client().await;
        second.write(b"GET /2 HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("sent");
        sleep(std::time::Duration::from_secs(10)).await;
        there.write(b"HTTP/1.1 204 No Content\r\n\r\n").await.expect("sent");
        assert_eq!(first_answers.head().await.expect("an answer").status(), 204);
        assert_eq!(requests.head().await.expect("a request").word(1), "/2");
        there.write(b"HTTP/1.1 204 No Content\r\n\r\n").await.expect("sent");
        assert_eq!(second_answers.head().await.expect("an answer").status(), 204);
    });
    assert_eq!(lines.iter().map(|line| line.attempts).collect::<Vec<_>>(), [1, 1]);
}

/// A request's head began under a plan with a look-up and ended under a plan without. The request found no
/// endpoints, because the gateway had already dropped the endpoints of the look-up.
#[test]
fn a_head_that_takes_its_time_meets_the_plan_of_its_end() {
    let with = |one: &str| {
        format!(
            "listen: 10.0.0.1:80\nadmin: off\nroutes: [{{match: /*, to: one}}]\nupstreams: {{one: {{{one}}}}}\n"
        )
    };
    let (before, after) =
        (with("discover: srv://_one._tcp.internal"), with(&format!("endpoints: \"{ORIGIN}\"")));
    let lines = play(1, NetworkConditions::default(), &before, move |origin| async move {
        let (wire, mut answers) = client().await;
        wire.write(b"GET /1 HTTP/1.1\r\n").await.expect("sent");
        sleep(std::time::Duration::from_secs(1)).await;
        origin.reload(&after).await;
        wire.write(b"Host: a\r\n\r\n").await.expect("sent");
        let (there, mut requests) = origin.accept().await;
        assert_eq!(requests.head().await.expect("a request").word(1), "/1");
        there.write(b"HTTP/1.1 204 No Content\r\n\r\n").await.expect("sent");
        assert_eq!(answers.head().await.expect("an answer").status(), 204);
    });
    assert_eq!(lines[0].status, 204);
}

/// After an interim response no other attempt is possible. When the endpoint then closed, the gateway skipped
/// the request's body twice: the next request lost that many bytes of its beginning.
#[test]
fn a_body_is_passed_over_once() {
    let lines = play(
        1,
        NetworkConditions { pieces: 0, ..NetworkConditions::default() },
        &plan(""),
        |origin| async move {
            let (wire, mut answers) = client().await;
            let two = b"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n123456789GET /2 HTTP/1.1\r\nHost: a\r\n\r\n";
            wire.write(two).await.expect("sent");
            let (there, mut requests) = origin.accept().await;
            requests.head().await.expect("a request");
            requests.body(Framing::Length(9), |_| Ok(())).await.expect("its body");
            there.write(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n").await.expect("sent");
            assert_eq!(answers.head().await.expect("an interim answer").status(), 103);
            there.close(true);
            let broken = answers.head().await.expect("an answer");
            assert_eq!(broken.status(), 502);
            let framing = broken.response_framing("POST").expect("a length");
            answers.body(framing, |_| Ok(())).await.expect("its body");
            let (there, mut requests) = origin.accept().await;
            assert_eq!(requests.head().await.expect("a request").start, "GET /2 HTTP/1.1");
            there.write(b"HTTP/1.1 204 No Content\r\n\r\n").await.expect("sent");
            assert_eq!(answers.head().await.expect("an answer").status(), 204);
        },
    );
    assert_eq!(lines.iter().map(|line| line.status).collect::<Vec<_>>(), [502, 204]);
}
