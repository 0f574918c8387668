//! A hit that is compressed is compressed once: later ones are answered with the stored form.

use std::io::Read;

use tollgate_tests::{Framing, Gateway, Origin, Response, api, eventually, http2};

use super::{answering, ask, get, outcomes, with_policies};

const ON: &str = "cache: on, compression: {encodings: [gzip, br, zstd]}";

fn text(line: &str) -> String {
    format!("a line of {line}\n").repeat(3_000)
}

/// Starts an origin of a text with a validator. It answers each validation with a 304.
fn origin() -> Origin {
    answering(|_, request| {
        const LINES: &str = "Cache-Control: max-age=60\r\nETag: \"a\"\r\n";
        if request.headers.has("If-None-Match") {
            return format!("HTTP/1.1 304 Not Modified\r\n{LINES}X-Fresh: 1\r\n\r\n");
        }
        let text = text("text");
        format!(
            "HTTP/1.1 200 OK\r\n{LINES}Content-Type: text/plain\r\nAccept-Ranges: bytes\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        )
    })
}

/// Decodes a body with the tests' own decoder.
fn plain(response: &Response) -> String {
    let mut out = String::new();
    flate2::read::GzDecoder::new(response.body.as_slice()).read_to_string(&mut out).expect("gzip");
    out
}

/// Returns how many forms were made and kept, and the bytes of those that there are.
fn forms(gateway: &Gateway) -> (u64, u64) {
    let state = api::json_of(&api::call(gateway, "GET", "/cache", "", ""));
    let number = |name: &str| state[name].as_u64().unwrap_or_else(|| panic!("{name}: {state}"));
    (number("compressed"), number("compressed_bytes"))
}

/// Returns how many hits were answered with a stored form.
fn compressed_hits(gateway: &Gateway) -> f64 {
    let labels = "policy=\"cache\",place=\"route/r\",event=\"compressed_hits\"";
    gateway.metrics().sum("tollgate_policy_events_total", labels).expect("the metric")
}

const GZIP: &str = "Accept-Encoding: gzip\r\n";

#[test]
fn a_hit_is_compressed_once_for_each_coding() {
    let origin = origin();
    let gateway = with_policies(&origin, ON, "");
    assert!(get(&gateway, "/", "").text() == text("text"));
    for (number, coding) in ["gzip", "br", "zstd"].into_iter().enumerate() {
        let accepts = format!("Accept-Encoding: {coding}\r\n");
        let first = get(&gateway, "/", &accepts);
        assert_eq!((first.framing, first.header("Content-Encoding")), (Framing::Chunked, Some(coding)));
        let form = first.body;
        assert!(form.len() < 1_000, "{coding}: {}", form.len());
        for _ in 0..3 {
            let hit = get(&gateway, "/", &accepts);
            assert_eq!(
                (hit.framing, hit.header("Content-Encoding")),
                (Framing::Length(form.len() as u64), Some(coding))
            );
            assert_eq!(
                (hit.header("ETag"), hit.headers.all("Vary")),
                (Some("W/\"a\""), vec!["Accept-Encoding"])
            );
            assert_eq!((hit.headers.has("Accept-Ranges"), hit.headers.has("Age")), (false, true));
            assert!(hit.header("Cache-Status").is_some_and(|it| it.contains("; hit")) && hit.body == form);
            assert!(coding != "gzip" || plain(&hit) == text("text"));
        }
        assert_eq!(
            (forms(&gateway).0, compressed_hits(&gateway)),
            (number as u64 + 1, number as f64 * 3.0 + 3.0)
        );
    }
    // A client that accepts none gets the plain body, and ranges are of that.
    let whole = get(&gateway, "/", "");
    assert!(whole.text() == text("text") && whole.header("ETag") == Some("\"a\""), "{whole:?}");
    let part = get(&gateway, "/", &format!("{GZIP}Range: bytes=2-5\r\n"));
    assert_eq!((part.status, part.text().as_str(), part.header("Content-Encoding")), (206, "line", None));
    assert_eq!((origin.count(), forms(&gateway).0), (1, 3));
    let outcomes = outcomes(&gateway, 15);
    assert!(outcomes[0] == "miss" && outcomes[1..].iter().all(|outcome| outcome == "hit"), "{outcomes:?}");
    gateway.reconcile(&[&origin]);
}

#[test]
fn conditions_and_head_see_the_compressed_form() {
    let origin = origin();
    let gateway = with_policies(&origin, ON, "");
    get(&gateway, "/", "");
    let unknown = ask(&gateway, "HEAD", "/", GZIP);
    assert_eq!((unknown.header("ETag"), unknown.header("Content-Length")), (Some("W/\"a\""), None));
    get(&gateway, "/", GZIP);
    let form = get(&gateway, "/", GZIP).body;
    let head = ask(&gateway, "HEAD", "/", GZIP);
    let length = form.len().to_string();
    assert_eq!(
        (head.header("ETag"), head.header("Content-Length")),
        (Some("W/\"a\""), Some(length.as_str()))
    );
    for (tags, status) in [("W/\"a\"", 304), ("\"b\", W/\"a\"", 304), ("*", 304), ("W/\"b\"", 200)] {
        let response = get(&gateway, "/", &format!("{GZIP}If-None-Match: {tags}\r\n"));
        assert_eq!((response.status, response.header("ETag")), (status, Some("W/\"a\"")), "{tags}");
        assert_eq!(response.headers.all("Vary"), ["Accept-Encoding"]);
        assert!(status == 304 || response.body == form, "{tags}");
    }
    assert_eq!((origin.count(), forms(&gateway).0), (1, 1));
}

#[test]
fn a_form_lives_as_long_as_the_body() {
    let origin = answering(|number, request| {
        // The third request is the first one that gets another body.
        if request.headers.has("If-None-Match") && number == 2 {
            return "HTTP/1.1 304 X\r\nCache-Control: max-age=60\r\nETag: \"a\"\r\nX-Fresh: 1\r\n\r\n"
                .to_owned();
        }
        let (tag, text) = if number == 1 { ("a", text("old")) } else { ("b", text("new")) };
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nETag: \"{tag}\"\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        )
    });
    let gateway = with_policies(&origin, ON, "");
    let purge =
        |body: &str| assert_eq!(api::call(&gateway, "POST", "/cache/purge", api::JSON, body).status, 200);
    let gzip = || get(&gateway, "/", GZIP);
    gzip();
    assert!(plain(&gzip()) == text("old") && plain(&gzip()) == text("old"));
    assert_eq!((origin.count(), forms(&gateway).0), (1, 1));
    // A 304 says that the body is the same, so its form is.
    purge(r#"{"all": true, "soft": true}"#);
    let validated = gzip();
    assert_eq!((validated.header("X-Fresh"), plain(&validated) == text("old")), (Some("1"), true));
    assert!(matches!(validated.framing, Framing::Length(_)), "{validated:?}");
    assert!(plain(&gzip()) == text("old"));
    assert_eq!((origin.count(), forms(&gateway).0), (2, 1));
    // Another body has forms of its own.
    purge(r#"{"all": true, "soft": true}"#);
    gzip();
    assert_eq!((origin.count(), forms(&gateway)), (3, (1, 0)));
    assert!(plain(&gzip()) == text("new") && plain(&gzip()) == text("new"));
    assert_eq!(forms(&gateway).0, 2);
    purge(r#"{"all": true}"#);
    assert_eq!(forms(&gateway), (2, 0));
    assert!(plain(&gzip()) == text("new"));
    assert_eq!(origin.count(), 4);
}

#[test]
fn other_policies_and_http2_see_the_form_as_any_response() {
    let origin = origin();
    let policies =
        format!("{ON}, headers: {{response: {{set: {{X-Client: \"{{client}}\"}}}}}}, security_headers: on");
    let gateway = with_policies(&origin, &policies, "");
    get(&gateway, "/", GZIP);
    get(&gateway, "/", GZIP);
    let mut client = gateway.http2();
    for _ in 0..4 {
        let hit = client.ask(http2::request("GET", "/", &[("accept-encoding", "gzip")]));
        // The key has the host, and so has the request of the other client.
        assert!(plain(&hit) == text("text") && hit.header("content-encoding") == Some("gzip"), "{hit:?}");
        assert_eq!(
            (hit.headers.all("x-client"), hit.headers.all("x-frame-options")),
            (vec!["127.0.0.1"], vec!["DENY"])
        );
    }
    let hit = get(&gateway, "/", GZIP);
    assert!(
        matches!(hit.framing, Framing::Length(_)) && hit.headers.all("X-Frame-Options") == ["DENY"],
        "{hit:?}"
    );
}

#[test]
fn each_upstream_of_a_route_has_forms_of_its_own() {
    let origins = ["one", "two"].map(|name| {
        answering(move |_, _| {
            let text = text(name);
            format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{text}",
                text.len()
            )
        })
    });
    let [one, two] = &origins;
    let gateway = Gateway::start(&format!(
        "upstreams: {{a: \"{}\", b: \"{}\"}}\nroutes:\n- {{name: r, match: \"/*\", to: [{{upstream: a, weight: 1}}, {{upstream: b, weight: 1}}], policies: {{{ON}}}}}\n",
        one.address(),
        two.address()
    ));
    let mut seen = [0; 2];
    for _ in 0..40 {
        let text_of = plain(&get(&gateway, "/", GZIP));
        let which = ["one", "two"].iter().position(|name| text_of == text(name)).expect("one of the two");
        seen[which] += 1;
    }
    assert!(seen.iter().all(|count| *count > 3), "{seen:?}");
    assert_eq!((one.count(), two.count(), forms(&gateway).0), (1, 1, 2));
}

#[test]
fn first_hits_at_once_leave_one_form() {
    const CLIENTS: usize = 30;
    let origin = origin();
    let gateway = with_policies(&origin, ON, "workers: 2");
    get(&gateway, "/", "");
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| gateway.client()).collect();
    for client in &mut clients {
        client.send(format!("GET / HTTP/1.1\r\nHost: a.example\r\n{GZIP}\r\n"));
    }
    let bodies: Vec<Response> = clients.iter_mut().map(|client| client.response()).collect();
    assert!(bodies.iter().all(|response| plain(response) == text("text")));
    eventually("the hits of a form", || compressed_hits(&gateway) + 2.0 >= CLIENTS as f64);
    assert_eq!((origin.count(), forms(&gateway).0), (1, 1));
}

/// A client that takes little at a time must not make the form worse for others.
#[test]
fn a_slow_first_client_makes_the_same_form() {
    let long: String =
        (0..60_000_u32).map(|n| format!("{:x} ", n.wrapping_mul(2_654_435_761) % 50_021)).collect();
    let origin = Origin::fixed(format!(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{long}",
        long.len()
    ));
    let lengths = [false, true].map(|is_slow| {
        let gateway = with_policies(&origin, ON, "");
        get(&gateway, "/", "");
        let mut client = if is_slow { gateway.small_client(1024) } else { gateway.client() };
        client.send(format!("GET / HTTP/1.1\r\nHost: a.example\r\n{GZIP}\r\n"));
        assert!(plain(&client.response()) == long);
        let hit = get(&gateway, "/", GZIP);
        assert!(plain(&hit) == long && forms(&gateway).0 == 1);
        hit.body.len()
    });
    assert_eq!(lengths[0], lengths[1]);
}

#[test]
fn a_client_that_leaves_makes_no_form_and_a_decoded_body_has_none() {
    let origin = origin();
    let gateway = with_policies(&origin, &format!("{ON}, decompression: on"), "");
    for _ in 0..3 {
        assert!(plain(&get(&gateway, "/", GZIP)) == text("text"));
    }
    assert_eq!((forms(&gateway).0, origin.count()), (1, 1), "nothing is decoded, so the form is the body's");
}
