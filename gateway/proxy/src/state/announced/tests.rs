//! Tests which client trusted proxies announce.

use tollgate_http::HeadLimits;
use tollgate_http::h1::RequestParser;
use tollgate_plan::Cidr;

use super::*;

fn request(lines: &str) -> RequestHead {
    let mut request = RequestHead::default();
    let head = format!("GET / HTTP/1.1\r\nHost: own.example:81\r\n{lines}\r\n");
    let limits = HeadLimits { line: 1024, head: 4096, fields: 16 };
    RequestParser::default().advance(head.as_bytes(), &mut request, &limits).expect("a good head");
    request
}

fn block(text: &str, prefix: u8) -> Cidr {
    Cidr { address: text.parse().expect("an address"), prefix }
}

const PEER: &str = "10.0.0.1:5000";

fn announced(lines: &str, peer: &str) -> (Announced, RequestHead) {
    let trusted_proxies = vec![block("10.0.0.0", 8), block("2001:db8::", 32)];
    let settings = Forwarded { trusted_proxies, ..Forwarded::default() };
    let peer: SocketAddr = peer.parse().expect("an address");
    let (mut announced, mut request) = (Announced::default(), request(lines));
    announced.read(&settings, &mut request, peer.ip());
    (announced, request)
}

fn client(lines: &str, peer: &str) -> String {
    let client = announced(lines, peer).0.client(peer.parse().expect("an address"));
    if client.port() == 0 { client.ip().to_string() } else { client.to_string() }
}

#[test]
fn addresses_behind_proxies() {
    for (lines, found) in [
        ("", PEER),
        ("X-Forwarded-For: 192.0.2.1\r\n", "192.0.2.1"),
        ("X-Forwarded-For: 192.0.2.9, 192.0.2.1, 10.0.0.2\r\n", "192.0.2.1"),
        ("X-Forwarded-For: 192.0.2.9\r\nX-Forwarded-For: 192.0.2.1\r\n", "192.0.2.1"),
        ("X-Forwarded-For: 192.0.2.1,, ,10.0.0.2,\r\n", "192.0.2.1"),
        ("X-Forwarded-For: 10.0.0.3, 10.0.0.2\r\n", "10.0.0.3"),
        ("X-Forwarded-For: 192.0.2.9, unknown, 10.0.0.2\r\n", "10.0.0.2"),
        ("X-Forwarded-For: unknown\r\n", PEER),
        ("X-Forwarded-For: 192.0.2.1:4711\r\n", "192.0.2.1:4711"),
        ("X-Forwarded-For: 192.0.2.1:x\r\n", PEER),
        ("X-Forwarded-For: [2001:db9::1]:4711, [2001:db8::1]\r\n", "[2001:db9::1]:4711"),
        ("X-Forwarded-For: \"[2001:db9::1]\"\r\n", "2001:db9::1"),
        ("X-Forwarded-For: fe80::1%eth0\r\n", "fe80::1"),
        ("X-Forwarded-For: ::ffff:192.0.2.1\r\n", "192.0.2.1"),
        (
            "Forwarded: for=192.0.2.9;proto=http, proto=http;For=\"192.0.2.1:80\", for=10.0.0.2\r\n",
            "192.0.2.1:80",
        ),
        ("Forwarded: for=\"[2001:db9::1]\"\r\n", "2001:db9::1"),
        ("Forwarded: for=\"[2001:db9::1]:_gazonk\"\r\n", "2001:db9::1"),
        ("Forwarded: for=\"192.0.2.1:_x\"\r\nForwarded: for=10.0.0.2\r\n", "192.0.2.1"),
        ("Forwarded: for=_hidden, for=10.0.0.2\r\n", "10.0.0.2"),
        ("Forwarded: for=_hidden\r\n", PEER),
        // An open quote and a comma in quotes hide no element of the proxy's.
        ("Forwarded: for=\"192.0.2.9, for=192.0.2.1\r\n", "192.0.2.1"),
        ("Forwarded: for=192.0.2.1;x=\"a, for=192.0.2.9\"\r\n", "192.0.2.1"),
        ("X-Real-IP: 192.0.2.1\r\n", "192.0.2.1"),
        ("X-Real-IP: 192.0.2.9\r\nX-Forwarded-For: 192.0.2.1\r\n", "192.0.2.1"),
        ("X-Real-IP: 192.0.2.9\r\nForwarded: for=192.0.2.1\r\n", "192.0.2.1"),
        ("Forwarded: for=192.0.2.9\r\nX-Forwarded-For: 192.0.2.1\r\n", "192.0.2.1"),
    ] {
        assert_eq!(client(lines, PEER), found, "{lines}");
    }
    let other = "198.51.100.1:1";
    assert_eq!(client("X-Forwarded-For: 192.0.2.1\r\n", other), other, "not to be believed");
}

#[test]
fn every_name_of_the_scheme() {
    for (lines, secure) in [
        ("", None),
        ("X-Forwarded-Proto: https\r\n", Some(true)),
        ("X-Forwarded-Proto: HTTPS\r\n", Some(true)),
        ("X-Forwarded-Proto: wss\r\n", Some(true)),
        ("X-Forwarded-Proto: ws\r\n", Some(false)),
        ("X-Forwarded-Proto: gopher\r\n", None),
        ("X-Forwarded-Proto: https,http\r\n", Some(true)),
        ("X-Forwarded-Proto: https, http\r\nX-Forwarded-For: 192.0.2.1, 10.0.0.2\r\n", Some(true)),
        ("X-Forwarded-Proto: https, http\r\nX-Forwarded-For: 192.0.2.9, 192.0.2.1\r\n", Some(false)),
        ("X-Forwarded-Proto: http\r\nX-Forwarded-Ssl: on\r\n", Some(false)),
        ("Forwarded: proto=https\r\n", Some(true)),
        ("Forwarded: for=192.0.2.1;proto=\"https\", for=10.0.0.2;proto=http\r\n", Some(true)),
        ("Forwarded: for=192.0.2.9;proto=https, for=192.0.2.1;proto=http\r\n", Some(false)),
        ("Forwarded: for=192.0.2.1;proto=https\r\nX-Forwarded-For: 192.0.2.1\r\n", Some(true)),
        ("Forwarded: for=192.0.2.9;proto=https\r\nX-Forwarded-For: 192.0.2.1\r\n", None),
        ("X-Forwarded-Ssl: on\r\n", Some(true)),
        ("X-Forwarded-Ssl: off\r\n", Some(false)),
        ("Front-End-Https: On\r\n", Some(true)),
        ("X-Forwarded-Scheme: https\r\n", Some(true)),
        ("X-Forwarded-Protocol: https\r\n", Some(true)),
        ("X-Url-Scheme: https\r\n", Some(true)),
        ("X-Scheme: https\r\n", Some(true)),
        ("CloudFront-Forwarded-Proto: https\r\n", Some(true)),
        ("Fastly-SSL: 1\r\n", Some(true)),
        ("X-ARR-SSL: 2048|256|C=US, S=Washington|CN=a.example\r\n", Some(true)),
        ("X-AppEngine-Https: off\r\n", Some(false)),
        ("CF-Visitor: {\"scheme\": \"https\"}\r\n", Some(true)),
        ("CF-Visitor: {\"scheme\":\"http\"}\r\n", Some(false)),
    ] {
        let (announced, _) = announced(lines, PEER);
        assert_eq!(announced.is_secure(true), secure.unwrap_or(true), "{lines}");
        assert_eq!(announced.is_secure(false), secure.unwrap_or(false), "{lines}");
    }
    assert!(!announced("X-Forwarded-Proto: https\r\n", "192.0.2.1:1").0.is_secure(false));
}

#[test]
fn hosts_and_ports() {
    for (lines, host, port, further) in [
        ("", "own.example", ":81", None),
        ("X-Forwarded-Host: a.example\r\n", "a.example", "", None),
        ("X-Forwarded-Host: a.example:8443\r\n", "a.example", ":8443", None),
        ("X-Forwarded-Host: [2001:db8::1]:8443\r\n", "[2001:db8::1]", ":8443", None),
        ("X-Forwarded-Host: a.example, b.example\r\n", "a.example", "", None),
        ("X-Forwarded-Host: a/b\r\n", "own.example", ":81", None),
        ("X-Forwarded-Host: a.example:x\r\n", "own.example", ":81", None),
        ("X-Forwarded-Host: a.example:65536\r\n", "own.example", ":81", None),
        ("Forwarded: host=\"a.example:8443\"\r\n", "a.example", ":8443", None),
        ("X-Forwarded-Host: a.example\r\nX-Forwarded-Port: 8443\r\n", "a.example", "", Some(8443)),
        ("X-Forwarded-Port: 443\r\n", "own.example", ":81", None),
        ("X-Forwarded-Port: 0x1\r\n", "own.example", ":81", None),
        ("X-Forwarded-Port: 65535\r\n", "own.example", ":81", Some(65_535)),
        ("X-Forwarded-Port: 65536\r\n", "own.example", ":81", None),
        ("X-Forwarded-Port: 0\r\n", "own.example", ":81", None),
        ("X-Forwarded-Port: -1\r\n", "own.example", ":81", None),
        ("X-Forwarded-Port: +8443\r\n", "own.example", ":81", None),
        ("X-Forwarded-Port: 18446744073709551617\r\n", "own.example", ":81", None),
    ] {
        let (announced, request) = announced(lines, PEER);
        let expected = (host.as_bytes(), port.as_bytes());
        assert_eq!(announced.host_and_port(&request), expected, "{lines}");
        assert_eq!(announced.port(), further, "{lines}");
    }
}

#[test]
fn a_contradicting_forwarded_goes_no_further() {
    let lines = "X-Forwarded-For: 192.0.2.1\r\nForwarded: for=192.0.2.9;host=evil\r\n";
    let (announcement, request) = announced(lines, PEER);
    assert!(!request.head.has(Name::Forwarded));
    assert_eq!(announcement.authority(&request), b"own.example:81");
    let (_, request) = announced("X-Forwarded-For: 192.0.2.1\r\nForwarded: for=192.0.2.1\r\n", PEER);
    assert!(request.head.has(Name::Forwarded));
}
