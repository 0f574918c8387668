//! Related requests go to the same endpoint: by hash, and by cookie.

use std::collections::BTreeSet;

use tollgate_tests::{Gateway, Origin, Response};

use super::{ask, get, listed, origins, reload, tally, to};

/// Returns the endpoint of each of `keys` keys. Each is requested twice, and both requests must reach the
/// same endpoint.
fn endpoints_of(gateway: &Gateway, keys: usize, request: impl Fn(usize) -> (String, String)) -> Vec<String> {
    let endpoint = |key| {
        let (target, lines) = request(key);
        let first = get(gateway, &target, &lines);
        assert_eq!(get(gateway, &target, &lines), first, "{target} {lines}");
        first
    };
    (0..keys).map(endpoint).collect()
}

#[test]
fn a_hash_leads_to_one_endpoint_on_every_worker() {
    let origins = origins(3);
    for (by, request) in [
        (
            "{header: X-User}",
            (|n| ("/".to_owned(), format!("X-User: user{n}\r\n"))) as fn(usize) -> (String, String),
        ),
        ("{cookie: session}", |n| ("/".to_owned(), format!("Cookie: a=b; session={n}\r\n"))),
        ("{query: user}", |n| (format!("/?page={}&user=u{n}", n * 7), String::new())),
        ("path", |n| (format!("/users/{n}?any"), String::new())),
    ] {
        let gateway = Gateway::start(&format!(
            "workers: 2\n{}",
            to(&origins, &format!("balance: {{policy: hash, by: {by}}}"))
        ));
        let seen = tally(endpoints_of(&gateway, 30, request), 3);
        assert!(seen.iter().all(|seen| *seen > 0), "{by}: {seen:?}");
    }
}

#[test]
fn a_hash_by_the_clients_address_believes_trusted_proxies_only() {
    let origins = origins(3);
    let balance = "balance: {policy: hash, by: client_address}";
    let claim = |n: usize| ("/".to_owned(), format!("X-Forwarded-For: 192.0.2.{n}\r\n"));
    let gateway = Gateway::start(&to(&origins, balance));
    let seen: BTreeSet<_> = endpoints_of(&gateway, 20, claim).into_iter().collect();
    assert_eq!(seen.len(), 1, "one client, whatever it claims");
    let trusting = format!("forwarded: {{trusted_proxies: [127.0.0.1]}}\n{}", to(&origins, balance));
    let seen: BTreeSet<_> = endpoints_of(&Gateway::start(&trusting), 20, claim).into_iter().collect();
    assert_eq!(seen.len(), 3);
}

#[test]
fn a_request_without_its_key_goes_to_any_endpoint() {
    let origins = origins(3);
    let gateway = Gateway::start(&to(&origins, "balance: {policy: hash, by: {header: X-User}}"));
    let mut client = gateway.client();
    assert_eq!(tally((0..9).map(|_| client.get("/").text()), 3), [3; 3]);
}

#[test]
fn few_keys_move_when_an_endpoint_comes() {
    let origins = origins(4);
    let balance = "balance: {policy: hash, by: path}";
    let gateway = Gateway::start(&to(&origins[..3], balance));
    let all = || endpoints_of(&gateway, 60, |n| (format!("/{n}"), String::new()));
    let before = all();
    reload(&gateway, &to(&origins, balance));
    let moved = before.iter().zip(all()).filter(|(before, after)| *before != after).count();
    // A quarter of the keys has to move.
    assert!((1..=30).contains(&moved), "{moved} of 60");
    reload(&gateway, &to(&origins[..3], balance));
    assert_eq!(all(), before, "and back again");
}

fn cookie(response: &Response) -> Option<String> {
    let line = response.header("Set-Cookie")?;
    line.split(';').next().map(str::to_owned)
}

fn sticky(gateway: &Gateway) -> (String, String) {
    let response = ask(gateway, "/", "");
    (response.text(), cookie(&response).expect("a cookie"))
}

/// Returns the endpoints that answer a client with this cookie, over `requests` requests, each on a
/// connection of its own.
fn met(gateway: &Gateway, cookie: &str, requests: usize) -> BTreeSet<String> {
    let request = |_| {
        let response = ask(gateway, "/", &format!("Cookie: x=y; {cookie}\r\n"));
        assert_eq!(self::cookie(&response), None, "it has its cookie");
        response.text()
    };
    (0..requests).map(request).collect()
}

#[test]
fn a_cookie_keeps_a_client_with_its_endpoint() {
    let origins = origins(3);
    let config = format!("workers: 2\n{}", to(&origins, "balance: {policy: least_requests, sticky: on}"));
    let gateway = Gateway::start(&config);
    let clients: Vec<_> = (0..6).map(|_| sticky(&gateway)).collect();
    for (endpoint, cookie) in &clients {
        assert_eq!(met(&gateway, cookie, 8), BTreeSet::from([endpoint.clone()]));
    }
    reload(&gateway, &config.replace("least_requests", "random"));
    for (endpoint, cookie) in &clients {
        assert_eq!(met(&gateway, cookie, 4), BTreeSet::from([endpoint.clone()]), "after a reload");
    }
    gateway.reconcile(&origins.iter().collect::<Vec<_>>());
    drop(gateway);
    let other = Gateway::start(&config);
    for (endpoint, cookie) in &clients {
        assert_eq!(
            met(&other, cookie, 4),
            BTreeSet::from([endpoint.clone()]),
            "another gateway, or the next one"
        );
    }
}

#[test]
fn a_header_keeps_a_client_without_cookies_with_its_endpoint() {
    let origins = origins(3);
    let gateway =
        Gateway::start(&to(&origins, "balance: {policy: least_requests, sticky: {header: X-Session}}"));
    for _ in 0..6 {
        let first = ask(&gateway, "/", "");
        let value = first.header("x-session").expect("the header").to_owned();
        assert_eq!(cookie(&first), None);
        for _ in 0..8 {
            let next = ask(&gateway, "/", &format!("X-Session: {value}\r\n"));
            assert_eq!((next.text(), next.header("X-Session")), (first.text(), None));
        }
    }
    let other = ask(&gateway, "/", "X-Session: 0000000000000000\r\n");
    assert!(other.header("X-Session").is_some(), "a value that names no endpoint is replaced");
    gateway.reconcile(&origins.iter().collect::<Vec<_>>());
}

#[test]
fn the_cookie_is_written_as_configured() {
    let origin = [Origin::named("a")];
    let line = |sticky: &str| {
        let gateway = Gateway::start(&to(&origin, &format!("balance: {{sticky: {sticky}}}")));
        let response = ask(&gateway, "/", "");
        let line = response.header("Set-Cookie").expect("a cookie").to_owned();
        let (name, rest) = line.split_once('=').expect("a name");
        let (value, attributes) = rest.split_once("; ").expect("attributes");
        assert!(value.len() == 16 && value.bytes().all(|byte| byte.is_ascii_hexdigit()), "{value}");
        (name.to_owned(), value.to_owned(), attributes.to_owned())
    };
    let (name, value, attributes) = line("on");
    assert!(name.starts_with("tollgate_"), "{name}");
    assert_eq!(attributes, "Path=/; HttpOnly");
    let (name, keyed, attributes) =
        line("{cookie: app, ttl: 1h, path: /app, secure: on, secret: not for everybody}");
    assert_eq!((name.as_str(), attributes.as_str()), ("app", "Path=/app; HttpOnly; Max-Age=3600; Secure"));
    assert_ne!(value, keyed, "another key");
    let (.., attributes) = line("{same_site: none, secure: on, domain: example.com}");
    assert_eq!(attributes, "Path=/; HttpOnly; Domain=example.com; SameSite=None; Secure");
}

#[test]
fn a_client_whose_endpoint_is_gone_is_given_another() {
    let origins = origins(3);
    let balance = "balance: {sticky: {cookie: app}}";
    let gateway = Gateway::start(&to(&origins, balance));
    let (endpoint, cookie) = sticky(&gateway);
    assert_eq!(endpoint, "a");
    reload(&gateway, &to(&origins[1..], balance));
    let response = ask(&gateway, "/", &format!("Cookie: {cookie}\r\n"));
    assert_ne!(response.text(), "a");
    let other = self::cookie(&response).expect("another cookie");
    assert_ne!(other, cookie);
    assert_eq!(met(&gateway, &other, 5), BTreeSet::from([response.text()]));
    // A cookie that no endpoint ever set.
    let response = ask(&gateway, "/", "Cookie: app=ffffffffffffffff\r\n");
    assert!(self::cookie(&response).is_some());
    // When the endpoint returns, clients that still have its cookie return too.
    reload(&gateway, &to(&origins, balance));
    assert_eq!(met(&gateway, &cookie, 5), BTreeSet::from(["a".to_owned()]));
}

/// Returns a config whose route splits its requests over two upstreams of two origins each.
fn split(origins: &[Origin], balance: &str, weights: [u32; 2]) -> String {
    let endpoints = |from: usize| {
        let one = |at: usize| format!("\"{}\"", origins[at].address());
        format!("[{}, {}]", one(from), one(from + 1))
    };
    format!(
        "workers: 2\nroutes: [{{match: \"/*\", to: [{{upstream: u, weight: {}}}, {{upstream: v, weight: {}}}]}}]\n\
         upstreams:\n  u: {{endpoints: {}, balance: {balance}}}\n  v: {{endpoints: {}, balance: {balance}}}\n",
        weights[0],
        weights[1],
        endpoints(0),
        endpoints(2)
    )
}

#[test]
fn a_split_over_upstreams_does_not_part_a_client_from_its_endpoint() {
    let origins = origins(4);
    let gateway = Gateway::start(&split(&origins, "{sticky: on}", [1, 1]));
    let clients: Vec<_> = (0..8).map(|_| sticky(&gateway)).collect();
    let upstreams: BTreeSet<_> = clients.iter().map(|(endpoint, _)| endpoint < &"c".to_owned()).collect();
    assert_eq!(upstreams.len(), 2, "clients of both: {clients:?}");
    for (endpoint, cookie) in &clients {
        assert_eq!(met(&gateway, cookie, 8), BTreeSet::from([endpoint.clone()]));
    }
    // A drained upstream keeps no clients.
    reload(&gateway, &split(&origins, "{sticky: on}", [0, 1]));
    for (_, cookie) in &clients {
        let answer = get(&gateway, "/", &format!("Cookie: {cookie}\r\n"));
        assert!(["c", "d"].contains(&answer.as_str()));
    }
}

#[test]
fn a_split_over_upstreams_does_not_part_the_requests_of_a_hash() {
    let origins = origins(4);
    let gateway = Gateway::start(&split(&origins, "{policy: hash, by: path}", [3, 1]));
    let seen = tally(endpoints_of(&gateway, 80, |n| (format!("/{n}"), String::new())), 4);
    let (u, v) = (seen[0] + seen[1], seen[2] + seen[3]);
    // 60 and 20 are expected, with five standard deviations either way.
    assert!((40..80).contains(&u) && v > 0, "{seen:?}");
    // A weight on a single endpoint changes nothing.
    let endpoints = [format!("{{address: \"{}\", weight: 2}}", origins[0].address())];
    assert_eq!(get(&Gateway::start(&listed(&endpoints, "balance: {policy: hash, by: path}")), "/", ""), "a");
}
