//! Tests of the control port.

use crate::client::{GET, LAST, connect, one, rest, say, start};
use std::io::Write;
use tollgate_lab_origin::{Counters, Recorded};

#[test]
fn the_control_port_tells_the_counts_and_is_not_among_them() {
    let origin = start(|settings| settings.threads = 3);
    for _ in 0..20 {
        say(origin.address(), LAST);
    }
    let ask = |text: &str| say(origin.control(), text);
    for _ in 0..2 {
        let answer = ask("GET /counters HTTP/1.0\r\n\r\n");
        let (_, json) = answer.split_once("\r\n\r\n").unwrap();
        let counters: Counters = serde_json::from_str(json).unwrap();
        let expected =
            Counters { connections: 20, requests: 20, closed_by_request: 20, ..Counters::default() };
        assert_eq!(counters, expected);
    }
    assert!(ask("GET /weather HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(ask("nonsense\r\n\r\n").starts_with("HTTP/1.1 400"));
    // A silent client must not block the others for long.
    let _silent = connect(origin.control());
    assert!(ask("GET /counters HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
}

#[test]
fn received_heads_are_listed_by_connection_and_forgotten_on_demand() {
    let origin = start(|settings| settings.record = 3);
    let recorded = || -> Vec<Recorded> {
        let answer = say(origin.control(), "GET /recorded HTTP/1.1\r\n\r\n");
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    };
    let mut first = connect(origin.address());
    first.write_all(GET.repeat(2).as_bytes()).unwrap();
    one(&mut first, "01");
    one(&mut first, "01");
    say(origin.address(), "POST /p?q HTTP/1.0\r\nX-Id:  7\r\nContent-Length: 2\r\n\r\nhi");
    first.write_all(LAST.as_bytes()).unwrap();
    rest(&mut first);
    let all = recorded();
    let places: Vec<_> =
        all.iter().map(|it| (it.connection, it.version.as_str(), it.target.as_str())).collect();
    assert_eq!(places, [(1, "HTTP/1.1", "/"), (2, "HTTP/1.0", "/p?q"), (1, "HTTP/1.1", "/")]);
    let headers = [("X-Id", "7"), ("Content-Length", "2")];
    assert_eq!(all[1].headers, headers.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(all[1].method, "POST");
    assert_eq!(all, origin.recorded());
    assert!(say(origin.control(), "POST /reset HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
    assert!(recorded().is_empty());
    assert_eq!(origin.counters().requests, 4, "counters go on");
}
