//! A second attempt during a slow first one: the losing attempt is a stream that is cancelled.

use h2::Reason;
use tollgate_tests::http2::get;
use tollgate_tests::{Gateway, Http2Origin, eventually};

/// Starts an origin whose `/slow` waits until its stream is cancelled.
fn slow() -> Http2Origin {
    Http2Origin::play(|stream| match stream.request.target.as_str() {
        "/slow" => {
            stream.body();
            assert_eq!(stream.wait_reset(), Some(Reason::CANCEL));
        }
        _ => stream.echo(),
    })
}

#[test]
fn the_head_that_comes_first_wins() {
    let (first, second) = (
        slow(),
        Http2Origin::play(|stream| {
            stream.body();
            stream.interim(103, &[("link", "</a>")]);
            let length = stream.request.body.len();
            stream.head(200, &[], false);
            stream.send(format!("second {length}"), false);
            stream.trailers(&[("x-sum", "7")]);
        }),
    );
    let gateway = Gateway::start(&format!(
        "workers: 1\nroutes:\n- {{match: /*, to: up}}\nupstreams:\n  up:\n    endpoints:\n\
         \x20     - {{address: \"h2c://{}\", weight: 1000}}\n      - {{address: \"h2c://{}\", weight: 1}}\n\
         \x20   hedge: {{after: 1s, methods: [GET, POST]}}\n    retry: {{attempts: 2, budget: 100%}}\n",
        first.address(),
        second.address()
    ));
    let mut http2 = gateway.http2();
    let response = http2.ask(get("/slow"));
    assert_eq!((response.status, response.text().as_str()), (200, "second 0"));
    assert_eq!(response.trailers.get("x-sum"), Some("7"));
    assert_eq!(response.interim.len(), 1);
    assert_eq!(gateway.client().post("/slow", b"body").text(), "second 4");
    eventually("the losers to be cancelled", || first.resets().len() == 2);
    assert_eq!((first.connections().0, second.connections().0), (1, 1), "the connections go on");
    assert!(gateway.records().iter().all(|record| record["attempts"] == 2), "{:?}", gateway.records());
    gateway.reconcile_with(|| first.count() + second.count());
}

#[test]
fn a_quick_response_causes_no_second_attempt() {
    let (first, second) = (slow(), slow());
    let gateway = Gateway::start(&format!(
        "workers: 1\nroutes:\n- {{match: /*, to: up}}\nupstreams:\n  up:\n\
         \x20   endpoints: [\"h2c://{}\", \"h2c://{}\"]\n    hedge: {{after: 10s}}\n",
        first.address(),
        second.address()
    ));
    for n in 0..6 {
        assert_eq!(gateway.client().get(&format!("/{n}")).text(), format!("GET /{n} "));
    }
    gateway.reconcile_with(|| first.count() + second.count());
    assert_eq!(first.count() + second.count(), 6);
}

#[test]
fn a_silent_connection_carries_no_further_request_after_a_timeout() {
    let (first, second) = (slow(), slow());
    let gateway = Gateway::start(&format!(
        "workers: 1\nroutes:\n- {{match: /*, to: up}}\nupstreams:\n  up:\n    endpoints:\n\
         \x20     - {{address: \"h2c://{}\", weight: 1000}}\n      - {{address: \"h2c://{}\", weight: 1}}\n\
         \x20   hedge: {{after: 10s}}\n    timeouts: {{response_header: 300ms}}\n",
        first.address(),
        second.address()
    ));
    assert_eq!(gateway.client().get("/one").text(), "GET /one ");
    let response = gateway.client().get("/slow");
    assert_eq!((response.status, response.header("tollgate-reason")), (504, Some("http_response_timeout")));
    assert_eq!(gateway.client().get("/two").text(), "GET /two ");
    assert_eq!(first.connections().0, 2);
    gateway.reconcile_with(|| first.count() + second.count());
}
