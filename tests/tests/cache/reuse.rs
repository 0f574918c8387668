//! What a hit looks like, and what the gateway reports about it.

use serde_json::json;
use tollgate_tests::{Framing, Origin};

use super::{answering, bodies, gateway, get, numbered, outcomes, with_policies};

#[test]
fn a_fresh_response_answers_without_the_origin() {
    let origin = numbered("Cache-Control: max-age=60\r\nETag: \"a\"\r\nX-Own: 1\r\n");
    let gateway = gateway(&origin, "on");
    let first = get(&gateway, "/", "");
    assert_eq!((first.text().as_str(), first.header("Age")), ("1", None));
    assert!(
        first.header("Cache-Status").is_some_and(|it| it.contains("fwd=uri-miss") && it.contains("stored")),
        "{first:?}"
    );
    let second = get(&gateway, "/", "");
    assert_eq!((second.status, second.text().as_str()), (200, "1"));
    assert_eq!(
        (second.framing, second.header("X-Own"), second.header("ETag")),
        (Framing::Length(1), Some("1"), Some("\"a\""))
    );
    assert!(
        second.header("Age").is_some_and(|age| age.parse::<u32>().is_ok_and(|age| age < 30)),
        "{second:?}"
    );
    assert_eq!(second.headers.all("Date"), [first.header("Date").expect("a date")]);
    assert!(second.header("Cache-Status").is_some_and(|it| it.contains("; hit")), "{second:?}");
    assert_eq!(get(&gateway, "/?x", "").text(), "2", "another URL");
    assert_eq!(origin.count(), 2);
    assert_eq!(outcomes(&gateway, 3), ["miss", "hit", "miss"]);
    let hits = |event: &str| {
        let labels = format!("policy=\"cache\",place=\"route/r\",event=\"{event}\"");
        gateway.metrics().sum("tollgate_policy_events_total", &labels)
    };
    assert_eq!((hits("hit"), hits("miss"), hits("hit_bytes")), (Some(1.0), Some(2.0), Some(1.0)));
}

#[test]
fn a_connection_goes_on_after_a_hit() {
    let origin = numbered("Cache-Control: max-age=60\r\n");
    let gateway = gateway(&origin, "on");
    let mut client = gateway.client();
    assert_eq!(client.get("/").text(), "1");
    // Pipelined: hit, HEAD of a hit, miss, hit.
    let get = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: test.example\r\n\r\n");
    client.send([get("/"), get("/").replace("GET", "HEAD"), get("/other"), get("/")].concat());
    assert_eq!(client.response().text(), "1");
    let head = client.response_to("HEAD");
    assert_eq!((head.status, head.header("Content-Length"), head.body.len()), (200, Some("1"), 0));
    assert_eq!([client.response().text(), client.response().text()], ["2", "1"]);
    let closed = client.ask("GET / HTTP/1.1\r\nHost: test.example\r\nConnection: close\r\n\r\n");
    assert!(closed.says_close() && closed.text() == "1", "{closed:?}");
    client.expect_close();
    let mut old = gateway.client();
    let answer = old.ask("GET / HTTP/1.0\r\nHost: test.example\r\n\r\n");
    assert_eq!((answer.text().as_str(), answer.framing), ("1", Framing::Length(1)));
    old.expect_close();
    assert_eq!(origin.count(), 2);
}

#[test]
fn an_old_response_says_its_age() {
    let origin = numbered("Cache-Control: max-age=600\r\nAge: 100\r\n");
    let gateway = gateway(&origin, "on");
    assert_eq!(get(&gateway, "/", "").header("Age"), Some("100"));
    let second = get(&gateway, "/", "");
    let age: u32 = second.header("Age").and_then(|age| age.parse().ok()).expect("an age");
    assert!((100..130).contains(&age) && second.headers.all("Age").len() == 1, "{second:?}");
}

#[test]
fn a_body_of_unknown_length_gets_a_length() {
    let origin = Origin::fixed(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\
         3\r\nabc\r\n2\r\nde\r\n0\r\nX-Sum: 1\r\n\r\n",
    );
    let gateway = gateway(&origin, "on");
    let first = get(&gateway, "/", "");
    assert_eq!((first.text().as_str(), first.framing), ("abcde", Framing::Chunked));
    let second = get(&gateway, "/", "");
    assert_eq!((second.text().as_str(), second.framing), ("abcde", Framing::Length(5)));
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_large_body_comes_whole_from_the_store() {
    let body: String = (0..400_000_u32)
        .map(|n| char::from(b'a' + (n.wrapping_mul(2_654_435_761) >> 24) as u8 % 26))
        .collect();
    let response = format!(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let origin = Origin::fixed(response);
    let gateway = gateway(&origin, "on");
    for number in 0..3 {
        assert!(get(&gateway, "/", "").text() == body, "response {number}");
    }
    let mut client = gateway.small_client(4096);
    assert!(client.ask("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").text() == body, "a slow client");
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_request_chooses_by_vary() {
    let origin = answering(|number, request| {
        let language = request.headers.get("Accept-Language").unwrap_or("none").to_owned();
        let body = format!("{language} {number}");
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nVary: Accept-Language\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    });
    let gateway = gateway(&origin, "on");
    let text = |lines: &str| get(&gateway, "/", lines).text();
    assert_eq!(text("Accept-Language: de\r\n"), "de 1");
    assert_eq!(text("Accept-Language: en\r\n"), "en 2");
    assert_eq!([text("Accept-Language: de\r\n"), text("Accept-Language: en\r\n")], ["de 1", "en 2"]);
    assert_eq!([text(""), text("")], ["none 3", "none 3"]);
}

#[test]
fn encodings_are_told_apart_by_what_a_client_accepts() {
    let origin = numbered("Cache-Control: max-age=60\r\nVary: Accept-Encoding\r\n");
    let gateway = gateway(&origin, "on");
    let text = |accepted: &str| get(&gateway, "/", &format!("Accept-Encoding: {accepted}\r\n")).text();
    assert_eq!([text("gzip, br"), text("br;q=0.5,gzip")], ["1", "1"]);
    assert_eq!([text("gzip"), text("gzip;q=1.0")], ["2", "2"]);
    assert_eq!(text("identity"), "3");
}

#[test]
fn the_key_counts_what_is_listed() {
    let origin = numbered("Cache-Control: max-age=60\r\n");
    let gateway = gateway(&origin, "{key: {query_without: [utm_*], headers: X-Tenant, cookies: lang}}");
    let text = |target: &str, lines: &str| get(&gateway, target, lines).text();
    assert_eq!([text("/?a=1&utm_source=x", ""), text("/?a=1", ""), text("/?a=2", "")], ["1", "1", "2"]);
    assert_eq!([text("/?a=1", "X-Tenant: t\r\n"), text("/?a=1", "x-tenant: t\r\n")], ["3", "3"]);
    assert_eq!(
        [text("/?a=1", "Cookie: lang=de; s=1\r\n"), text("/?a=1", "Cookie: s=2; lang=de\r\n")],
        ["4", "4"]
    );
}

#[test]
fn policies_change_each_response_and_not_what_is_stored() {
    let origin = numbered("Cache-Control: max-age=60\r\n");
    let gateway = with_policies(
        &origin,
        "cache: on, headers: {response: {set: {X-Client: \"{client}\"}, remove: X-Nothing}}, security_headers: on",
        "",
    );
    for _ in 0..2 {
        let response = get(&gateway, "/", "");
        assert_eq!(
            (response.text().as_str(), response.headers.all("X-Client")),
            ("1", vec!["127.0.0.1"]),
            "{response:?}"
        );
        assert_eq!(response.headers.all("X-Frame-Options"), ["DENY"]);
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_stored_response_is_compressed_for_who_accepts_it() {
    let text = "a line of text\n".repeat(1000);
    let origin = Origin::fixed(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n{text}",
        text.len()
    ));
    let gateway = with_policies(&origin, "cache: on, compression: {encodings: gzip}", "");
    for accepts in ["gzip", "identity", "gzip", "identity"] {
        let response = get(&gateway, "/", &format!("Accept-Encoding: {accepts}\r\n"));
        match accepts {
            "gzip" => {
                assert!(response.header("Content-Encoding") == Some("gzip") && response.body.len() < 1000);
            }
            _ => assert!(response.text() == text, "{accepts}"),
        }
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn only_if_cached_asks_the_origin_for_nothing() {
    let origin = numbered("Cache-Control: max-age=60\r\n");
    let gateway = gateway(&origin, "on");
    let only = "Cache-Control: only-if-cached\r\n";
    assert_eq!(get(&gateway, "/", only).status, 504);
    assert_eq!(origin.count(), 0);
    get(&gateway, "/", "");
    assert_eq!((get(&gateway, "/", only).text().as_str(), origin.count()), ("1", 1));
}

#[test]
fn a_lifetime_of_the_policy_replaces_that_of_the_response() {
    let origin = answering(|number, request| {
        let status = request.target.trim_start_matches('/');
        format!(
            "HTTP/1.1 {status} X\r\nCache-Control: max-age=0\r\nContent-Length: {}\r\n\r\n{number}",
            super::digits(number)
        )
    });
    let gateway = gateway(&origin, "{ttl: {200: 1m, 4xx: 30s}}");
    let text = |target: &str| get(&gateway, target, "").text();
    assert_eq!(
        [text("/200"), text("/200"), text("/404"), text("/404"), text("/503"), text("/503")],
        ["1", "1", "2", "2", "3", "4"]
    );
}

#[test]
fn a_default_lifetime_is_for_responses_without_one() {
    let origin = numbered("");
    let without = gateway(&origin, "on");
    assert_eq!(bodies(&without, "", 2), ["1", "2"]);
    let with = gateway(&origin, "{default_ttl: 1m}");
    assert_eq!(bodies(&with, "", 2), ["3", "3"]);
}

#[test]
fn the_api_and_the_command_show_what_is_stored() {
    let origin = numbered("Cache-Control: max-age=60\r\n");
    let gateway = gateway(&origin, "on");
    assert_eq!(bodies(&gateway, "", 3), ["1", "1", "1"]);
    let state = tollgate_tests::api::json_of(&tollgate_tests::api::call(&gateway, "GET", "/cache", "", ""));
    assert_eq!(
        (&state["objects"], &state["hits"], &state["misses"]),
        (&json!(1), &json!(2), &json!(1)),
        "{state}"
    );
    assert!(state["bytes"].as_u64() > Some(0) && state["hit_ratio"].as_f64() > Some(0.6), "{state}");
}

#[test]
fn explain_says_what_the_cache_would_do() {
    let file = std::env::temp_dir().join(format!("tollgate-cache-{}.yaml", std::process::id()));
    let text = "listen: 127.0.0.1:8080\nroutes: [{name: r, to: 'a:80', policies: {cache: {bypass: {cookies: session}}}}]\n";
    std::fs::write(&file, text).expect("the file is written");
    let explained = |method: &str, fields: &[&str]| {
        let mut words = vec!["explain", file.to_str().expect("text"), method, "http://h/x?y"];
        fields.iter().for_each(|field| words.extend(["-H", field]));
        tollgate_tests::tollgate(&words).out
    };
    for (method, fields, words) in [
        ("GET", &[][..], "; key http://h/x?y, stores what allows it): continues"),
        ("GET", &["Authorization: Basic x"][..], "only with a response that is public"),
        ("GET", &["Cookie: session=1"][..], "bypassed: a condition of `bypass` holds"),
        ("POST", &[][..], "removes what is stored for http://h/x?y if the request succeeds"),
    ] {
        let out = explained(method, fields);
        assert!(out.contains(words), "{method} {fields:?}: {out}");
        assert!(out.contains("stores    in memory, at most 256 MiB\n"), "{out}");
    }
    let disk = "cache: {memory: 16MiB, disk: {path: /tmp/tollgate-cache, size: 1GiB}}\n";
    std::fs::write(&file, format!("{text}{disk}")).expect("the file is written");
    let out = explained("GET", &[]);
    assert!(out.contains("16 MiB; on disk in /tmp/tollgate-cache, at most 1 GiB"), "{out}");
    std::fs::remove_file(file).expect("removed");
}
