//! Stale responses: while they are fetched again, and in place of errors (RFC 5861).

use tollgate_tests::{Gate, eventually};

use super::{answering, digits, gateway, get, outcomes};

#[test]
fn a_stale_response_is_served_while_it_is_fetched_again() {
    let gate = Gate::new();
    let origin = {
        let gate = gate.clone();
        answering(move |number, _| {
            if number == 2 {
                gate.wait();
            }
            let age = if number == 1 { 0 } else { 60 };
            format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age={age}, stale-while-revalidate=60\r\nContent-Length: {}\r\n\r\n{number}",
                digits(number)
            )
        })
    };
    let gateway = gateway(&origin, "on");
    for _ in 0..4 {
        assert_eq!(get(&gateway, "/", "").text(), "1", "the origin has not answered again");
    }
    eventually("one request in the background", || origin.count() == 2);
    gate.open();
    eventually("the new response", || get(&gateway, "/", "").text() == "2");
    assert_eq!(origin.count(), 2);
    let shown = |record: &serde_json::Value| record["cache_status"].as_str().map(str::to_owned);
    eventually("the first records", || gateway.records().len() >= 4);
    let outcomes: Vec<_> = gateway.records().iter().take(4).filter_map(shown).collect();
    assert_eq!(outcomes, ["miss", "stale", "stale", "stale"]);
}

#[test]
fn a_stale_response_replaces_an_error() {
    let origin = answering(|number, _| match number {
        1 => {
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=0, stale-if-error=60\r\nContent-Length: 4\r\n\r\ngood"
                .to_owned()
        }
        2 => "HTTP/1.1 503 X\r\nContent-Length: 3\r\n\r\nbad".to_owned(),
        // The connection ends without a response.
        3 => String::new(),
        _ => "HTTP/1.1 404 X\r\nContent-Length: 4\r\n\r\ngone".to_owned(),
    });
    let gateway = gateway(&origin, "on");
    let mut client = gateway.client();
    for _ in 0..2 {
        let response = client.get("/");
        assert_eq!((response.status, response.text().as_str()), (200, "good"));
    }
    assert_eq!(outcomes(&gateway, 2), ["miss", "stale"]);
    drop(origin);
    let response = client.get("/");
    assert_eq!((response.status, response.text().as_str()), (200, "good"), "no connection");
}

#[test]
fn the_policy_gives_stale_times_to_responses_without_them() {
    let origin = answering(|number, _| match number {
        1 => "HTTP/1.1 200 OK\r\nCache-Control: max-age=0\r\nETag: \"a\"\r\nContent-Length: 4\r\n\r\ngood"
            .to_owned(),
        _ => "HTTP/1.1 500 X\r\nContent-Length: 3\r\n\r\nbad".to_owned(),
    });
    let with = gateway(&origin, "{stale_if_error: 1m}");
    assert_eq!([get(&with, "/", "").status, get(&with, "/", "").status], [200, 200]);
}

#[test]
fn must_revalidate_forbids_stale_responses() {
    let origin = answering(|number, _| {
        match number {
        1 => "HTTP/1.1 200 OK\r\nCache-Control: max-age=0, must-revalidate\r\nETag: \"a\"\r\nContent-Length: 4\r\n\r\ngood".to_owned(),
        _ => "HTTP/1.1 500 X\r\nContent-Length: 3\r\n\r\nbad".to_owned(),
    }
    });
    let gateway = gateway(&origin, "{stale_if_error: 1m, stale_while_revalidate: 1m}");
    assert_eq!([get(&gateway, "/", "").status, get(&gateway, "/", "").status], [200, 500]);
}
