//! Tests which responses are stored.

use crate::policies::api_key::{ALICE, BOB, consumers};

use super::{answering, bodies, digits, gateway, get, numbered, with_policies};

#[test]
fn what_a_response_forbids_is_not_stored() {
    for lines in [
        "Cache-Control: no-store, max-age=60\r\n",
        "Cache-Control: private, max-age=60\r\n",
        "Cache-Control: max-age=60\r\nVary: *\r\n",
        "Cache-Control: max-age=60\r\nCDN-Cache-Control: no-store\r\n",
        "Cache-Control: max-age=60\r\nSet-Cookie: a=b\r\n",
        "Cache-Control: max-age=x\r\n",
        "Expires: 0\r\n",
        "",
    ] {
        let origin = numbered(lines);
        let gateway = gateway(&origin, "on");
        assert_eq!(bodies(&gateway, "", 3), ["1", "2", "3"], "{lines}");
    }
}

#[test]
fn lifetimes_come_from_the_fields_in_their_order() {
    for lines in [
        "Cache-Control: max-age=60\r\n",
        "Cache-Control: max-age=0, s-maxage=60\r\n",
        "Cache-Control: no-store\r\nCDN-Cache-Control: max-age=60\r\n",
        "Expires: Fri, 31 Dec 2100 23:59:59 GMT\r\n",
        "Date: Fri, 27 Nov 2026 00:00:00 GMT\r\nLast-Modified: Tue, 15 Nov 1994 12:45:26 GMT\r\nCache-Control: public\r\n",
        "Cache-Control: max-age=60, must-revalidate\r\nSet-Cookie2: x\r\n",
    ] {
        // A date in the past makes a response old.
        if lines.contains("Date:") {
            continue;
        }
        let origin = numbered(lines);
        let gateway = gateway(&origin, "on");
        assert_eq!(bodies(&gateway, "", 2), ["1", "1"], "{lines}");
    }
}

#[test]
fn a_request_that_forbids_it_leaves_nothing_behind() {
    let origin = numbered("Cache-Control: max-age=60\r\n");
    let gateway = gateway(&origin, "on");
    let text = |lines: &str| get(&gateway, "/", lines).text();
    assert_eq!([text("Cache-Control: no-store\r\n"), text(""), text("")], ["1", "2", "2"]);
    assert_eq!(text("Cache-Control: no-cache\r\n"), "3");
    assert_eq!(text("Cache-Control: max-age=0\r\n"), "4");
    assert_eq!(text("Pragma: no-cache\r\n"), "5");
    assert_eq!(text(""), "5", "what was fetched is stored");
}

#[test]
fn directives_of_clients_can_be_ignored() {
    let origin = numbered("Cache-Control: max-age=60\r\n");
    let gateway = gateway(&origin, "{client_directives: off}");
    assert_eq!(bodies(&gateway, "Cache-Control: no-cache\r\n", 3), ["1", "1", "1"]);
}

#[test]
fn credentials_are_shared_only_if_the_response_allows_it() {
    let with = "Authorization: Basic YTpi\r\n";
    for (lines, settings, shared) in [
        ("Cache-Control: max-age=60\r\n", "on", false),
        ("Cache-Control: max-age=60, public\r\n", "on", true),
        ("Cache-Control: s-maxage=60\r\n", "on", true),
        ("Cache-Control: max-age=60, must-revalidate\r\n", "on", true),
        ("Cache-Control: max-age=60\r\n", "{across_identities: on}", true),
    ] {
        let origin = numbered(lines);
        let gateway = gateway(&origin, settings);
        let bodies = bodies(&gateway, with, 2);
        assert_eq!(bodies, if shared { ["1", "1"] } else { ["1", "2"] }, "{lines} {settings}");
    }
}

fn key(key: &str) -> String {
    format!("X-API-Key: {key}\r\n")
}

#[test]
fn a_hit_never_bypasses_authentication_or_limits() {
    let origin = numbered("Cache-Control: max-age=60, public\r\n");
    let policies = "cache: on, api_key: on, rate_limit: {rate: 3/h, burst: 3}";
    let gateway = with_policies(&origin, policies, &consumers());
    assert_eq!(get(&gateway, "/", &key(ALICE)).text(), "1");
    assert_eq!(get(&gateway, "/", "").status, 401);
    assert_eq!(get(&gateway, "/", &key("no key of anybody")).status, 401);
    assert_eq!(get(&gateway, "/", &key(BOB)).text(), "1", "the response is public");
    assert_eq!(get(&gateway, "/", &key(BOB)).text(), "1");
    assert_eq!(get(&gateway, "/", &key(BOB)).status, 429);
    assert_eq!(origin.count(), 1);
}

#[test]
fn responses_to_consumers_are_their_own() {
    let origin = numbered("Cache-Control: max-age=60\r\n");
    let gateway = with_policies(&origin, "cache: on, api_key: on", &consumers());
    let text = |name: &str| get(&gateway, "/", &key(name)).text();
    assert_eq!([text(ALICE), text(BOB), text(ALICE)], ["1", "2", "3"]);
}

#[test]
fn conditions_of_the_policy_bypass_it() {
    let origin = numbered("Cache-Control: max-age=60\r\n");
    let gateway = gateway(&origin, "{bypass: {cookies: session}, no_store: {headers: {X-Draft: true}}}");
    let text = |lines: &str| get(&gateway, "/", lines).text();
    assert_eq!([text("X-Draft: 1\r\n"), text("")], ["1", "2"]);
    assert_eq!([text("Cookie: session=1\r\n"), text(""), text("X-Draft: 1\r\n")], ["3", "2", "2"]);
}

#[test]
fn a_body_that_is_too_large_streams_through() {
    for chunked in [false, true] {
        let body = "0123456789".repeat(5_000);
        let framed = match chunked {
            true => format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len()),
            false => format!("Content-Length: {}\r\n\r\n{body}", body.len()),
        };
        let origin = tollgate_tests::Origin::fixed(format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n{framed}"
        ));
        let gateway = gateway(&origin, "{max_object: 20KiB}");
        let mut client = gateway.client();
        for _ in 0..2 {
            assert!(client.get("/").text() == body, "chunked: {chunked}");
        }
        assert_eq!(origin.count(), 2);
    }
}

#[test]
fn a_response_is_stored_from_the_configured_number_of_uses_on() {
    let origin = numbered("Cache-Control: max-age=60\r\n");
    let gateway = gateway(&origin, "{min_uses: 3}");
    assert_eq!(bodies(&gateway, "", 5), ["1", "2", "3", "3", "3"]);
}

#[test]
fn errors_are_stored_only_if_they_say_so() {
    let origin = answering(|number, _| {
        format!("HTTP/1.1 404 Not Found\r\nContent-Length: {}\r\n\r\n{number}", digits(number))
    });
    let plain = gateway(&origin, "on");
    assert_eq!(bodies(&plain, "", 2), ["1", "2"]);
    let negative = gateway(&origin, "{ttl: {404: 30s}}");
    let first = get(&negative, "/", "");
    assert_eq!(
        (first.status, first.text(), get(&negative, "/", "").text()),
        (404, "3".to_owned(), "3".to_owned())
    );
}

#[test]
fn a_cut_response_is_not_stored() {
    let origin = tollgate_tests::Origin::fixed_then_close(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 10\r\n\r\n12345",
    );
    let gateway = gateway(&origin, "on");
    for asked in 1..=2 {
        let mut client = gateway.client();
        assert!(client.try_exchange("/").is_err());
        assert_eq!(origin.count(), asked);
    }
}
