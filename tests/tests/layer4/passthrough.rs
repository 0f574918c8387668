//! TLS that passes through by the name that its ClientHello asks for, beside TLS that the gateway terminates.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use http::Request;
use tollgate_tests::http2::Http2;
use tollgate_tests::{Authority, DEADLINE, Gateway, TlsFront, TlsOrigin, TlsPeer, eventually, tollgate};

use super::{Relay, Server, expect, rest};

/// A file of certificates or keys, which the drop removes.
struct PemFile(PathBuf);

impl PemFile {
    fn new(text: &str) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tollgate-layer4-{}-{number}.pem", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).expect("written");
        Self(path)
    }
}

impl Drop for PemFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn answer(text: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len())
}

/// An origin for a name, which answers with that name.
fn origin(authority: &Authority, name: &str) -> TlsOrigin {
    TlsOrigin::start(&authority.issue(&[name]), None, &answer(name), None)
}

/// Forwards connections to an address. Bytes of the client go on one by one.
fn one_by_one(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.expect("a connection");
            let mut there = TcpStream::connect(to).expect("the gateway accepts");
            there.set_nodelay(true).expect("an option");
            let (mut back, mut answers) =
                (there.try_clone().expect("a copy"), client.try_clone().expect("a copy"));
            thread::spawn(move || {
                let _ = std::io::copy(&mut back, &mut answers);
                let _ = answers.shutdown(Shutdown::Write);
            });
            thread::spawn(move || {
                let mut byte = [0];
                while let Ok(1) = client.read(&mut byte) {
                    if there.write_all(&byte).is_err() {
                        return;
                    }
                }
                let _ = there.shutdown(Shutdown::Write);
            });
        }
    });
    address
}

#[test]
fn the_most_specific_name_wins_and_the_certificate_is_the_endpoints() {
    let authority = Authority::new();
    let exact = origin(&authority, "a.example.com");
    let deep = origin(&authority, "x.deep.example.com");
    let wide = origin(&authority, "b.example.com");
    let other =
        TlsOrigin::start(&authority.issue(&["elsewhere.test", "127.0.0.1"]), None, &answer("other"), None);
    let relay = Relay::start(
        "",
        &format!(
            "streams:\n\
             - {{name: wide, server_names: \"*.example.com\", to: \"{}\"}}\n\
             - {{name: deep, server_names: \"*.deep.example.com\", to: \"{}\"}}\n\
             - {{name: exact, server_names: [A.Example.com], to: \"{}\"}}\n\
             - {{name: other, listeners: l4, to: \"{}\"}}\n",
            wide.address(),
            deep.address(),
            exact.address(),
            other.address()
        ),
    );
    let peer = TlsPeer::trusting(&authority).offering(&["http/1.1", "h2"]);
    let mut records = 0;
    for (name, stream, says) in [
        ("a.example.com", "exact", "a.example.com"),
        ("b.example.com", "wide", "b.example.com"),
        ("x.deep.example.com", "deep", "x.deep.example.com"),
        ("elsewhere.test", "other", "other"),
        // An address: the client sends no name.
        ("127.0.0.1", "other", "other"),
    ] {
        let mut client = peer.connect(relay.address, name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(client.get(name, "/").ends_with(says), "{name}");
        drop(client);
        records += 1;
        let record = relay.record(records);
        assert_eq!((&record["route"], &record["scheme"]), (&stream.into(), &"tls".into()), "{record}");
        match name {
            "127.0.0.1" => assert!(record.get("sni").is_none_or(serde_json::Value::is_null), "{record}"),
            _ => assert_eq!(record["sni"], name, "{record}"),
        }
        assert_eq!(record["alpn"], "http/1.1,h2", "{record}");
        let ja4 = record["ja4"].as_str().unwrap_or_default();
        let named = if name == "127.0.0.1" { 'i' } else { 'd' };
        assert!(
            ja4.len() == 36 && ja4.starts_with(&format!("t13{named}")) && ja4[8..].starts_with("h1_"),
            "{record}"
        );
    }
}

#[test]
fn a_client_hello_may_come_byte_by_byte() {
    let authority = Authority::new();
    let origin = origin(&authority, "a.example.com");
    let more = format!("streams: [{{server_names: a.example.com, to: \"{}\"}}]", origin.address());
    let relay = Relay::start("", &more);
    let peer = TlsPeer::trusting(&authority);
    let mut client = peer.connect(one_by_one(relay.address), "a.example.com").expect("a handshake");
    assert!(client.get("a.example.com", "/").ends_with("a.example.com"));
}

#[test]
fn an_unknown_name_and_a_silent_peer_are_closed() {
    let authority = Authority::new();
    let origin = origin(&authority, "a.example.com");
    let more = format!(
        "streams: [{{server_names: a.example.com, to: \"{}\"}}]\ntimeouts: {{handshake: 300ms}}",
        origin.address()
    );
    let relay = Relay::start("", &more);
    let peer = TlsPeer::trusting(&authority);
    assert!(peer.connect(relay.address, "b.example.com").is_err());
    let record = relay.record(1);
    assert_eq!((&record["reason"], &record["sni"]), (&"no_stream".into(), &"b.example.com".into()));
    let mut silent = relay.connect();
    assert_eq!(rest(&mut silent).expect("an end"), b"");
    assert_eq!(relay.record(2)["reason"], "handshake_timeout");
    let mut partial = relay.connect();
    partial.write_all(&[22, 3, 1, 2, 0, 1, 0]).expect("written");
    assert_eq!(rest(&mut partial).unwrap_or_default(), b"");
    assert_eq!(relay.record(3)["reason"], "handshake_timeout");
    let mut broken = relay.connect();
    broken.write_all(&[22, 3, 1, 0, 4, 9, 9, 9, 9]).expect("written");
    assert_eq!(rest(&mut broken).unwrap_or_default(), b"");
    assert_eq!(relay.record(4)["reason"], "bad_client_hello");
    drop(relay.connect());
    assert_eq!(relay.record(5)["reason"], "client_closed");
    assert_eq!(relay.sum("tollgate_streams_total", "stream=\"-\""), 5.0);
}

#[test]
fn bytes_that_are_no_tls_reach_the_stream_without_names() {
    let authority = Authority::new();
    let (named, plain) = (origin(&authority, "a.example.com"), Server::echo());
    let relay = Relay::start(
        &format!("to: \"{}\"", plain.address),
        &format!("streams: [{{server_names: a.example.com, to: \"{}\"}}]", named.address()),
    );
    let mut client = relay.connect();
    client.write_all(b"SSH-2.0-x\r\n").expect("written");
    expect(&mut client, "SSH-2.0-x\r\n");
    let peer = TlsPeer::trusting(&authority);
    let mut client = peer.connect(relay.address, "a.example.com").expect("a handshake");
    assert!(client.get("a.example.com", "/").ends_with("a.example.com"));
}

#[test]
fn passed_through_and_terminated_tls_share_a_port() {
    let (gateways, endpoints) = (Authority::called("gateway"), Authority::called("endpoint"));
    let own = gateways.issue(&["web.example.com"]);
    let passed = origin(&endpoints, "db.example.com");
    let yaml = format!(
        "listen: {{bind: $LISTEN, tls: {{certificate: $DIR/own.pem}}}}\n\
         routes: [{{respond: \"from the gateway\"}}]\n\
         streams: [{{name: db, server_names: db.example.com, to: \"{}\"}}]\n",
        passed.address()
    );
    let file = PemFile::new(&(own.chain.clone() + &own.key));
    let gateway = Gateway::start(&yaml.replace("$DIR/own.pem", &file.0.to_string_lossy()));
    let (web, db) = (TlsPeer::trusting(&gateways), TlsPeer::trusting(&endpoints));
    for address in [gateway.address(), one_by_one(gateway.address())] {
        let mut client = db.connect(address, "db.example.com").expect("the endpoint's certificate");
        assert!(client.get("db.example.com", "/").ends_with("db.example.com"));
        let mut client = web.connect(address, "web.example.com").expect("the gateway's certificate");
        assert!(client.get("web.example.com", "/").ends_with("from the gateway"));
    }
    // Bytes that are not TLS fail as they would without streams.
    let mut plain = TcpStream::connect(gateway.address()).expect("the gateway accepts");
    plain.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    plain.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("written");
    let _ = rest(&mut plain);
    eventually("the failure is counted", || {
        gateway.metrics().sum("tollgate_tls_handshake_failures_total", "reason=\"not_tls\"") >= Some(1.0)
    });
}

#[test]
fn the_gateway_terminates_tls_and_relays_plain_bytes() {
    let authority = Authority::new();
    let own = authority.issue(&["db.example.com", "other.example.com"]);
    let (named, other) = (Server::named("named "), Server::named("other "));
    let file = PemFile::new(&(own.chain.clone() + &own.key));
    let relay = Relay::start(
        &format!("tls: {{certificate: {}}}, to: \"{}\"", file.0.display(), other.address),
        &format!("streams: [{{name: db, server_names: db.example.com, to: \"{}\"}}]", named.address),
    );
    let peer = TlsPeer::trusting(&authority);
    for (name, says) in [("db.example.com", "named "), ("other.example.com", "other ")] {
        let mut client = peer.connect(relay.address, name).expect("a handshake");
        let mut seen = Vec::new();
        while seen.len() < says.len() {
            seen.extend(client.some().expect("the server speaks first"));
        }
        assert_eq!(String::from_utf8_lossy(&seen), says);
        client.send(b"ping");
        let mut seen = Vec::new();
        while seen.len() < 4 {
            seen.extend(client.some().expect("an echo"));
        }
        assert_eq!(seen, b"ping");
    }
    let records = relay.gateway.wait_records(2);
    assert!(records.iter().any(|record| record["sni"] == "db.example.com" && record["route"] == "db"));
    assert!(records.iter().all(|record| record["tls_version"] == "1.3"), "{records:#?}");
}

#[test]
fn a_listener_that_terminates_tls_passes_chosen_names_through() {
    let (gateways, endpoints) = (Authority::called("gateway"), Authority::called("endpoint"));
    let own = gateways.issue(&["db.example.com", "other.example.com"]);
    let (passed, plain) = (origin(&endpoints, "legacy.example.com"), Server::named("plain "));
    let file = PemFile::new(&(own.chain.clone() + &own.key));
    let relay = Relay::start(
        &format!("tls: {{certificate: {}}}, to: \"{}\"", file.0.display(), plain.address),
        &format!(
            "streams:\n\
             - {{name: legacy, listeners: l4, server_names: legacy.example.com, passthrough: on, to: \"{}\"}}\n\
             - {{name: db, listeners: l4, server_names: db.example.com, to: \"{}\"}}\n",
            passed.address(),
            plain.address
        ),
    );
    let (terminated, through) = (TlsPeer::trusting(&gateways), TlsPeer::trusting(&endpoints));
    for address in [relay.address, one_by_one(relay.address)] {
        let mut client = through.connect(address, "legacy.example.com").expect("the endpoint's certificate");
        assert!(client.get("legacy.example.com", "/").ends_with("legacy.example.com"));
        for name in ["db.example.com", "other.example.com"] {
            let mut client = terminated.connect(address, name).expect("the gateway's certificate");
            let mut seen = Vec::new();
            while seen.len() < "plain ".len() {
                seen.extend(client.some().expect("the server speaks first"));
            }
            assert_eq!(seen, b"plain ", "{name}");
        }
    }
    let records = relay.gateway.wait_records(6);
    let of = |stream: &str| records.iter().filter(|record| record["route"] == stream).collect::<Vec<_>>();
    assert!(
        of("legacy").iter().all(|record| record.get("tls_version").is_none_or(serde_json::Value::is_null))
    );
    assert_eq!((of("legacy").len(), of("db").len()), (2, 2), "{records:#?}");
}

#[test]
fn a_stream_may_speak_tls_to_its_endpoint() {
    let authority = Authority::new();
    let secure = origin(&authority, "db.internal");
    let file = PemFile::new(&authority.pem());
    let relay = Relay::start(
        "to: db",
        &format!(
            "upstreams: {{db: {{endpoints: [\"https://{}\"], tls: {{ca: {}, server_name: db.internal}}}}}}",
            secure.address(),
            file.0.display()
        ),
    );
    let mut client = relay.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("written");
    expect(&mut client, &answer("db.internal"));
    assert_eq!(secure.names(), [Some("db.internal".to_owned())]);
}

#[test]
fn check_reports_a_route_whose_host_passes_through_to_a_stream() {
    let authority = Authority::new();
    let own = authority.issue(&["a.example.com"]);
    let file = PemFile::new(&(own.chain.clone() + &own.key));
    let text = |more: &str| {
        format!(
            "listen:\n- {{bind: \"127.0.0.1:8443\", name: web, tls: {{certificate: {}}}}}\n{more}\
             routes:\n- {{match: old.example.com, respond: 204}}\n- {{match: a.example.com, respond: 204}}\n\
             streams:\n- {{listeners: web, server_names: \"old.example.com\", to: \"127.0.0.1:1\"}}\n",
            file.0.display()
        )
    };
    let path = std::env::temp_dir().join(format!("tollgate-e2e-shadow-{}.yaml", std::process::id()));
    std::fs::write(&path, text("")).expect("written");
    let ran = tollgate(&["check", path.to_str().expect("UTF-8")]);
    let message = "warning: clients that ask for `old.example.com` by TLS reach a stream";
    assert!(ran.code == Some(0) && ran.err.matches(message).count() == 1, "{ran:?}");
    assert!(ran.err.contains(":4:11") && ran.err.contains("the stream that takes them"), "{ran:?}");
    // At another listener the route has its requests.
    std::fs::write(&path, text("- \"127.0.0.1:8080\"\n")).expect("written");
    let ran = tollgate(&["check", path.to_str().expect("UTF-8")]);
    let _ = std::fs::remove_file(&path);
    assert!(ran.code == Some(0) && !ran.err.contains("reach a stream"), "{ran:?}");
}

/// A gateway that serves `web.example.com` with a certificate for all of `*.example.com`, and passes other names to an
/// origin. `hosts` are keys of its listener.
fn beside(hosts: &str, names: &str, gateways: &Authority, passed: &TlsOrigin) -> (Gateway, PemFile) {
    let own = gateways.issue(&["*.example.com"]);
    let file = PemFile::new(&(own.chain.clone() + &own.key));
    let yaml = format!(
        "listen: {{bind: $LISTEN, name: web, {hosts}tls: {{certificate: {}}}}}\n\
         routes: [{{respond: \"from the gateway\"}}]\n\
         streams: [{{name: passed, server_names: \"{names}\", to: \"{}\"}}]\n",
        file.0.display(),
        passed.address()
    );
    (Gateway::start(&yaml), file)
}

#[test]
fn a_host_of_a_listener_is_more_specific_than_a_wildcard_of_a_stream() {
    let (gateways, endpoints) = (Authority::called("gateway"), Authority::called("endpoint"));
    let passed = TlsOrigin::start(&endpoints.issue(&["*.example.com"]), None, &answer("the endpoint"), None);
    let (gateway, _file) = beside("hosts: web.example.com, ", "*.example.com", &gateways, &passed);
    let web = TlsPeer::trusting(&gateways).connect(gateway.address(), "web.example.com");
    assert!(
        web.expect("the gateway's certificate").get("web.example.com", "/").ends_with("from the gateway")
    );
    for name in ["db.example.com", "a.web.example.com"] {
        let peer = TlsPeer::trusting(&endpoints);
        // The client verifies the name; the record says which stream took it.
        let _ = peer.connect(gateway.address(), name);
    }
    let records = gateway.wait_records(3);
    let passed: Vec<_> = records.iter().filter(|record| record["route"] == "passed").collect();
    assert_eq!(passed.len(), 2, "{records:#?}");
    let explain = |sni: &str| {
        let ran = tollgate(&[
            "explain",
            &gateway.config().display().to_string(),
            "--listener",
            "web",
            "--sni",
            sni,
        ]);
        (ran.code, format!("{}{}", ran.out, ran.err))
    };
    let (code, said) = explain("db.example.com");
    assert!(code == Some(0) && said.contains("stream    passed"), "{said}");
    let (_, said) = explain("web.example.com");
    assert!(said.contains("its TLS is terminated"), "{said}");
    let file = gateway.config().display().to_string();
    let url = |host: &str| format!("https://{host}:{}/", gateway.address().port());
    let ran = tollgate(&["explain", &file, "GET", &url("db.example.com"), "--listener", "web"]);
    assert!(
        ran.code == Some(1)
            && format!("{}{}", ran.out, ran.err).contains("a stream takes the connections of this host"),
        "{ran:?}"
    );
    let ran = tollgate(&["explain", &file, "GET", &url("web.example.com"), "--listener", "web"]);
    assert!(ran.code == Some(0), "{ran:?}");
}

#[test]
fn a_host_that_passes_through_is_misdirected_on_the_connection_of_another_one() {
    let (gateways, endpoints) = (Authority::called("gateway"), Authority::called("endpoint"));
    let passed = origin(&endpoints, "db.example.com");
    for (hosts, names, other) in [
        ("", "db.example.com", 200),
        ("hosts: \"*.example.com\", ", "db.example.com", 200),
        ("hosts: web.example.com, ", "*.example.com", 421),
    ] {
        let (gateway, _file) = beside(hosts, names, &gateways, &passed);
        let mut one =
            TlsPeer::trusting(&gateways).connect(gateway.address(), "web.example.com").expect("TLS");
        let front = TlsFront::start(gateway.address(), "web.example.com", || TlsPeer::trusting(&gateways));
        let mut two = Http2::connect(front.address(), std::sync::Arc::default(), 1 << 20);
        // The certificate covers all three, so browsers reuse the connection for them.
        for (host, status) in [
            ("web.example.com", 200),
            ("other.example.com", other),
            ("db.example.com", 421),
            ("DB.example.com.", 421),
        ] {
            let answer = one.get(host, "/");
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{hosts}{host}: {answer}");
            let ask = Request::get(format!("https://{host}/")).body(()).expect("a request");
            assert_eq!(two.ask(ask).status, status, "{hosts}{host}");
        }
        assert!(one.get("web.example.com", "/").ends_with("from the gateway"), "the connection goes on");
    }
    assert_eq!(passed.names(), Vec::<Option<String>>::new(), "nothing reached the endpoint");
}

/// Returns a record with a ClientHello of TLS 1.2 without other extensions than these names (SNI), each in one.
fn hello(names: &[&[u8]]) -> Vec<u8> {
    let sized = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat();
    let extension = |name: &&[u8]| {
        let entry = [&[0][..], &sized(name)].concat();
        [&[0, 0][..], &sized(&sized(&entry))].concat()
    };
    let extensions = names.iter().flat_map(extension).collect::<Vec<u8>>();
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    // No session, ECDHE-RSA-AES128-GCM-SHA256, no compression.
    body.extend([0, 0, 2, 0xc0, 0x2f, 1, 0]);
    body.extend(sized(&extensions));
    let message = [&[1, 0][..], &sized(&body)].concat();
    [&[22, 3, 1][..], &sized(&message)].concat()
}

#[test]
fn odd_client_hellos_go_where_their_name_leads_and_arrive_unchanged() {
    let (named, plain) = (Server::echo(), Server::named("plain"));
    let relay = Relay::start(
        &format!("to: \"{}\"", plain.address),
        &format!("streams: [{{name: a, server_names: a.example.com, to: \"{}\"}}]", named.address),
    );
    let mut records = 0;
    for name in [&b"a.example.com"[..], b"A.Example.COM", b"a.example.com."] {
        let mut client = relay.connect();
        // Bytes that a client sends with its ClientHello, such as early data, follow it.
        let sent = [&hello(&[name])[..], b"early data"].concat();
        client.write_all(&sent).expect("written");
        client.shutdown(Shutdown::Write).expect("its end");
        assert_eq!(rest(&mut client).expect("an echo"), sent);
        records += 1;
        let record = relay.record(records);
        assert_eq!((&record["route"], &record["sni"]), (&"a".into(), &"a.example.com".into()), "{record}");
        assert_eq!(record["bytes_in"], sent.len(), "{record}");
    }
    // An SSLv2 hello, a name of no stream, none at all.
    let ssl2 = [&[0x80, 46, 1, 3, 1, 0, 21, 0, 0, 0, 16][..], &[1; 37]].concat();
    for sent in [ssl2, hello(&[b"b.example.com"]), hello(&[])] {
        let mut client = relay.connect();
        client.write_all(&sent).expect("written");
        expect(&mut client, "plain");
        drop(client);
        records += 1;
        assert_eq!(relay.record(records)["route"], "l4");
    }
    // Two names would leave it open which of them the endpoint takes; a raw umlaut is no name.
    let long = [&[22, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xff][..], &[3; 20_000]].concat();
    for sent in [hello(&[b"a.example.com", b"b.example.com"]), hello(&["ä.example.com".as_bytes()]), long] {
        let mut client = relay.connect();
        let _ = client.write_all(&sent);
        assert_eq!(rest(&mut client).unwrap_or_default(), b"");
        records += 1;
        assert_eq!(relay.record(records)["reason"], "bad_client_hello");
    }
}

#[test]
fn an_end_of_tls_without_its_alert_is_no_orderly_end() {
    let authority = Authority::new();
    let own = authority.issue(&["db.example.com"]);
    let file = PemFile::new(&(own.chain.clone() + &own.key));
    let (sender, ends) = std::sync::mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let server = Server::play(move |mut stream| {
        let mut word = [0; 4];
        stream.read_exact(&mut word).expect("a word");
        stream.write_all(&word).expect("written");
        let end = stream.read(&mut word).map_err(|error| error.kind());
        sender.lock().expect("a sender").send(end).expect("the test waits");
    });
    let relay =
        Relay::start(&format!("tls: {{certificate: {}}}, to: \"{}\"", file.0.display(), server.address), "");
    let peer = TlsPeer::trusting(&authority);
    for is_orderly in [true, false] {
        let mut client = peer.connect(relay.address, "db.example.com").expect("a handshake");
        client.send(b"ping");
        let mut seen = Vec::new();
        while seen.len() < 4 {
            seen.extend(client.some().expect("an echo"));
        }
        match is_orderly {
            true => client.end(),
            // A man in the middle can forge the end of TCP, but not the alert.
            false => client.socket().shutdown(Shutdown::Write).expect("its end"),
        }
        let end = ends.recv().expect("the server sees it");
        assert_eq!(end, if is_orderly { Ok(0) } else { Err(std::io::ErrorKind::ConnectionReset) });
    }
}
