//! The fields by which endpoints learn of client certificates, and that no client can forge them.

use tollgate_tests::frames::{END_HEADERS, END_STREAM, PREFACE, fields, frame, kind};
use tollgate_tests::http2::request;
use tollgate_tests::{Authority, Gateway, Http2Origin, Origin, Request, TlsPeer, eventually};

use super::{Files, gateway};

/// Returns a config with two listeners: one requests certificates, the other is in plain text; `$LISTEN` is
/// the first.
fn config(origin: &Origin, forwarded: &str) -> String {
    format!(
        "listen:\n  - {{bind: $LISTEN, tls: {{$A, client_certificates: {{ca: $FILES/ca.pem, mode: optional}}}}}}\n\
         forwarded: {{{forwarded}}}\nroutes: [{{match: \"/*\", to: [{}]}}]\n",
        origin.address()
    )
}

fn last(origin: &Origin) -> Request {
    origin.requests().pop().expect("a request")
}

const ALL: &str = "client_certificate: {Client-Cert: certificate, Client-Cert-Chain: chain, X-Client-Pem: pem, \
    X-Client-Subject: subject, X-Client-Issuer: issuer, X-Client-Serial: serial, X-Client-Names: names, \
    X-Client-Fingerprint: fingerprint}";

const SPOOFED: &str = "Client-Cert: :AAAA:\r\nclient_cert: :AAAA:\r\nClient-Cert-Chain: :AAAA:\r\n\
    X-Client-Subject: CN=admin\r\nX_Client.Subject: CN=admin\r\nx-client-names: DNS:admin\r\nX-Other: kept\r\n";

#[test]
fn the_certificate_goes_on_in_the_fields_that_are_named() {
    let origin = Origin::ok();
    let (gateway, authority, _files) = gateway(&config(&origin, ALL));
    let own = authority.issue(&["client.example", "10.1.2.3"]);
    let mut client =
        TlsPeer::showing(&authority, &own).connect(gateway.address(), "a.example").expect("a handshake");
    for extra in ["", SPOOFED] {
        client.send(format!("GET / HTTP/1.1\r\nHost: a.example\r\n{extra}\r\n").as_bytes());
        client.answer().expect("an answer");
        let headers = last(&origin).headers;
        let certificate = headers.all("Client-Cert").join("|");
        let base64 = own.chain.lines().filter(|line| !line.starts_with('-')).collect::<String>();
        assert_eq!(certificate, format!(":{base64}:"));
        assert!(!headers.has("Client-Cert-Chain"), "it has sent no others");
        assert_eq!(headers.all("X-Client-Names"), ["DNS:client.example,IP:10.1.2.3"]);
        assert_eq!(headers.all("X-Client-Subject"), ["CN=rcgen self signed cert"]);
        assert_eq!(headers.all("X-Client-Issuer"), ["CN=rcgen self signed cert"]);
        assert_eq!(headers.all("X-Client-Fingerprint")[0].len(), 64);
        assert!(headers.get("X-Client-Pem").expect("sent").starts_with("-----BEGIN%20CERTIFICATE-----%0A"));
        let names = headers.names();
        assert!(!names.iter().any(|name| name.contains(['_', '.'])), "{names:?}");
        assert_eq!(headers.has("X-Other"), !extra.is_empty());
    }
}

#[test]
fn clients_without_a_certificate_cannot_claim_one() {
    let origin = Origin::ok();
    for (forwarded, left) in [(ALL, 1), ("client_certificate: on", 4), ("x_forwarded: on", 4)] {
        let (gateway, authority, _files) = gateway(&config(&origin, forwarded));
        let mut client =
            TlsPeer::trusting(&authority).connect(gateway.address(), "a.example").expect("a handshake");
        client.send(format!("GET / HTTP/1.1\r\nHost: a.example\r\n{SPOOFED}\r\n").as_bytes());
        client.answer().expect("an answer");
        let headers = last(&origin).headers;
        // The fields of RFC 9440 are always removed, others only if the gateway uses them.
        let claimed = headers.names().into_iter().filter(|name| {
            let name = name.to_ascii_lowercase();
            name.starts_with("client")
                || name.starts_with("x-client")
                || name.starts_with("x_client")
                || name == "x-other"
        });
        assert_eq!(claimed.count(), left, "{forwarded}: {headers:?}");
        assert!(!headers.has("Client-Cert") && !headers.has("client_cert"), "{headers:?}");
    }
}

#[test]
fn nor_in_trailers() {
    let config = |endpoint: &str, trusted: &str| {
        format!(
            "listen: {{bind: $LISTEN, tls: {{$A}}}}\nrequest_id: {{header: X-Trace}}\n\
             forwarded: {{{ALL}{trusted}}}\n\
             routes: [{{match: \"/*\", to: [\"{endpoint}\"]}}]\n"
        )
    };
    let claimed: &'static str = "X-Client-Subject: CN=admin\r\nX_Client.Names: DNS:admin\r\nX-Trace: 1\r\nClient-Cert: :AAAA:\r\n\
        X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Port: 1\r\nX_Real_IP: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\n\
        X-Other: kept\r\n";
    let fields: Vec<_> = claimed.lines().filter_map(|line| line.split_once(": ")).collect();
    let lower = |name: &str| -> &'static str { name.to_ascii_lowercase().leak() };
    let lower: Vec<_> = fields.iter().map(|&(name, value)| (lower(name), value)).collect();
    for (trusted, left) in [("", 1), (", trusted_proxies: 127.0.0.0/8", 3)] {
        let (http1, http2) = (Origin::ok(), Http2Origin::echo());
        for endpoint in [http1.address().to_string(), format!("h2c://{}", http2.address())] {
            let (gateway, authority, _files) = gateway(&config(&endpoint, trusted));
            let peer = TlsPeer::trusting(&authority);
            let mut client = peer.connect(gateway.address(), "a.example").expect("a handshake");
            let head = "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n";
            client.send(format!("{head}2\r\nhi\r\n0\r\n{claimed}\r\n").as_bytes());
            client.answer().expect("an answer");
        }
        let got = [http1.request().trailers, http2.requests()[0].trailers.clone()];
        for trailers in got {
            assert_eq!(trailers.0.len(), left, "{trailers:?}");
            assert!(trailers.has("X-Other"), "{trailers:?}");
        }
    }
    let origin = Origin::ok();
    let gateway = Gateway::start(&format!(
        "listen: {{bind: $LISTEN}}\nrequest_id: {{header: X-Trace}}\nforwarded: {{{ALL}}}\n\
         routes: [{{match: \"/*\", to: [{}]}}]\n",
        origin.address()
    ));
    let mut client = gateway.http2();
    let mut stream = client.begin(request("POST", "/", &[]), false).expect("begun");
    stream.send("body", false).expect("sent");
    stream.send_trailers(&lower).expect("sent");
    assert_eq!(stream.response().expect("an answer").status, 200);
    assert_eq!(origin.request().trailers.names(), ["x-other"]);
}

#[test]
fn in_plain_text_only_a_trusted_proxy_can_claim_a_certificate() {
    let origin = Origin::ok();
    for (trusted, kept) in [("", false), (", trusted_proxies: 127.0.0.0/8", true)] {
        let gateway = Gateway::with(&origin, &format!("forwarded: {{{ALL}{trusted}}}"));
        gateway.client().ask(format!("GET / HTTP/1.1\r\nHost: a\r\n{SPOOFED}\r\n"));
        let headers = last(&origin).headers;
        assert_eq!(headers.has("Client-Cert"), kept, "{headers:?}");
        assert_eq!(headers.has("Client-Cert-Chain"), kept, "{headers:?}");
        assert_eq!(headers.has("X-Client-Subject"), kept, "{headers:?}");
        assert!(!headers.has("client_cert"), "{headers:?}");
    }
}

#[test]
fn over_http2_it_is_the_same() {
    let origin = Origin::ok();
    let (gateway, authority, _files) =
        gateway(&config(&origin, "client_certificate: {X-Client-Names: names}"));
    let own = authority.issue(&["client.example"]);
    let peer = TlsPeer::showing(&authority, &own).offering(&["h2"]);
    let mut client = peer.connect(gateway.address(), "a.example").expect("a handshake");
    let head = [
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/2"),
        (":authority", "a.example"),
        ("x-client-names", "DNS:admin"),
        ("x_client_names", "DNS:admin"),
        ("client-cert", ":AAAA:"),
    ];
    let ask = frame(kind::HEADERS, END_HEADERS | END_STREAM, 1, &fields(&head));
    client.send(&[PREFACE, &frame(kind::SETTINGS, 0, 0, b""), &ask].concat());
    eventually("the request", || origin.count() == 1);
    let headers = last(&origin).headers;
    assert_eq!(headers.all("X-Client-Names"), ["DNS:client.example"]);
    assert!(!headers.has("x_client_names") && !headers.has("client-cert"), "{headers:?}");
}

#[test]
fn a_reload_changes_the_fields_on_open_connections() {
    let origin = Origin::ok();
    let (authority, files) = (Authority::new(), Files::new());
    files.put("a", &authority.issue(&["a.example"]));
    files.write("ca.pem", &authority.pem());
    let fill = |text: &str| {
        text.replace("$A", &files.pair("a")).replace("$FILES", &files.path().display().to_string())
    };
    let gateway = Gateway::start(&fill(&config(&origin, "client_certificate: {X-One: names}")));
    let peer = TlsPeer::showing(&authority, &authority.issue(&["client.example"]));
    let mut client = peer.connect(gateway.address(), "a.example").expect("a handshake");
    client.get("a.example", "/");
    assert_eq!(last(&origin).headers.all("X-One"), ["DNS:client.example"]);
    gateway.write_config(&fill(&config(&origin, "client_certificate: {X-Two: names}")));
    gateway.signal(tollgate_tests::Signal::HUP);
    eventually("the reload", || gateway.stderr().contains("generation 2"));
    client.get("a.example", "/");
    let headers = last(&origin).headers;
    assert_eq!(headers.all("X-Two"), ["DNS:client.example"]);
    assert!(!headers.has("X-One"));
}
