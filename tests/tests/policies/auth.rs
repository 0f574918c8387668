//! What every policy holds that says who somebody is: attacks on who somebody is, and on what is authorised.

use std::fmt::Write as _;

use tollgate_tests::{Gateway, Origin, Request, Response, http2};

use super::{api_key, basic, jwt};

/// A policy, and what lets somebody in.
struct Case {
    name: &'static str,
    /// The rest of the configuration.
    config: String,
    /// Of the guarded route.
    policy: String,
    /// What `alice` shows.
    shows: (&'static str, String),
    /// What nobody has.
    wrong: (&'static str, String),
    /// Fields that go upstream and that no client may write.
    reserved: &'static [&'static str],
}

fn cases() -> Vec<Case> {
    let names = &["X-Consumer-Name", "X-Consumer-Groups"][..];
    vec![
        Case {
            name: "api_key",
            config: api_key::consumers(),
            policy: "api_key: on".to_owned(),
            shows: ("X-Api-Key", api_key::ALICE.to_owned()),
            wrong: ("X-Api-Key", "0123456789abcdef0123456789abcdef".to_owned()),
            reserved: names,
        },
        Case {
            name: "basic",
            config: basic::consumers(),
            policy: "basic: on".to_owned(),
            shows: ("Authorization", basic::shown("alice", "correct horse")),
            wrong: ("Authorization", basic::shown("alice", "correct")),
            reserved: names,
        },
        Case {
            name: "jwt",
            config: String::new(),
            policy: format!("jwt: {{secret: {}, claim_headers: {{X-Role: role}}}}", jwt::SECRET),
            shows: ("Authorization", format!("Bearer {}", jwt::hs256(jwt::ALICE))),
            wrong: ("Authorization", format!("Bearer {}x", jwt::hs256(jwt::ALICE))),
            reserved: &["X-Consumer-Name", "X-Consumer-Groups", "X-Role"],
        },
    ]
}

/// `/admin/*` is guarded, everything else is open.
fn guarded(case: &Case, origin: &Origin) -> Gateway {
    Gateway::start(&format!(
        "{}\nroutes:\n- {{match: /admin/*, to: it, policies: {{{}}}}}\n- {{match: /*, to: it}}\n\
         upstreams: {{it: \"{}\"}}\n",
        case.config,
        case.policy,
        origin.address()
    ))
}

/// The same request in both versions of HTTP.
pub fn both(gateway: &Gateway, path: &str, fields: &[(&str, &str)]) -> [Response; 2] {
    let mut text = format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n");
    for (name, value) in fields {
        let _ = write!(text, "{name}: {value}\r\n");
    }
    let lower: Vec<_> = fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), *value)).collect();
    let lower: Vec<_> = lower.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let one = gateway.client().ask(format!("{text}\r\n"));
    let two = gateway.http2().ask(http2::request("GET", path, &lower));
    [one, two]
}

/// Both are refused for this reason, and nothing goes upstream.
pub fn refused(gateway: &Gateway, origin: &Origin, fields: &[(&str, &str)], status: u16, reason: &str) {
    let before = origin.count();
    for answer in both(gateway, "/admin/x", fields) {
        assert_eq!((answer.status, answer.reason()), (status, reason), "{fields:?}");
        assert!(status != 401 || answer.headers.has("WWW-Authenticate"), "RFC 9110, 11.6.1: {answer:?}");
    }
    assert_eq!(origin.count(), before, "{fields:?}");
}

/// Both pass; gives what the upstream got.
pub fn passed(gateway: &Gateway, origin: &Origin, fields: &[(&str, &str)]) -> [Request; 2] {
    let before = origin.count();
    for answer in both(gateway, "/admin/x", fields) {
        assert_eq!(answer.status, 200, "{fields:?}: {answer:?}");
    }
    let got = origin.requests();
    assert_eq!(got.len(), before + 2);
    [got[before].clone(), got[before + 1].clone()]
}

/// The values of a field whose name is this one, whatever stands between its words.
fn all_like(request: &Request, name: &str) -> Vec<String> {
    let plain = |name: &str| name.to_ascii_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let fields = request.headers.0.iter().chain(&request.trailers.0);
    fields.filter(|(own, _)| plain(own) == plain(name)).map(|(_, value)| value.clone()).collect()
}

#[test]
fn who_shows_nothing_or_something_wrong_gets_401() {
    for case in cases() {
        let origin = Origin::ok();
        let gateway = guarded(&case, &origin);
        refused(&gateway, &origin, &[], 401, "credentials_missing");
        let (name, wrong) = &case.wrong;
        refused(&gateway, &origin, &[(name, wrong)], 401, "credentials_refused");
        let (name, good) = &case.shows;
        refused(&gateway, &origin, &[(name, good), (name, wrong)], 401, "credentials_refused");
        refused(&gateway, &origin, &[(name, good), (name, good)], 401, "credentials_refused");
        for got in passed(&gateway, &origin, &[(name, good)]) {
            assert_eq!(got.headers.all("X-Consumer-Name"), ["alice"], "{}", case.name);
        }
    }
}

#[test]
fn nobody_says_himself_who_he_is() {
    for case in cases() {
        let origin = Origin::ok();
        let gateway = guarded(&case, &origin);
        let (name, good) = (case.shows.0, case.shows.1.as_str());
        for reserved in case.reserved {
            let honest = passed(&gateway, &origin, &[(name, good)]).map(|got| all_like(&got, reserved));
            assert_eq!(honest[0].len(), 1, "{}: {reserved}", case.name);
            let aliases = [
                reserved.to_string(),
                reserved.to_uppercase(),
                reserved.replace('-', "_"),
                reserved.replace('-', "."),
            ];
            for alias in &aliases {
                let spoofed = passed(&gateway, &origin, &[(alias, "root"), (name, good), (alias, "root")]);
                assert_eq!(spoofed.map(|got| all_like(&got, reserved)), honest, "{}: {alias}", case.name);
            }
            // RFC 9110, 7.6.1: what `Connection` names is not to go further. That must not take away the gateway's own.
            gateway.client().ask(format!(
                "GET /admin/x HTTP/1.1\r\nHost: a\r\nConnection: {reserved}\r\n{name}: {good}\r\n{reserved}: root\r\n\r\n"
            ));
            let got = origin.requests().pop().expect("a request");
            assert_eq!(all_like(&got, reserved), honest[0], "{}: {reserved}", case.name);
        }
    }
}

#[test]
fn nobody_says_it_behind_the_body() {
    for case in cases() {
        let origin = Origin::ok();
        let gateway = guarded(&case, &origin);
        let (name, good) = (case.shows.0, case.shows.1.as_str());
        let alias = "x_consumer_name";
        let answer = gateway.client().ask(format!(
            "POST /admin/x HTTP/1.1\r\nHost: a\r\n{name}: {good}\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\
             X-Consumer-Name: root\r\n{alias}: root\r\nX-Fine: 1\r\n\r\n"
        ));
        assert_eq!(answer.status, 200, "{}: {answer:?}", case.name);
        let mut client = gateway.http2();
        let lower = name.to_ascii_lowercase();
        let mut stream =
            client.begin(http2::request("POST", "/admin/x", &[(&lower, good)]), false).expect("begun");
        stream.send("a", false).expect("sent");
        stream.send_trailers(&[("x-consumer-name", "root"), (alias, "root"), ("x-fine", "1")]).expect("sent");
        assert_eq!(stream.response().expect("an answer").status, 200);
        for got in origin.requests() {
            assert_eq!(all_like(&got, "X-Consumer-Name"), ["alice"], "{}: {got:?}", case.name);
            assert_eq!(got.trailers.all("X-Fine"), ["1"], "{}", case.name);
        }
    }
}

/// What an endpoint might make of a path that decodes it once, takes `\` for `/`, and removes dot segments. What those make of it
/// that cut off `;x`, too, docs/paths.md warns of.
fn as_read_by_anybody(target: &str) -> String {
    let mut path = target.split('?').next().unwrap_or_default().to_owned();
    for (escape, byte) in [("%2f", "/"), ("%5c", "/"), ("%2e", "."), ("%61", "a"), ("%25", "%")] {
        path = path.replace(escape, byte).replace(&escape.to_uppercase(), byte);
    }
    let path = path.replace('\\', "/");
    let mut out: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(out.pop()),
            other => out.push(other),
        }
    }
    format!("/{}", out.join("/"))
}

#[test]
fn what_is_authorised_is_what_is_forwarded() {
    const PATHS: [&str; 16] = [
        "/admin/x",
        "//admin/x",
        "/./admin/x",
        "/a/../admin/x",
        "/a/..;/admin/x",
        "/a/%2e%2e/admin/x",
        "/%61dmin/x",
        "/admin%2Fx",
        "/admin%2fx",
        "/a/..%2Fadmin/x",
        "/a%5c..%5cadmin/x",
        "/a/.%2e/admin/x",
        "/admin%00/x",
        "/a/..%5cadmin/x",
        "/admin/../admin/x",
        "/a//../admin//x",
    ];
    for case in cases() {
        let origin = Origin::ok();
        let gateway = guarded(&case, &origin);
        for path in PATHS {
            let before = origin.count();
            let answers = both(&gateway, path, &[]);
            for got in &origin.requests()[before..] {
                let read = as_read_by_anybody(&got.target);
                assert!(!read.starts_with("/admin/"), "{}: {path} went through as {}", case.name, got.target);
            }
            assert_eq!(answers[0].status, answers[1].status, "{}: {path}", case.name);
        }
    }
}
