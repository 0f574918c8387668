//! Fields by which services trust a proxy. The gateway removes them if the peer is not trusted.

use tollgate_tests::frames::pseudo;
use tollgate_tests::http2::request;
use tollgate_tests::{Gateway, Origin, Request, tollgate};

/// One or more fields of each kind that `docs/forwarded.md` lists.
const CLAIMS: [&str; 30] = [
    "X-Forwarded-Prefix",
    "X-Forwarded-Ssl",
    "X-Forwarded-Scheme",
    "X-Forwarded-Server",
    "X-Forwarded-Port",
    "X-Forwarded-By",
    "X-Forwarded-Client-Cert",
    "X-Forwarded",
    "X-Original-URL",
    "X-Original-Uri",
    "X-Original-Host",
    "X-Rewrite-URL",
    "X-Real-IP",
    "X-Client-IP",
    "True-Client-IP",
    "CF-Connecting-IP",
    "X-Cluster-Client-Ip",
    "Front-End-Https",
    "X-Url-Scheme",
    "X-Envoy-External-Address",
    "X-Envoy-Downstream-Service-Cluster",
    "X-SSL-Client-Cert",
    "Remote-User",
    "WL-Proxy-Client-IP",
    "X-Original-Prefix",
    "Script-Name",
    "X-Accel-Mapping",
    "X-MS-Forwarded-Client-IP",
    "EO-Connecting-IP",
    "Proxy",
];
/// Names that resemble such fields but are none.
const OTHERS: [&str; 4] = ["X-HTTP-Method-Override", "X-Requested-With", "X-Original", "Client-Id"];

fn lines(names: &[&str]) -> String {
    names.iter().map(|name| format!("{name}: claimed\r\n")).collect()
}

fn last(origin: &Origin) -> Request {
    origin.requests().pop().expect("a request")
}

fn claimed(request: &Request) -> Vec<&str> {
    let fields = request.headers.0.iter();
    fields.filter(|(_, value)| value == "claimed").map(|(name, _)| name.as_str()).collect()
}

#[test]
fn a_peer_that_is_not_trusted_claims_nothing() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    let underscored: Vec<String> = CLAIMS.iter().map(|name| name.replacen('-', "_", 1)).collect();
    let underscored: Vec<&str> =
        underscored.iter().map(String::as_str).filter(|name| name.contains('_')).collect();
    let all = [&OTHERS[..2], &CLAIMS, &underscored, &OTHERS[2..]].concat();
    let mut client = gateway.client();
    let text = lines(&all);
    assert_eq!(client.ask(format!("GET / HTTP/1.1\r\nHost: a.example\r\n{text}\r\n")).status, 200);
    let seen = last(&origin);
    assert_eq!(claimed(&seen), OTHERS, "{seen:?}");
    assert_eq!(seen.headers.all("Host"), ["a.example"]);
    // In lower and upper case.
    for text in [
        text.to_lowercase(),
        lines(
            &all.iter()
                .map(|name| name.to_uppercase())
                .collect::<Vec<_>>()
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>(),
        ),
    ] {
        client.ask(format!("POST /x HTTP/1.1\r\n{text}Host: a\r\nContent-Length: 2\r\n\r\nhi"));
        assert_eq!((claimed(&last(&origin)).len(), last(&origin).body), (OTHERS.len(), b"hi".to_vec()));
    }
    // In trailers the gateway always drops them.
    client.ask(format!(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n{}X-Sum: 1\r\n\r\n",
        lines(&CLAIMS)
    ));
    assert_eq!(last(&origin).trailers.names(), ["X-Sum"]);

    let fields: Vec<(String, &str)> = all.iter().map(|name| (name.to_lowercase(), "claimed")).collect();
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    assert_eq!(gateway.http2().ask(request("GET", "/", &fields)).status, 200);
    assert_eq!(claimed(&last(&origin)), OTHERS.map(str::to_lowercase));
    let mut frames = gateway.frames(&[]);
    frames.ask(1, &[&pseudo("/")[..], &fields].concat());
    assert!(frames.wait_for(|frame| frame.status() == Some(200)).is_some());
    assert_eq!(claimed(&last(&origin)).len(), OTHERS.len());
}

#[test]
fn no_route_and_no_policy_believes_it_either() {
    let origin = Origin::ok();
    let gateway = Gateway::start(&format!(
        "routes:\n- {{match: {{path: /*, headers: {{X-Original-URL: claimed}}}}, respond: 418}}\n\
         - match: /*\n  to: \"{}\"\n  policies: {{headers: {{request: {{set: {{X-Forwarded-Prefix: /own}}, add: {{Remote-User: own}}}}}}}}\n",
        origin.address()
    ));
    let response = gateway.client().ask(format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", lines(&CLAIMS)));
    assert_eq!(response.status, 200);
    let seen = last(&origin);
    assert_eq!(seen.headers.all("X-Forwarded-Prefix"), ["/own"], "what the operator writes goes on");
    assert_eq!(seen.headers.all("Remote-User"), ["own"]);
    assert!(!seen.headers.has("X-Original-URL"));
}

#[test]
fn a_trusted_peer_is_believed() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "forwarded: {trusted_proxies: [127.0.0.0/8]}");
    gateway.client().ask(format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", lines(&CLAIMS)));
    assert_eq!(claimed(&last(&origin)), CLAIMS);
}

#[test]
fn fields_can_be_kept_one_by_one() {
    let origin = Origin::ok();
    let keep = ["X-Forwarded-Prefix", "X-Real-IP", "X-Original-URL"];
    let gateway =
        Gateway::with(&origin, "forwarded: {keep: [x-forwarded-prefix, X-Real-IP, X-Original-Url]}");
    gateway.client().ask(format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", lines(&CLAIMS)));
    let mut seen = claimed(&last(&origin)).iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    seen.sort();
    assert_eq!(seen, ["X-Forwarded-Prefix", "X-Original-URL", "X-Real-IP"]);
    assert!(keep.iter().all(|name| seen.iter().any(|seen| seen == name)));
    // With the switch off, the `X-Forwarded-*` fields pass as the client sent them; the others do not.
    let gateway = Gateway::with(&origin, "forwarded: {x_forwarded: off}");
    gateway.client().ask(format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", lines(&CLAIMS)));
    let seen = last(&origin);
    assert!(seen.headers.has("X-Forwarded-Prefix") && !seen.headers.has("X-Original-URL"), "{seen:?}");
}

#[test]
fn an_ineffective_keep_entry_is_an_error() {
    let folder = std::env::temp_dir().join(format!("tollgate-keep-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("tollgate.yaml");
    for (name, says) in [
        ("X-Custom", "is none of the fields that are removed"),
        ("X-Forwarded-For", "describes the client, and only the gateway sets it"),
        ("a b", "a b"),
    ] {
        let text = format!(
            "listen: 127.0.0.1:0\nforwarded:\n  keep: [{name}]\nroutes: [{{match: /, respond: 204}}]\n"
        );
        std::fs::write(&file, text).expect("written");
        let ran = tollgate(&["check", file.to_str().expect("a path")]);
        let said = ran.all();
        assert!(ran.code != Some(0) && said.contains(says), "{name}: {said}");
        assert!(said.contains("tollgate.yaml:3:"), "{said}");
    }
    let _ = std::fs::remove_dir_all(folder);
}
