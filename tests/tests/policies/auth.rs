//! Rules that hold for every policy that identifies clients, under attacks on identity and on authorisation.

use std::any::Any;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use tollgate_tests::http2::{Http2, request as h2_request};
use tollgate_tests::{Client, Gateway, Http2Origin, Origin, Request, Response, TlsFront, TlsPeer};

use super::{api_key, basic, ext_authz, forward_auth, hmac, jwt};
use crate::tls::{self, Files};

/// The size of an HTTP/2 stream's window.
const WINDOW: u32 = 1 << 20;

/// A policy, and the credentials that it accepts.
struct Case {
    name: &'static str,
    /// The rest of the configuration.
    config: String,
    /// The policies of the guarded route.
    policy: String,
    /// The credentials of `alice` for a request with this method for `/admin/x`.
    shows: fn(&str) -> Fields,
    /// Credentials that no consumer has, with the expected status and reason.
    wrong: Option<(Fields, u16, &'static str)>,
    /// The expected status and reason without credentials.
    nothing: (u16, &'static str),
    /// Whether the same credentials sent twice are refused.
    once: bool,
    /// Fields that go upstream and that no client may set.
    reserved: &'static [&'static str],
    /// The service that the policy calls, kept alive here.
    _service: Option<Box<dyn Any>>,
}

impl Case {
    /// Returns how many requests [`missing_and_wrong_credentials_are_refused`] sends that must be
    /// refused. It sends each in both versions of HTTP.
    fn turned_away(&self) -> f64 {
        let wrong = if self.wrong.is_some() { 4.0 } else { 0.0 };
        let twice = if self.once { 2.0 } else { 0.0 };
        2.0 + wrong + twice
    }
}

type Fields = Vec<(&'static str, String)>;

/// The name of the guarded route.
const GUARDED: &str = "guarded";

const NAMES: &[&str] = &["X-Consumer-Name", "X-Consumer-Groups"];
const MISSING: (u16, &str) = (401, "credentials_missing");

fn refused_with(fields: Fields) -> Option<(Fields, u16, &'static str)> {
    Some((fields, 401, "credentials_refused"))
}

fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "api_key",
            config: api_key::consumers(),
            policy: "api_key: on".to_owned(),
            shows: |_| vec![("X-Api-Key", api_key::ALICE.to_owned())],
            wrong: refused_with(vec![("X-Api-Key", "0123456789abcdef0123456789abcdef".to_owned())]),
            nothing: MISSING,
            once: true,
            reserved: NAMES,
            _service: None,
        },
        Case {
            name: "basic",
            config: basic::consumers(),
            policy: "basic: on".to_owned(),
            shows: |_| vec![("Authorization", basic::shown("alice", "correct horse"))],
            wrong: refused_with(vec![("Authorization", basic::shown("alice", "correct"))]),
            nothing: MISSING,
            once: true,
            reserved: NAMES,
            _service: None,
        },
        Case {
            name: "jwt",
            config: String::new(),
            policy: format!("jwt: {{secret: {}, claim_headers: {{X-Role: role}}}}", jwt::SECRET),
            shows: |_| vec![("Authorization", format!("Bearer {}", jwt::hs256(jwt::ALICE)))],
            wrong: refused_with(vec![("Authorization", format!("Bearer {}x", jwt::hs256(jwt::ALICE)))]),
            nothing: MISSING,
            once: true,
            reserved: &["X-Consumer-Name", "X-Consumer-Groups", "X-Role"],
            _service: None,
        },
        Case {
            name: "authorize",
            config: api_key::consumers(),
            policy: "api_key: on, authorize: {allow: {groups: admin}}".to_owned(),
            shows: |_| vec![("X-Api-Key", api_key::ALICE.to_owned())],
            // Bob is identified, and does not become an admin by a forged field.
            wrong: Some((
                vec![("X-Api-Key", api_key::BOB.to_owned()), ("X-Consumer-Groups", "admin".to_owned())],
                403,
                "not_authorized",
            )),
            nothing: MISSING,
            once: true,
            reserved: NAMES,
            _service: None,
        },
        Case {
            name: "hmac",
            config: hmac::consumers(),
            policy: "hmac: on".to_owned(),
            shows: |method| hmac::signed(method, "/admin/x"),
            wrong: refused_with(hmac::signed("GET", "/admin/y")),
            nothing: MISSING,
            // The same signature twice counts as one.
            once: false,
            reserved: NAMES,
            _service: None,
        },
        Case {
            name: "client_certificate",
            config: "listen: {bind: $LISTEN, tls: {$A, client_certificates: {ca: $FILES/ca.pem, mode: optional}}}\n\
                     consumers: {alice: {groups: [admin, dev], certificates: \"DNS:alice.example\"}}\n"
                .to_owned(),
            policy: "client_certificate: {allow: \"DNS:alice.example\"}".to_owned(),
            // The certificate is presented before any request.
            shows: |_| Vec::new(),
            wrong: None,
            nothing: (403, "not_authorized"),
            once: false,
            reserved: NAMES,
            _service: None,
        },
        Case {
            name: "any_of",
            config: api_key::consumers(),
            policy: format!("any_of: [{{basic: on}}, {{api_key: on}}, {{jwt: {{secret: {}}}}}]", jwt::SECRET),
            shows: |_| vec![("X-Api-Key", api_key::ALICE.to_owned())],
            wrong: None,
            nothing: MISSING,
            once: true,
            reserved: NAMES,
            _service: None,
        },
        asks("forward_auth", forward_auth::service(), Origin::address),
        asks("ext_authz", ext_authz::service(), Http2Origin::address),
    ]
}

/// Returns a policy that calls this service. The service admits requests with `X-Pass: yes`, and returns the
/// identity in fields that the upstream may receive too.
fn asks<S: 'static>(name: &'static str, service: S, address: fn(&S) -> SocketAddr) -> Case {
    let url = format!("http://{}", address(&service));
    Case {
        name,
        config: String::new(),
        policy: format!(
            "{name}: {{url: \"{url}\", timeout: 10s, consumer: X-Consumer-Name, groups: X-Groups}}"
        ),
        shows: |_| vec![("X-Pass", "yes".to_owned())],
        wrong: None,
        // The service's own answer.
        nothing: (401, "-"),
        once: false,
        reserved: NAMES,
        _service: Some(Box::new(service)),
    }
}

/// A gateway with a guarded route `/admin/*`; all other paths are open.
struct Guarded {
    case: Case,
    origin: Origin,
    /// The address on which alice connects.
    alice: SocketAddr,
    /// The address on which others connect.
    others: SocketAddr,
    gateway: Gateway,
    _files: Option<Files>,
}

impl Guarded {
    fn new(case: Case) -> Self {
        let origin = Origin::ok();
        let yaml = format!(
            "{}\nroutes:\n- {{name: {GUARDED}, match: /admin/*, to: it, policies: {{{}}}}}\n- {{match: /*, to: it}}\n\
             upstreams: {{it: \"{}\"}}\n",
            case.config,
            case.policy,
            origin.address()
        );
        if !yaml.contains("$FILES") {
            let gateway = Gateway::start(&yaml);
            let address = gateway.address();
            return Self { case, origin, alice: address, others: address, gateway, _files: None };
        }
        let (gateway, authority, files) = tls::gateway(&yaml);
        let front = |name: &str| {
            let own = authority.issue(&[name]);
            TlsFront::start(gateway.address(), "a.example", || TlsPeer::showing(&authority, &own)).address()
        };
        let (alice, others) = (front("alice.example"), front("bob.example"));
        Self { case, origin, alice, others, gateway, _files: Some(files) }
    }

    /// Returns alice's credentials after these fields.
    fn with(&self, method: &str, more: &[(&'static str, &str)]) -> Fields {
        let more = more.iter().map(|(name, value)| (*name, (*value).to_owned()));
        more.chain((self.case.shows)(method)).collect()
    }

    /// Asserts that both versions of the request pass. Returns the requests that the upstream received.
    fn passed(&self, fields: &[(&str, String)]) -> [Request; 2] {
        let before = self.origin.count();
        for answer in both_at(self.alice, "/admin/x", &borrowed(fields)) {
            assert_eq!(answer.status, 200, "{}: {fields:?}: {answer:?}", self.case.name);
        }
        let got = self.origin.requests();
        assert_eq!(got.len(), before + 2);
        [got[before].clone(), got[before + 1].clone()]
    }

    /// Asserts that both versions of the request are refused with this status and reason, and that nothing
    /// goes upstream.
    fn refused(&self, at: SocketAddr, fields: &[(&str, String)], (status, reason): (u16, &str)) {
        let before = self.origin.count();
        for answer in both_at(at, "/admin/x", &borrowed(fields)) {
            let name = self.case.name;
            assert_eq!((answer.status, answer.reason()), (status, reason), "{name}: {fields:?}");
            assert!(status != 401 || answer.headers.has("WWW-Authenticate"), "RFC 9110, 11.6.1: {answer:?}");
        }
        assert_eq!(self.origin.count(), before, "{}: {fields:?}", self.case.name);
    }
}

fn borrowed<'a>(fields: &'a [(&str, String)]) -> Vec<(&'a str, &'a str)> {
    fields.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

/// Sends the same request in both versions of HTTP.
pub fn both(gateway: &Gateway, path: &str, fields: &[(&str, &str)]) -> [Response; 2] {
    ask_both(gateway.client(), gateway.http2(), path, fields)
}

fn both_at(address: SocketAddr, path: &str, fields: &[(&str, &str)]) -> [Response; 2] {
    let http2 = Http2::connect(address, Arc::default(), WINDOW);
    ask_both(Client::connect(address, Arc::default()), http2, path, fields)
}

fn ask_both(mut http1: Client, mut http2: Http2, path: &str, fields: &[(&str, &str)]) -> [Response; 2] {
    let mut text = format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n");
    for (name, value) in fields {
        let _ = write!(text, "{name}: {value}\r\n");
    }
    let lower: Vec<_> = fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), *value)).collect();
    let lower: Vec<_> = lower.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let one = http1.ask(format!("{text}\r\n"));
    let two = http2.ask(h2_request("GET", path, &lower));
    [one, two]
}

/// Asserts that both versions of the request are refused with this status and reason, and that nothing goes
/// upstream.
pub fn refused(gateway: &Gateway, origin: &Origin, fields: &[(&str, &str)], status: u16, reason: &str) {
    let before = origin.count();
    for answer in both(gateway, "/admin/x", fields) {
        assert_eq!((answer.status, answer.reason()), (status, reason), "{fields:?}");
        assert!(status != 401 || answer.headers.has("WWW-Authenticate"), "RFC 9110, 11.6.1: {answer:?}");
    }
    assert_eq!(origin.count(), before, "{fields:?}");
}

/// Asserts that both versions of the request pass. Returns the requests that the upstream received.
pub fn passed(gateway: &Gateway, origin: &Origin, fields: &[(&str, &str)]) -> [Request; 2] {
    let before = origin.count();
    for answer in both(gateway, "/admin/x", fields) {
        assert_eq!(answer.status, 200, "{fields:?}: {answer:?}");
    }
    let got = origin.requests();
    assert_eq!(got.len(), before + 2);
    [got[before].clone(), got[before + 1].clone()]
}

/// Returns the values of all fields with this name, under any separator between its words.
fn all_like(request: &Request, name: &str) -> Vec<String> {
    let plain = |name: &str| name.to_ascii_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let fields = request.headers.0.iter().chain(&request.trailers.0);
    fields.filter(|(own, _)| plain(own) == plain(name)).map(|(_, value)| value.clone()).collect()
}

#[test]
fn missing_and_wrong_credentials_are_refused() {
    for guarded in cases().into_iter().map(Guarded::new) {
        guarded.refused(guarded.others, &[], guarded.case.nothing);
        let good = guarded.with("GET", &[]);
        if let Some((wrong, status, reason)) = &guarded.case.wrong {
            guarded.refused(guarded.others, wrong, (*status, reason));
            let both = [good.clone(), wrong.clone()].concat();
            guarded.refused(guarded.others, &both, (401, "credentials_refused"));
        }
        if guarded.case.once {
            guarded.refused(
                guarded.others,
                &[good.clone(), good.clone()].concat(),
                (401, "credentials_refused"),
            );
        }
        for got in guarded.passed(&good) {
            assert_eq!(got.headers.all("X-Consumer-Name"), ["alice"], "{}", guarded.case.name);
        }
        // Each refused request is counted under the route's policy.
        let metrics = guarded.gateway.metrics();
        let ended = ["refused", "answered"].map(|event| {
            let labels = format!("place=\"route/{GUARDED}\",event=\"{event}\"");
            metrics.sum("tollgate_policy_events_total", &labels).unwrap_or(0.0)
        });
        let turned_away = guarded.case.turned_away();
        assert_eq!(ended.iter().sum::<f64>(), turned_away, "{}: {ended:?}", guarded.case.name);
    }
}

#[test]
fn clients_cannot_send_identity_fields() {
    for guarded in cases().into_iter().map(Guarded::new) {
        let (case, good) = (&guarded.case, guarded.with("GET", &[]));
        for reserved in case.reserved {
            let honest = guarded.passed(&good).map(|got| all_like(&got, reserved));
            assert_eq!(honest[0].len(), 1, "{}: {reserved}", case.name);
            let aliases = [
                reserved.to_string(),
                reserved.to_uppercase(),
                reserved.replace('-', "_"),
                reserved.replace('-', "."),
            ];
            for alias in &aliases {
                let own = [(alias.as_str(), "root".to_owned())];
                let spoofed = guarded.passed(&[&own[..], &good[..], &own[..]].concat());
                assert_eq!(spoofed.map(|got| all_like(&got, reserved)), honest, "{}: {alias}", case.name);
            }
            // RFC 9110, 7.6.1: a proxy removes fields that `Connection` names. This must not remove the
            // gateway's own fields.
            let lines: String = good.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            Client::connect(guarded.alice, Arc::default()).ask(format!(
                "GET /admin/x HTTP/1.1\r\nHost: a.example\r\nConnection: {reserved}\r\n{lines}{reserved}: root\r\n\r\n"
            ));
            let got = guarded.origin.requests().pop().expect("a request");
            assert_eq!(all_like(&got, reserved), honest[0], "{}: {reserved}", case.name);
        }
    }
}

#[test]
fn clients_cannot_send_identity_trailers() {
    for guarded in cases().into_iter().map(Guarded::new) {
        let (name, good) = (guarded.case.name, guarded.with("POST", &[]));
        let lines: String = good.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let alias = "x_consumer_name";
        let answer = Client::connect(guarded.alice, Arc::default()).ask(format!(
            "POST /admin/x HTTP/1.1\r\nHost: a.example\r\n{lines}Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\
             X-Consumer-Name: root\r\n{alias}: root\r\nX-Fine: 1\r\n\r\n"
        ));
        assert_eq!(answer.status, 200, "{name}: {answer:?}");
        let mut client = Http2::connect(guarded.alice, Arc::default(), WINDOW);
        let lower: Vec<_> = good.iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        let lower: Vec<_> = lower.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let mut stream = client.begin(h2_request("POST", "/admin/x", &lower), false).expect("begun");
        stream.send("a", false).expect("sent");
        stream.send_trailers(&[("x-consumer-name", "root"), (alias, "root"), ("x-fine", "1")]).expect("sent");
        assert_eq!(stream.response().expect("an answer").status, 200, "{name}");
        for got in guarded.origin.requests() {
            assert_eq!(all_like(&got, "X-Consumer-Name"), ["alice"], "{name}: {got:?}");
            assert_eq!(got.trailers.all("X-Fine"), ["1"], "{name}");
        }
    }
}

/// Returns a path as an endpoint might read it that decodes once, treats `\` as `/`, and removes dot
/// segments. For endpoints that cut off `;x` too, see the warning in docs/paths.md.
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
fn the_authorised_request_is_the_forwarded_one() {
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
    // A client that is admitted by its address alone has no consumer name.
    let by_address = Case {
        name: "ip",
        config: String::new(),
        policy: "ip: {deny: 127.0.0.1}".to_owned(),
        shows: |_| Vec::new(),
        wrong: None,
        nothing: (403, "address_denied"),
        once: false,
        reserved: &[],
        _service: None,
    };
    for guarded in cases().into_iter().chain([by_address]).map(Guarded::new) {
        let (name, origin) = (guarded.case.name, &guarded.origin);
        guarded.refused(guarded.others, &[], guarded.case.nothing);
        for path in PATHS {
            let before = origin.count();
            let answers = both_at(guarded.others, path, &[]);
            for got in &origin.requests()[before..] {
                let read = as_read_by_anybody(&got.target);
                assert!(!read.starts_with("/admin/"), "{name}: {path} went through as {}", got.target);
            }
            assert_eq!(answers[0].status, answers[1].status, "{name}: {path}");
        }
    }
}
