//! The choice of a certificate for each client, and its replacement.

use rustls::ProtocolVersion;
use tollgate_tests::frames::{END_HEADERS, END_STREAM, PREFACE, fields, frame, kind};
use tollgate_tests::{Authority, Gateway, Origin, Signal, TlsPeer, eventually, tollgate};

use super::{Files, gateway};

#[test]
fn both_versions_are_spoken_and_requests_go_on_as_https() {
    let origin = Origin::ok();
    let (gateway, authority, _files) = gateway(&format!(
        "listen: {{bind: $LISTEN, tls: {{$A}}}}\nforwarded: {{forwarded: on}}\nroutes: [{{match: \"/*\", to: [{}]}}]\n",
        origin.address()
    ));
    for (versions, spoken) in [
        (&[&rustls::version::TLS12], ProtocolVersion::TLSv1_2),
        (&[&rustls::version::TLS13], ProtocolVersion::TLSv1_3),
    ] {
        let peer = TlsPeer::speaking(&authority, versions, None).offering(&["h9", "http/1.1"]);
        let mut client = peer.connect(gateway.address(), "a.example").expect("a handshake");
        assert_eq!(client.connection().protocol_version(), Some(spoken));
        assert_eq!(client.connection().alpn_protocol(), Some(&b"http/1.1"[..]));
        for _ in 0..3 {
            assert!(client.get("a.example", "/x").ends_with("\r\n\r\nok"));
        }
    }
    let requests = origin.requests();
    assert_eq!(requests.len(), 6);
    for request in requests {
        assert_eq!(request.headers.get("X-Forwarded-Proto"), Some("https"));
        assert!(request.headers.get("Forwarded").expect("sent").ends_with("proto=https"));
    }
}

#[test]
fn the_version_of_http_is_chosen_in_the_handshake() {
    let origin = Origin::ok();
    for (http2, chosen) in [("on", Some("h2")), ("off", Some("http/1.1")), ("only", Some("h2"))] {
        let (gateway, authority, _files) = gateway(&format!(
            "listen: {{bind: $LISTEN, http2: {http2}, tls: {{$A}}}}\nroutes: [{{match: \"/*\", to: [{}]}}]\n",
            origin.address()
        ));
        let peer = TlsPeer::trusting(&authority).offering(&["http/1.1", "h2"]);
        let mut client = peer.connect(gateway.address(), "a.example").expect("a handshake");
        assert_eq!(client.connection().alpn_protocol(), chosen.map(str::as_bytes), "http2: {http2}");
        if chosen != Some("h2") {
            assert!(client.get("a.example", "/1").ends_with("\r\n\r\nok"));
            continue;
        }
        let before = origin.count();
        let head = [(":method", "GET"), (":scheme", "https"), (":path", "/2"), (":authority", "a.example")];
        let ask = frame(kind::HEADERS, END_HEADERS | END_STREAM, 1, &fields(&head));
        client.send(&[PREFACE, &frame(kind::SETTINGS, 0, 0, b""), &ask].concat());
        eventually("the request", || origin.count() > before);
    }
    let requests = origin.requests();
    let targets: Vec<_> = requests.iter().map(|request| request.target.as_str()).collect();
    assert_eq!(targets, ["/2", "/1", "/2"]);
    assert!(requests.iter().all(|request| request.headers.get("X-Forwarded-Proto") == Some("https")));
}

#[test]
fn the_exchange_of_keys_withstands_quantum_computers() {
    let (gateway, authority, _files) =
        gateway("listen: {bind: $LISTEN, tls: {$A}}\nroutes: [{match: \"/*\", respond: 204}]\n");
    let client = TlsPeer::trusting(&authority).connect(gateway.address(), "a.example").expect("a handshake");
    let group = client.connection().negotiated_key_exchange_group().expect("one was chosen");
    assert_eq!(format!("{:?}", group.name()), "X25519MLKEM768");
}

#[test]
fn each_host_has_its_certificate() {
    let (authority, files) = (Authority::new(), Files::new());
    let (first, wild, exact) = (
        authority.issue(&["first.example"]),
        authority.issue(&["*.b.example"]),
        authority.issue(&["x.b.example"]),
    );
    let rsa = authority.issue_rsa(&["first.example", "*.b.example"]);
    for (name, issued) in [("first", &first), ("wild", &wild), ("exact", &exact), ("rsa", &rsa)] {
        files.put(name, issued);
    }
    let list = ["first", "wild", "exact", "rsa"].map(|name| format!("{{{}}}", files.pair(name))).join(", ");
    let gateway = Gateway::start(&format!(
        "listen: {{bind: $LISTEN, tls: {{certificates: [{list}]}}}}\nroutes: [{{match: \"/*\", respond: 204}}]\n"
    ));
    let shown = |peer: &TlsPeer, name: &str| {
        let client = peer.connect(gateway.address(), name).expect("a handshake");
        client.connection().peer_certificates().expect("shown")[0].to_vec()
    };
    let peer = TlsPeer::trusting(&authority);
    assert_eq!(shown(&peer, "first.example"), first.der());
    assert_eq!(shown(&peer, "y.b.example"), wild.der());
    assert_eq!(shown(&peer, "x.b.example"), exact.der());
    let old = TlsPeer::rsa_only(&authority);
    assert_eq!(shown(&old, "y.b.example"), rsa.der(), "a client that cannot verify ECDSA");
    assert!(
        peer.connect(gateway.address(), "other.example").is_err(),
        "it gets the first, which is not for it"
    );
}

#[test]
fn a_host_outside_the_certificate_is_misdirected() {
    let (gateway, authority, _files) =
        gateway("listen: {bind: $LISTEN, tls: {$A}}\nroutes: [{match: \"/*\", respond: 204}]\n");
    let peer = TlsPeer::trusting(&authority);
    let mut client = peer.connect(gateway.address(), "a.example").expect("a handshake");
    assert!(client.get("A.example:443", "/").starts_with("HTTP/1.1 204"));
    let answer = client.get("b.example", "/");
    assert!(answer.starts_with("HTTP/1.1 421"), "{answer}");
    assert!(answer.contains("Tollgate-Reason: misdirected_request"));
    assert!(client.get("a.example", "/").starts_with("HTTP/1.1 204"), "the connection lives on");
    // An address is not a valid server name (RFC 6066, 3).
    let mut client = peer.connect(gateway.address(), "127.0.0.1").expect("a handshake");
    assert!(client.get("b.example", "/").starts_with("HTTP/1.1 204"));
}

#[test]
fn sessions_are_resumed_at_every_worker_and_over_a_reload() {
    let yaml = "workers: 2\nlisten: {bind: $LISTEN, tls: {$A}}\nroutes: [{match: \"/*\", respond: 204}]\n";
    let (gateway, authority, files) = gateway(yaml);
    let peer = TlsPeer::trusting(&authority);
    let visit = || {
        let mut client = peer.connect(gateway.address(), "a.example").expect("a handshake");
        assert!(client.get("a.example", "/").starts_with("HTTP/1.1 204"));
        client.connection().handshake_kind()
    };
    assert_eq!(visit(), Some(rustls::HandshakeKind::Full));
    for _ in 0..8 {
        assert_eq!(visit(), Some(rustls::HandshakeKind::Resumed));
    }
    gateway.write_config(&yaml.replace("$A", &files.pair("a")).replace("204", "205"));
    gateway.signal(Signal::HUP);
    eventually("the reload", || gateway.stderr().contains("generation 2"));
    let mut client = peer.connect(gateway.address(), "a.example").expect("a handshake");
    assert!(client.get("a.example", "/").starts_with("HTTP/1.1 205"));
    assert_eq!(client.connection().handshake_kind(), Some(rustls::HandshakeKind::Resumed));
}

#[test]
fn a_reload_takes_new_certificates_and_refuses_bad_ones() {
    let (gateway, authority, files) =
        gateway("listen: {bind: $LISTEN, tls: {$A}}\nroutes: [{match: \"/*\", respond: 204}]\n");
    let shown = || {
        let client = TlsPeer::trusting(&authority).connect(gateway.address(), "a.example");
        client.expect("a handshake").connection().peer_certificates().expect("shown")[0].to_vec()
    };
    let before = shown();
    let (next, other) = (authority.issue(&["a.example"]), authority.issue(&["a.example"]));
    files.write("a.pem", &next.chain);
    gateway.signal(Signal::HUP);
    eventually("the refusal", || gateway.stderr().contains("is not loaded"));
    assert!(
        gateway.stderr().contains("a.key`: it is not the key of the certificate"),
        "{}",
        gateway.stderr()
    );
    assert_eq!(shown(), before, "the old one goes on");
    files.put("a", &next);
    gateway.signal(Signal::HUP);
    eventually("the reload", || gateway.stderr().contains("generation 2"));
    assert_eq!(shown(), next.der());
    assert_ne!(shown(), other.der());
}

#[test]
fn files_that_are_watched_are_replaced_without_a_signal() {
    let (gateway, authority, files) =
        gateway("watch: on\nlisten: {bind: $LISTEN, tls: {$A}}\nroutes: [{match: \"/*\", respond: 204}]\n");
    let peer = TlsPeer::trusting(&authority);
    let visit = |peer: &TlsPeer| {
        let mut client = peer.connect(gateway.address(), "a.example").expect("a handshake");
        assert!(client.get("a.example", "/").starts_with("HTTP/1.1 204"));
        client
    };
    let shown = || {
        let client = visit(&TlsPeer::trusting(&authority));
        client.connection().peer_certificates().expect("shown")[0].to_vec()
    };
    let (before, mut open) = (shown(), visit(&peer));
    let next = authority.issue(&["a.example"]);
    files.write("a.pem", &next.chain);
    eventually("the refusal", || gateway.stderr().contains("is not loaded"));
    assert!(
        gateway.stderr().contains("a.key`: it is not the key of the certificate"),
        "{}",
        gateway.stderr()
    );
    assert_eq!(shown(), before, "half of it changes nothing");
    files.write("a.key", &next.key);
    eventually("the new one", || shown() == next.der());
    assert!(open.get("a.example", "/").starts_with("HTTP/1.1 204"), "what is open lives on");
    let resumed = visit(&peer);
    assert_eq!(resumed.connection().handshake_kind(), Some(rustls::HandshakeKind::Resumed));
}

#[test]
fn the_configuration_is_watched_too() {
    let yaml = "watch: on\nlisten: {bind: $LISTEN, tls: {$A}}\nroutes: [{match: \"/*\", respond: 204}]\n";
    let (gateway, _authority, files) = gateway(yaml);
    let fill = |text: &str| text.replace("$A", &files.pair("a"));
    gateway.write_config(&fill(yaml).replace("204", "nonsense: ["));
    eventually("the refusal", || gateway.stderr().contains("is not loaded"));
    gateway.write_config(&fill(yaml).replace("204", "205").replace("watch: on", "watch: off"));
    eventually("the reload", || gateway.stderr().contains("generation 2"));
}

#[test]
fn examples_of_the_page_are_accepted() {
    let (authority, files) = (Authority::new(), Files::new());
    files.write("internal-ca.pem", &authority.pem());
    files.write("clients-ca.pem", &authority.pem());
    for name in ["example.com", "wildcard.example.org", "gateway"] {
        files.put(name, &authority.issue(&["example.com"]));
    }
    let page = std::fs::read_to_string("../docs/tls.md").expect("the page");
    let blocks: Vec<_> =
        page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 9);
    for block in blocks {
        let routes = if block.contains("routes:") { "" } else { "routes: [{match: /, respond: 204}]\n" };
        files.write("page.yaml", &(block.replace("/etc/tollgate/", "") + routes));
        let ran = tollgate(&["check", files.path().join("page.yaml").to_str().expect("UTF-8")]);
        assert_eq!(ran.code, Some(0), "{block}\n{}", ran.err);
    }
}

#[test]
fn check_says_which_file_is_wrong() {
    let (authority, files) = (Authority::new(), Files::new());
    files.put("a", &authority.issue(&["a.example"]));
    let ran = |tls: &str| {
        let file = files.path().join("tollgate.yaml");
        let text =
            format!("listen: {{bind: 127.0.0.1:0, tls: {{{tls}}}}}\nroutes: [{{match: /, respond: 204}}]\n");
        std::fs::write(&file, text).expect("written");
        let ran = tollgate(&["check", file.to_str().expect("UTF-8")]);
        (ran.code, ran.err)
    };
    assert_eq!(ran("certificate: a.pem, key: a.key").0, Some(0), "beside the file that names them");
    for (tls, said) in [
        ("certificate: none.pem, key: a.key", "cannot read `none.pem`: there is no such file"),
        ("certificate: a.pem", "cannot use `a.pem`: there is no private key in it"),
        ("certificate: a.key, key: a.key", "cannot use `a.key`: there is no certificate in it"),
        (
            "certificate: a.pem, key: a.key, client_certificates: {ca: none.pem}",
            "cannot read `none.pem`: there is no such file",
        ),
        (
            "certificate: a.pem, key: a.key, client_certificates: {ca: a.key}",
            "cannot use `a.key`: there is no certificate in it",
        ),
    ] {
        let (code, text) = ran(tls);
        assert_eq!(code, Some(1), "{tls}");
        assert!(text.contains(said) && text.contains("tollgate.yaml:1:") && text.contains('^'), "{text}");
    }
}
