//! Responses that are fetched and stored in slices, counted at the origin.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use tollgate_tests::{Client, Framing, Gate, Gateway, Origin, Request, api, eventually};

use super::{ask, gateway, get, outcomes};

/// The size of a slice in these tests.
const SLICE: usize = 64 * 1024;
/// Four slices and a half.
const LENGTH: usize = 4 * SLICE + SLICE / 2;

/// Returns the content of a version, in which no two slices are equal.
fn content(version: usize) -> String {
    let mut text: String = (0..LENGTH / 8).map(|at| format!("{version}{at:06}-")).collect();
    text.truncate(LENGTH);
    text
}

/// Returns the range of a request, if it has a first and a last byte.
fn range_of(request: &Request) -> Option<(usize, usize)> {
    let range = request.headers.get("Range")?.strip_prefix("bytes=")?.to_owned();
    let (first, last) = range.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// Responds like a server with this content: 200, 206, 304 or 416. Each response has these lines.
fn serve(request: &Request, content: &str, tag: &str, lines: &str) -> String {
    let lines = format!("{lines}ETag: {tag}\r\n");
    if request.headers.get("If-None-Match").is_some_and(|tags| tags == tag) {
        return format!("HTTP/1.1 304 Not Modified\r\n{lines}\r\n");
    }
    let length = content.len();
    match range_of(request) {
        Some((first, _)) if first >= length => {
            format!("HTTP/1.1 416 X\r\n{lines}Content-Range: bytes */{length}\r\nContent-Length: 0\r\n\r\n")
        }
        Some((first, last)) => {
            let last = last.min(length - 1);
            format!(
                "HTTP/1.1 206 Partial Content\r\n{lines}Content-Range: bytes {first}-{last}/{length}\r\nContent-Length: {}\r\n\r\n{}",
                last - first + 1,
                &content[first..=last]
            )
        }
        None => format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: {length}\r\n\r\n{content}"),
    }
}

const FRESH: &str = "Cache-Control: max-age=60\r\nContent-Type: video/mp4\r\n";

/// Starts an origin with a single version, whose responses have these lines.
fn serving(lines: &'static str) -> Origin {
    let content = content(1);
    super::answering(move |_, request| serve(request, &content, "\"v1\"", lines))
}

fn sliced(origin: &Origin) -> Gateway {
    gateway(origin, "{slice: 64KiB}")
}

/// Returns the ranges that the origin was asked for, as numbers of slices; `None`: the whole response.
fn asked(origin: &Origin) -> Vec<Option<usize>> {
    let slice = |request: &Request| {
        let (first, last) = range_of(request)?;
        assert_eq!((first % SLICE, last + 1 - first), (0, SLICE), "an aligned slice");
        Some(first / SLICE)
    };
    origin.requests().iter().map(slice).collect()
}

#[test]
fn a_range_fetches_the_slices_that_it_needs() {
    let (origin, whole) = (serving(FRESH), content(1));
    let gateway = sliced(&origin);
    let (first, last) = (SLICE - 10, 2 * SLICE + 9);
    let mut statuses = Vec::new();
    for _ in 0..2 {
        let part = get(&gateway, "/", &format!("Range: bytes={first}-{last}\r\n"));
        assert_eq!(part.status, 206);
        assert!(part.text() == whole[first..=last]);
        assert_eq!(part.header("Content-Range"), Some(format!("bytes {first}-{last}/{LENGTH}").as_str()));
        assert_eq!(part.framing, Framing::Length((last + 1 - first) as u64));
        assert_eq!((part.header("ETag"), part.header("Content-Type")), (Some("\"v1\""), Some("video/mp4")));
        assert_eq!(part.headers.all("Content-Range").len(), 1);
        statuses.push(part.header("Cache-Status").unwrap_or_default().to_owned());
    }
    assert!(statuses[0].starts_with("\"tollgate\"; fwd=uri-miss; stored; ttl="), "{statuses:?}");
    assert!(statuses[1].starts_with("\"tollgate\"; hit; ttl="), "{statuses:?}");
    assert_eq!(asked(&origin), [Some(0), Some(1), Some(2)]);
    assert_eq!(outcomes(&gateway, 2), ["miss", "hit"]);
    // Only the missing slices are fetched.
    let rest = get(&gateway, "/", &format!("Range: bytes={SLICE}-\r\n"));
    assert!(rest.status == 206 && rest.text() == whole[SLICE..]);
    assert_eq!(asked(&origin)[3..], [Some(3), Some(4)]);
}

#[test]
fn a_whole_response_is_put_together() {
    let (origin, whole) = (serving(FRESH), content(1));
    let gateway = sliced(&origin);
    let part = get(&gateway, "/", &format!("Range: bytes={}-{}\r\n", 2 * SLICE, 2 * SLICE + 1));
    assert!(part.status == 206 && part.text() == whole[2 * SLICE..2 * SLICE + 2]);
    assert_eq!(asked(&origin), [Some(2)], "one slice says all about the whole");
    for expected in ["\"tollgate\"; fwd=partial; fwd-status=206; stored; ttl=", "\"tollgate\"; hit; ttl="] {
        let response = get(&gateway, "/", "");
        assert!(response.header("Cache-Status").is_some_and(|it| it.starts_with(expected)), "{expected}");
        assert_eq!((response.status, response.framing), (200, Framing::Length(LENGTH as u64)));
        assert!(response.text() == whole && !response.headers.has("Content-Range"), "{}", response.status);
    }
    assert_eq!(asked(&origin), [Some(2), Some(0), Some(1), Some(3), Some(4)]);
    // HTTP/2 too.
    let answer = gateway.http2().get("/");
    assert!(answer.text() == whole);
    assert_eq!(origin.count(), 5);
    // A slow client gets the same response.
    let mut client = gateway.small_client(4096);
    assert!(client.ask("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").text() == whole);
    assert_eq!(origin.count(), 5);
}

#[test]
fn conditions_and_odd_ranges_are_answered_from_slices() {
    let (origin, whole) = (serving(FRESH), content(1));
    let gateway = sliced(&origin);
    // The range counts from the end, so the first slice is fetched for the length.
    let end = get(&gateway, "/", "Range: bytes=-5\r\n");
    assert!(end.status == 206 && end.text() == whole[LENGTH - 5..], "{}", end.status);
    assert_eq!(asked(&origin), [Some(0), Some(4)]);
    for (lines, status, length) in [
        ("Range: bytes=0-0\r\n".to_owned(), 206, 1),
        (format!("Range: bytes={LENGTH}-\r\n"), 416, 0),
        ("Range: bytes=0-4\r\nIf-Range: \"v1\"\r\n".to_owned(), 206, 5),
        ("If-None-Match: \"v1\"\r\n".to_owned(), 304, 0),
        ("If-None-Match: W/\"v1\"\r\nRange: bytes=0-0\r\n".to_owned(), 304, 0),
    ] {
        let response = get(&gateway, "/", &lines);
        assert_eq!((response.status, response.body.len()), (status, length), "{lines}");
    }
    let head = ask(&gateway, "HEAD", "/", "");
    assert_eq!((head.status, head.header("Content-Length")), (200, Some(LENGTH.to_string().as_str())));
    assert_eq!(origin.count(), 2);
    let other = get(&gateway, "/", "Range: bytes=0-4\r\nIf-Range: \"v0\"\r\n");
    assert!(other.status == 200 && other.text() == whole, "the client has another version");
    // Requests for several ranges go to the endpoint, and so do conditions that only it can evaluate.
    let before = origin.count();
    get(&gateway, "/", "Range: bytes=0-0,5-5\r\n");
    get(&gateway, "/", "If-Match: \"v1\"\r\n");
    let forwarded = origin.requests().split_off(before);
    assert!(
        forwarded[0].headers.get("Range") == Some("bytes=0-0,5-5") && forwarded[1].headers.has("If-Match")
    );
}

#[test]
fn a_range_beyond_the_end_is_answered_with_416() {
    let origin = serving(FRESH);
    let gateway = sliced(&origin);
    for _ in 0..2 {
        let beyond = get(&gateway, "/", &format!("Range: bytes={}-\r\n", 100 * SLICE));
        let unsatisfied = format!("bytes */{LENGTH}");
        assert_eq!((beyond.status, beyond.header("Content-Range")), (416, Some(unsatisfied.as_str())));
    }
    assert_eq!(asked(&origin), [Some(100), Some(0)], "the second time the length is known");
}

#[test]
fn slices_are_validated_with_one_request() {
    let content = content(1);
    let origin = super::answering(move |number, request| {
        let lines = if number <= 2 {
            "Cache-Control: max-age=60\r\n"
        } else {
            "Cache-Control: max-age=60\r\nX-New: 1\r\n"
        };
        serve(request, &content, "\"v1\"", lines)
    });
    let gateway = sliced(&origin);
    let range = format!("Range: bytes=0-{SLICE}\r\n");
    assert_eq!(get(&gateway, "/", &range).status, 206);
    assert_eq!(origin.count(), 2);
    let soft = r#"{"all": true, "soft": true}"#;
    assert_eq!(api::call(&gateway, "POST", "/cache/purge", api::JSON, soft).status, 200);
    for _ in 0..2 {
        let part = get(&gateway, "/", &range);
        assert_eq!((part.status, part.body.len(), part.header("X-New")), (206, SLICE + 1, Some("1")));
    }
    assert_eq!(origin.count(), 3, "one request validates both slices");
    assert_eq!(origin.requests()[2].headers.get("If-None-Match"), Some("\"v1\""));
    assert_eq!(outcomes(&gateway, 3), ["miss", "revalidated", "hit"]);
}

/// Starts an origin whose version the test changes.
fn changing(version: &Arc<AtomicUsize>) -> Origin {
    let version = version.clone();
    super::answering(move |_, request| {
        let version = version.load(Ordering::SeqCst);
        serve(request, &content(version), &format!("\"v{version}\""), FRESH)
    })
}

#[test]
fn slices_of_two_versions_never_become_one_response() {
    let version = Arc::new(AtomicUsize::new(1));
    let origin = changing(&version);
    let gateway = sliced(&origin);
    let first = get(&gateway, "/", "Range: bytes=0-9\r\n");
    assert_eq!(first.text(), content(1)[..10]);
    version.store(2, Ordering::SeqCst);
    // The first slice has the first version, the second slice the next one: the response is cut.
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    let mut response = client.head();
    assert_eq!((response.status, response.header("ETag")), (200, Some("\"v1\"")));
    assert!(client.try_body(&mut response).is_err());
    assert!(response.text() == content(1)[..SLICE], "nothing of the second version");
    // For a while, requests are forwarded unchanged.
    let whole = get(&gateway, "/", "");
    assert!(whole.text() == content(2) && whole.header("ETag") == Some("\"v2\""));
}

#[test]
fn a_new_version_replaces_the_old_one_before_anything_is_sent() {
    let version = Arc::new(AtomicUsize::new(1));
    let origin = changing(&version);
    let gateway = sliced(&origin);
    get(&gateway, "/", "Range: bytes=0-9\r\n");
    version.store(2, Ordering::SeqCst);
    // This slice is missing, and the endpoint has a new version.
    let part = get(&gateway, "/", &format!("Range: bytes={SLICE}-{}\r\n", SLICE + 9));
    assert_eq!((part.status, part.header("ETag")), (206, Some("\"v2\"")));
    assert_eq!(part.text(), content(2)[SLICE..SLICE + 10]);
    let whole = get(&gateway, "/", "");
    assert!(whole.text() == content(2), "the slice of the old version is fetched again");
}

#[test]
fn endpoints_without_ranges_are_served_whole() {
    let content = content(1);
    let origin = {
        let content = content.clone();
        super::answering(move |_, _| {
            format!("HTTP/1.1 200 OK\r\n{FRESH}ETag: \"v1\"\r\nContent-Length: {LENGTH}\r\n\r\n{content}")
        })
    };
    let gateway = sliced(&origin);
    assert!(get(&gateway, "/", "").text() == content);
    assert_eq!(origin.count(), 2, "once by a range, and then as a whole");
    for _ in 0..2 {
        let part = get(&gateway, "/", "Range: bytes=3-9\r\n");
        assert_eq!((part.status, part.text()), (206, content[3..10].to_owned()));
    }
    assert_eq!(origin.count(), 2, "the whole is stored");
}

#[test]
fn what_may_not_be_stored_does_not_come_in_slices() {
    for lines in [
        "Cache-Control: no-store\r\n",
        "Cache-Control: private, max-age=60\r\n",
        "Cache-Control: max-age=60\r\nSet-Cookie: a=1\r\n",
        "Cache-Control: max-age=0\r\n",
    ] {
        let (origin, whole) = (serving(lines), content(1));
        let gateway = sliced(&origin);
        for _ in 0..3 {
            let part = get(&gateway, "/", "Range: bytes=5-8\r\n");
            assert!(part.status == 206 && part.text() == whole[5..9], "{lines}: {}", part.status);
        }
    }
    // A weak validator does not tell whether two slices belong together.
    let whole = content(1);
    let origin = super::answering(move |_, request| serve(request, &whole, "W/\"v1\"", FRESH));
    let gateway = sliced(&origin);
    for _ in 0..3 {
        let response = get(&gateway, "/", &format!("Range: bytes={SLICE}-{}\r\n", SLICE + 3));
        assert_eq!((response.status, response.text()), (206, content(1)[SLICE..SLICE + 4].to_owned()));
    }
}

#[test]
fn parts_that_are_not_what_was_asked_for_are_not_stored() {
    for wrong in [
        // Another range, an unknown length, several parts, a length that contradicts the range.
        "Content-Range: bytes 1-65536/294912\r\nContent-Length: 65536\r\n",
        "Content-Range: bytes 0-65535/*\r\nContent-Length: 65536\r\n",
        "Content-Type: multipart/byteranges; boundary=x\r\nContent-Length: 65536\r\n",
        "Content-Range: bytes 0-65535/294912\r\nContent-Length: 65537\r\n",
    ] {
        let whole = content(1);
        let origin = super::answering(move |_, request| match range_of(request) {
            Some((0, 65_535)) => {
                let extra = if wrong.contains("65537") { "x" } else { "" };
                format!("HTTP/1.1 206 X\r\n{FRESH}ETag: \"v1\"\r\n{wrong}\r\n{}{extra}", &whole[..65_536])
            }
            _ => serve(request, &whole, "\"v1\"", FRESH),
        });
        let gateway = sliced(&origin);
        let response = get(&gateway, "/", "");
        assert!(response.status == 200 && response.text() == content(1), "{wrong}");
        let again = get(&gateway, "/", "Range: bytes=0-9\r\n");
        assert!(again.status == 206 && again.text() == content(1)[..10], "{wrong}");
    }
}

#[test]
fn a_slice_that_is_cut_is_not_stored_and_cuts_the_response() {
    let (cuts, gate) = (Arc::new(AtomicUsize::new(1)), Gate::new());
    let origin = {
        let (cuts, gate, whole) = (cuts.clone(), gate.clone(), content(1));
        Origin::play(move |conn| {
            while let Some(request) = conn.request() {
                let bytes = serve(&request, &whole, "\"v1\"", FRESH);
                let is_second = range_of(&request).is_some_and(|(first, _)| first == SLICE);
                if is_second && cuts.swap(0, Ordering::SeqCst) == 1 {
                    conn.send(&bytes[..bytes.len() - 100]);
                    gate.wait();
                    return;
                }
                conn.send(bytes);
            }
        })
    };
    let gateway = sliced(&origin);
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    let mut response = client.head();
    while client.wire().pending().len() <= SLICE {
        assert_eq!(client.wire().fill(), Ok(true));
    }
    gate.open();
    assert!(client.try_body(&mut response).is_err());
    assert!(content(1).starts_with(&response.text()) && response.body.len() < 2 * SLICE);
    assert!(get(&gateway, "/", "").text() == content(1));
    assert_eq!(asked(&origin), [Some(0), Some(1), Some(1), Some(2), Some(3), Some(4)]);
}

#[test]
fn purges_and_unsafe_methods_remove_all_slices() {
    for remove in ["key", "prefix", "tag", "all", "POST"] {
        let whole = content(1);
        let origin = super::answering(move |number, request| {
            let lines = format!("{FRESH}Surrogate-Key: film\r\nX-Number: {number}\r\n");
            match request.method.as_str() {
                "POST" => "HTTP/1.1 204 X\r\n\r\n".to_owned(),
                _ => serve(request, &whole, &format!("\"v{}\"", usize::from(number > 3)), &lines),
            }
        });
        let gateway = sliced(&origin);
        let two = format!("Range: bytes=0-{SLICE}\r\n");
        for _ in 0..2 {
            assert_eq!(get(&gateway, "/film", &two).header("ETag"), Some("\"v0\""));
        }
        assert_eq!(origin.count(), 2, "{remove}");
        let purge = |body: &str| {
            let answer = api::call(&gateway, "POST", "/cache/purge", api::JSON, body);
            assert_eq!(answer.status, 200, "{body}");
            // The manifest and two slices.
            assert_eq!(api::json_of(&answer)["purged"], 3, "{body}");
            get(&gateway, "/other", "Range: bytes=0-9\r\n");
        };
        match remove {
            "key" => purge(r#"{"key": "http://a.example/film"}"#),
            "prefix" => purge(r#"{"prefix": "http://a.example/fi"}"#),
            "tag" => purge(r#"{"tag": "film"}"#),
            "all" => purge(r#"{"all": true}"#),
            method => assert_eq!(ask(&gateway, method, "/film", "Content-Length: 0\r\n").status, 204),
        }
        let part = get(&gateway, "/film", &two);
        assert_eq!(
            (part.status, part.header("ETag"), part.body.len()),
            (206, Some("\"v1\""), SLICE + 1),
            "{remove}"
        );
        let ranges = origin.requests().iter().filter(|it| it.target == "/film" && it.method == "GET").count();
        assert_eq!(ranges, 4, "{remove}: both slices are fetched again");
    }
}

/// Opens clients that have sent these request lines.
fn asking(gateway: &Gateway, count: usize, lines: &str) -> Vec<Client> {
    let ask = |_| {
        let mut client = gateway.client();
        client.send(format!("GET / HTTP/1.1\r\nHost: a.example\r\n{lines}\r\n"));
        client
    };
    (0..count).map(ask).collect()
}

#[test]
fn many_clients_cause_one_request_for_each_slice() {
    let gate = Gate::new();
    let origin = {
        let (gate, whole) = (gate.clone(), content(1));
        super::answering(move |_, request| {
            gate.wait();
            serve(request, &whole, "\"v1\"", FRESH)
        })
    };
    let gateway = Gateway::start(&format!(
        "workers: 2\nroutes: [{{name: r, match: \"/*\", to: \"{}\", policies: {{cache: {{slice: 64KiB}}}}}}]\n",
        origin.address()
    ));
    let mut wholes = asking(&gateway, 20, "");
    let mut parts = asking(&gateway, 20, &format!("Range: bytes={}-\r\n", 3 * SLICE));
    eventually("the first request", || origin.count() >= 1);
    gate.open();
    for client in &mut wholes {
        assert!(client.response().text() == content(1));
    }
    for client in &mut parts {
        assert!(client.response().text() == content(1)[3 * SLICE..]);
    }
    let mut slices = asked(&origin);
    slices.sort_unstable();
    assert_eq!(slices, [Some(0), Some(1), Some(2), Some(3), Some(4)]);
}

#[test]
fn a_client_that_leaves_costs_the_origin_one_slice() {
    let gate = Gate::new();
    let sent = Arc::new(Mutex::new(Vec::new()));
    let origin = {
        let (gate, sent, whole) = (gate.clone(), sent.clone(), content(1));
        Origin::play(move |conn| {
            while let Some(request) = conn.request() {
                gate.wait();
                let is_sent = conn.send(serve(&request, &whole, "\"v1\"", FRESH));
                sent.lock().expect("no panic").push(is_sent);
            }
        })
    };
    let gateway = sliced(&origin);
    let client = asking(&gateway, 1, "").remove(0);
    eventually("its request", || origin.count() == 1);
    client.reset();
    let opener = thread::spawn(move || gate.open());
    eventually("the slice", || sent.lock().expect("no panic").len() == 1);
    opener.join().expect("opened");
    eventually("the slice in the store", || {
        let part = get(&gateway, "/", "Range: bytes=0-9\r\n");
        part.text() == content(1)[..10]
    });
    assert_eq!(asked(&origin), [Some(0)]);
}

#[test]
fn an_endpoint_that_fails_is_not_asked_for_all_slices() {
    let origin = super::answering(|_, _| "HTTP/1.1 503 X\r\nContent-Length: 3\r\n\r\nbad".to_owned());
    let gateway = sliced(&origin);
    let response = get(&gateway, "/", "Range: bytes=0-9\r\n");
    assert_eq!((response.status, response.text().as_str()), (503, "bad"), "the endpoint's own error");
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_stale_response_in_slices_replaces_an_error() {
    let is_down = Arc::new(AtomicUsize::new(0));
    let origin = {
        let (is_down, whole) = (is_down.clone(), content(1));
        super::answering(move |_, request| match is_down.load(Ordering::SeqCst) {
            0 => serve(request, &whole, "\"v1\"", "Cache-Control: max-age=60, stale-if-error=60\r\n"),
            _ => "HTTP/1.1 503 X\r\nContent-Length: 3\r\n\r\nbad".to_owned(),
        })
    };
    let gateway = sliced(&origin);
    get(&gateway, "/", "Range: bytes=0-9\r\n");
    let soft = r#"{"all": true, "soft": true}"#;
    assert_eq!(api::call(&gateway, "POST", "/cache/purge", api::JSON, soft).status, 200);
    is_down.store(1, Ordering::SeqCst);
    let stale = get(&gateway, "/", "Range: bytes=0-9\r\n");
    assert_eq!((stale.status, stale.text()), (206, content(1)[..10].to_owned()));
    // RFC 9211, 2.1: no hit, since the request was forwarded.
    let status = stale.header("Cache-Status").unwrap_or_default();
    assert!(status.starts_with("\"tollgate\"; fwd=stale; ttl="), "{status}");
    assert_eq!(outcomes(&gateway, 2), ["miss", "stale"]);
}

#[test]
fn variants_have_slices_of_their_own() {
    let origin = super::answering(|_, request| {
        let version = if request.headers.get("Accept-Language") == Some("de") { 1 } else { 2 };
        let lines = "Cache-Control: max-age=60\r\nVary: Accept-Language\r\n";
        serve(request, &content(version), &format!("\"v{version}\""), lines)
    });
    let gateway = sliced(&origin);
    for _ in 0..2 {
        for (lines, version) in [("Accept-Language: de\r\n", 1), ("Accept-Language: en\r\n", 2)] {
            assert!(get(&gateway, "/", lines).text() == content(version), "{lines}");
        }
    }
    assert_eq!(origin.count(), 10);
}

#[test]
fn identities_share_slices_only_if_the_response_allows_it() {
    for (lines, expected) in
        [("Cache-Control: max-age=60\r\n", false), ("Cache-Control: public, max-age=60\r\n", true)]
    {
        let origin = serving(lines);
        let gateway = sliced(&origin);
        let range = "Range: bytes=0-9\r\nAuthorization: Basic YTpi\r\n";
        for _ in 0..2 {
            assert_eq!(get(&gateway, "/", range).text(), content(1)[..10]);
        }
        assert_eq!(origin.count() == 1, expected, "{lines}");
    }
}

#[test]
fn a_response_is_sliced_from_the_configured_number_of_uses_on() {
    let origin = serving(FRESH);
    let gateway = gateway(&origin, "{slice: 64KiB, min_uses: 2}");
    for _ in 0..3 {
        assert_eq!(get(&gateway, "/", "Range: bytes=0-9\r\n").text(), content(1)[..10]);
    }
    let ranges: Vec<_> =
        origin.requests().iter().map(|it| it.headers.get("Range").map(str::to_owned)).collect();
    assert_eq!(ranges, [Some("bytes=0-9".to_owned()), Some("bytes=0-65535".to_owned())]);
}

#[test]
fn slices_survive_a_restart_on_disk() {
    let origin = serving(FRESH);
    let tiers = "cache: {memory: 16MiB, disk: {path: $DIR/cache, size: 64MiB}}";
    let mut gateway = super::with_policies(&origin, "cache: {slice: 64KiB}", tiers);
    let disk = |gateway: &Gateway| api::json_of(&api::call(gateway, "GET", "/cache", "", ""))["disk"].clone();
    eventually("the disk tier", || disk(&gateway)["state"] == "ready");
    assert!(get(&gateway, "/", "").text() == content(1));
    eventually("the writes", || {
        let disk = disk(&gateway);
        disk["objects"].as_u64() >= Some(6) && disk["waiting_bytes"] == 0
    });
    gateway.kill_and_restart();
    eventually("the disk tier", || disk(&gateway)["state"] == "ready");
    assert!(get(&gateway, "/", "").text() == content(1));
    assert_eq!(origin.count(), 5, "nothing is fetched again");
}
