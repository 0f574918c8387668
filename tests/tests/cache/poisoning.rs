//! Attempts to store a response that another client should not get.

use super::{answering, ask, digits, gateway, get, with_policies};

#[test]
fn a_get_with_a_body_is_neither_answered_nor_stored() {
    let origin = answering(|number, request| {
        let body = format!("{number} {}", String::from_utf8_lossy(&request.body));
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    });
    let gateway = gateway(&origin, "on");
    assert_eq!(ask(&gateway, "GET", "/", "Content-Length: 0\r\n").text(), "1 ");
    let mut client = gateway.client();
    for number in 2..=3 {
        let fat = client.ask("GET / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 4\r\n\r\nevil");
        assert_eq!(fat.text(), format!("{number} evil"));
    }
    assert_eq!(get(&gateway, "/", "").text(), "1 ");
    let fat = client.ask(
        "GET /other HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n",
    );
    assert_eq!((fat.text(), get(&gateway, "/other", "").text()), ("4 evil".to_owned(), "5 ".to_owned()));
}

#[test]
fn a_forwarded_host_of_a_stranger_reaches_neither_origin_nor_key() {
    let origin = answering(|number, request| {
        let body = format!("{number} {}", request.headers.get("X-Forwarded-Host").unwrap_or("-"));
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    });
    let gateway = gateway(&origin, "on");
    let poisoned = get(
        &gateway,
        "/",
        "X-Forwarded-Host: evil.example\r\nX-Forwarded-Proto: https\r\nForwarded: host=evil.example\r\n",
    );
    assert!(!poisoned.text().contains("evil"), "{poisoned:?}");
    assert_eq!((get(&gateway, "/", "").text(), origin.count()), (poisoned.text(), 1));
}

#[test]
fn an_announced_host_of_a_trusted_proxy_is_a_part_of_the_key() {
    let origin = answering(|number, request| {
        let body = format!("{number} {}", request.headers.get("X-Forwarded-Host").unwrap_or("-"));
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    });
    let gateway = with_policies(&origin, "cache: on", "forwarded: {trusted_proxies: 127.0.0.1}");
    assert_eq!(get(&gateway, "/", "X-Forwarded-Host: one.example\r\n").text(), "1 one.example");
    assert_eq!(get(&gateway, "/", "X-Forwarded-Host: two.example\r\n").text(), "2 two.example");
    assert_eq!(get(&gateway, "/", "X-Forwarded-Host: one.example\r\n").text(), "1 one.example");
}

#[test]
fn a_path_with_a_suffix_is_another_key_and_stays_private() {
    let origin = answering(|number, request| {
        // Some applications ignore everything after a path that they know.
        let rule = if request.target.starts_with("/account") { "private" } else { "max-age=60" };
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: {rule}\r\nContent-Length: {}\r\n\r\n{number}",
            digits(number)
        )
    });
    let gateway = gateway(&origin, "on");
    let targets = ["/account/x.css", "/account/x.css", "/account%2Fx.css", "/x/../account/x.css"];
    let responses = targets.map(|target| get(&gateway, target, ""));
    let statuses = responses.each_ref().map(|response| response.status);
    assert_eq!(statuses, [200, 200, 400, 200], "an encoded slash is ambiguous");
    assert_eq!([0, 1, 3].map(|at| responses[at].text()), ["1", "2", "3"]);
    let before = origin.count();
    // Both spellings of one path are one key, because the path is normalised before both.
    let (plain, encoded) = (get(&gateway, "/public/x", ""), get(&gateway, "/%70ublic/./x", ""));
    assert_eq!((plain.text(), origin.count()), (encoded.text(), before + 1));
}

#[test]
fn a_method_override_does_not_change_what_a_url_gives() {
    let origin = answering(|number, request| {
        let body = format!("{number} {}", request.headers.get("X-HTTP-Method-Override").unwrap_or("-"));
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    });
    let gateway = gateway(&origin, "on");
    assert_eq!(get(&gateway, "/", "X-HTTP-Method-Override: DELETE\r\n").text(), "1 DELETE");
    assert_eq!(get(&gateway, "/", "").text(), "2 -", "a request with such a field stores nothing");
    assert_eq!(get(&gateway, "/", "X-HTTP-Method-Override: DELETE\r\n").text(), "3 DELETE");
}

#[test]
fn a_response_that_was_split_stores_nothing_for_another_url() {
    // The endpoint sends a second response that no request asked for.
    let origin = tollgate_tests::Origin::play(|conn| {
        while let Some(request) = conn.request() {
            let own = format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 4\r\n\r\n{:.4}",
                request.target
            );
            let more = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 4\r\n\r\nevil";
            if !conn.send([own.as_str(), if request.target == "/spl" { more } else { "" }].concat()) {
                return;
            }
        }
    });
    let gateway = gateway(&origin, "on");
    for target in ["/spl", "/one", "/spl", "/one", "/two"] {
        assert_eq!(get(&gateway, target, "").text(), target);
    }
}

#[test]
fn an_error_of_the_gateway_is_never_stored() {
    let origin = tollgate_tests::Origin::play(|conn| {
        if conn.index() == 0 {
            conn.request();
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n");
            return;
        }
        while conn.request().is_some() {
            conn.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let gateway = gateway(&origin, "{ttl: {5xx: 1m}, default_ttl: 1m}");
    assert_eq!(get(&gateway, "/", "").status, 502);
    assert_eq!(get(&gateway, "/", "").text(), "ok");
}

#[test]
fn two_routes_with_one_url_do_not_share_it() {
    let origin = super::numbered("Cache-Control: max-age=60\r\n");
    let gateway = tollgate_tests::Gateway::start(&format!(
        "policies: {{cache: on}}\nroutes:\n\
         - {{name: beta, match: {{path: \"/*\", headers: {{X-Beta: \"1\"}}}}, to: \"{0}\"}}\n\
         - {{name: plain, match: \"/*\", to: \"{0}\"}}\n",
        origin.address()
    ));
    let text = |lines: &str| get(&gateway, "/", lines).text();
    assert_eq!([text("X-Beta: 1\r\n"), text(""), text("X-Beta: 1\r\n"), text("")], ["1", "2", "1", "2"]);
}

#[test]
fn a_field_that_is_no_part_of_the_key_reaches_only_its_own_client() {
    // The endpoint reflects an unkeyed field, and says so in `Vary`.
    let origin = answering(|number, request| {
        let body = format!("{number} {}", request.headers.get("X-Forwarded-Prefix").unwrap_or("-"));
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nVary: X-Forwarded-Prefix\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    });
    let gateway = with_policies(&origin, "cache: on", "forwarded: {keep: X-Forwarded-Prefix}");
    assert_eq!(get(&gateway, "/", "X-Forwarded-Prefix: /evil\r\n").text(), "1 /evil");
    assert_eq!(get(&gateway, "/", "").text(), "2 -");
    // A proxy field that is removed reaches no endpoint.
    let plain = gateway_without_kept_fields(&origin);
    assert_eq!(get(&plain, "/", "X-Forwarded-Prefix: /evil\r\n").text(), "3 -");
    assert_eq!(get(&plain, "/", "").text(), "3 -");
}

fn gateway_without_kept_fields(origin: &tollgate_tests::Origin) -> tollgate_tests::Gateway {
    gateway(origin, "on")
}

#[test]
fn an_error_that_one_odd_request_causes_is_not_stored() {
    // The endpoint accepts smaller heads than the gateway, and refuses characters that the gateway passes on.
    let origin = answering(|number, request| {
        let is_odd = request.headers.get("X-Oversized").is_some_and(|value| value.len() > 4096)
            || request.headers.get("X-Meta").is_some_and(|value| value.contains('\u{80}'));
        let status = if is_odd { "400 Bad Request" } else { "200 OK" };
        format!("HTTP/1.1 {status}\r\nETag: \"a\"\r\nContent-Length: {}\r\n\r\n{number}", digits(number))
    });
    for settings in ["on", "{default_ttl: 1m}"] {
        let gateway = gateway(&origin, settings);
        let odd = get(&gateway, "/", &format!("X-Oversized: {}\r\n", "x".repeat(6000)));
        assert_eq!(odd.status, 400);
        let plain = get(&gateway, "/", "");
        assert_eq!(plain.status, 200, "{settings}: {plain:?}");
    }
}

#[test]
fn a_hidden_parameter_is_a_part_of_the_key() {
    let origin = answering(|number, request| {
        let body = format!("{number} {}", request.target);
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    });
    let gateway = gateway(&origin, "{key: {query_without: [utm_*]}}");
    assert_eq!(get(&gateway, "/?call=a&utm_source=x", "").text(), "1 /?call=a&utm_source=x");
    assert_eq!(get(&gateway, "/?call=a", "").text(), "1 /?call=a&utm_source=x");
    // Some servers treat `;` as `&`, others do not: neither reading may give the key of another URL.
    assert_eq!(
        get(&gateway, "/?call=a&utm_source=x;call=evil", "").text(),
        "2 /?call=a&utm_source=x;call=evil"
    );
    assert_eq!(get(&gateway, "/?utm_source=x;call=a", "").text(), "3 /?utm_source=x;call=a");
    assert_eq!(get(&gateway, "/?call=a", "").text(), "1 /?call=a&utm_source=x");
}

#[test]
fn a_path_that_servers_read_in_two_ways_is_refused_or_a_key_of_its_own() {
    let origin = answering(|number, request| {
        let body = format!("{number} {}", request.target);
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    });
    let gateway = gateway(&origin, "on");
    assert_eq!(get(&gateway, "/account", "").text(), "1 /account");
    for target in [
        "/account/x.css",
        "/account;x.css",
        "/account%3Bx.css",
        "/account%0Ax.css",
        "/account%3Fx.css",
        "/account%23x.css",
        "/account%5Cx.css",
    ] {
        let odd = get(&gateway, target, "");
        let is_own = odd.status == 200
            && odd.text() != "1 /account"
            && odd.text().ends_with(origin.requests().last().expect("one").target.as_str());
        assert!(odd.status == 400 || is_own, "{target}: {odd:?}");
        assert_eq!(get(&gateway, "/account", "").text(), "1 /account", "{target}");
    }
}

#[test]
fn check_warns_about_inputs_that_the_key_lacks() {
    let file = std::env::temp_dir().join(format!("tollgate-unkeyed-{}.yaml", std::process::id()));
    let checked = |text: &str| {
        std::fs::write(&file, text).expect("the file is written");
        let ran = tollgate_tests::tollgate(&["check", file.to_str().expect("text")]);
        ran.out + &ran.err
    };
    let route = |policies: &str, more: &str| {
        format!(
            "listen: 127.0.0.1:8080\n{more}routes:\n  - name: r\n    match: {{path: \"/*\", headers: {{X-Plan: gold}}}}\n    to: a:80\n    policies:\n{policies}"
        )
    };
    let set = "      headers: {request: {set: {X-Country: \"{header.CF-IPCountry}\"}}}\n";
    let out = checked(&route(&format!("      cache: on\n{set}"), ""));
    for part in [
        ":8:7",
        "`X-Country` may change the response, and the cache does not tell it apart",
        "^",
        "this is the cache",
        "write `cache: {key: {headers: X-Country}}`, or let the upstream send `Vary: X-Country`",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let warning = "does not tell";
    for (text, is_warned) in [
        (route("      cache: {key: {headers: X-Country}}\n", "") + set, false),
        (route("      cache: {key: {headers: CF-IPCountry}}\n", "") + set, false),
        (route("      cache: off\n", "") + set, false),
        (route("      cache: on\n      headers: {request: {set: {X-A: \"{path} {host}\"}}}\n", ""), false),
        (route("      cache: on\n      headers: {request: {set: {X-A: \"{client}\"}}}\n", ""), true),
        (route("      cache: on\n      headers: {request: {set: {X-A: \"{cookie.lang}\"}}}\n", ""), true),
        (
            route(
                "      cache: {key: {cookies: lang}}\n      headers: {request: {set: {X-A: \"{cookie.lang}\"}}}\n",
                "",
            ),
            false,
        ),
        (
            route(
                "      cache: {key: {query_without: utm_*}}\n      headers: {request: {set: {X-A: \"{query.utm_id}\"}}}\n",
                "",
            ),
            true,
        ),
        (route("      cache: on\n", "forwarded: {keep: X-Forwarded-Prefix}\n"), true),
        (route("      cache: on\n", "forwarded: {keep: X-Original-URL}\n"), false),
        (route("      cache: on\n", "forwarded: {x_forwarded: off}\n"), true),
        (route("      cache: on\n", "").replace("X-Plan: gold", "X-Plan: true"), true),
        (route("      cache: on\n", ""), false),
    ] {
        let out = checked(&text);
        assert_eq!(out.contains(warning), is_warned, "{text}\n{out}");
        assert!(!out.contains("error"), "{text}\n{out}");
    }
    std::fs::remove_file(file).expect("removed");
}

/// `across_identities` stores responses to requests with credentials. That does not overrule a `Vary` that names them.
#[test]
fn credentials_that_a_response_varies_by_tell_clients_apart() {
    let origin = answering(|_, request| {
        let who = request.headers.get("Authorization").unwrap_or("nobody").to_owned();
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nVary: Authorization\r\nContent-Length: {}\r\n\r\n{who}",
            who.len()
        )
    });
    let gateway = gateway(&origin, "{across_identities: on}");
    let (alice, bob) = ("Authorization: Basic alice\r\n", "Authorization: Basic bob\r\n");
    let text = |lines: &str| get(&gateway, "/", lines).text();
    for _ in 0..2 {
        assert_eq!([text(alice), text(""), text(bob)], ["Basic alice", "nobody", "Basic bob"]);
    }
    assert_eq!(origin.count(), 3);
}

#[test]
fn a_coding_that_a_client_refuses_is_not_served_to_it() {
    let origin = super::numbered("Cache-Control: max-age=60\r\nVary: Accept-Encoding\r\n");
    let gateway = gateway(&origin, "on");
    let text = |accepted: &str| get(&gateway, "/", &format!("Accept-Encoding: {accepted}\r\n")).text();
    assert_eq!(
        [text("*"), text("gzip;q=0, *"), text("*, gzip;q=0.0"), text("*;q=0.5")],
        ["1", "2", "2", "1"]
    );
    assert_eq!([text("gzip"), text("gzip, br;q=0"), text("br;q=0, gzip, *")], ["3", "3", "4"]);
}
