//! Tests the generator over TLS.

use crate::server::{self, ok};
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::{HandshakeKind, ServerConfig, ServerConnection, StreamOwned};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use tollgate_lab_load::{Body, Length, Plan, Request, Tls, run};
use tollgate_lab_record::{Failures, LoadResult};

/// The connections that a server accepted: the kind and the parameters of each handshake.
#[derive(Default)]
struct Seen {
    requests: AtomicU64,
    handshakes: Mutex<Vec<String>>,
}

/// Starts a server with its own certificate that answers with `length` bytes. Returns also the certificate's
/// file.
fn start(name: &str, length: usize) -> (SocketAddr, PathBuf, Arc<Seen>) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.pem"));
    fs::write(&file, made.cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let (config, seen) = (Arc::new(config), Arc::new(Seen::default()));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let counted = Arc::clone(&seen);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (config, seen) = (Arc::clone(&config), Arc::clone(&counted));
            thread::spawn(move || serve(stream, config, length, &seen));
        }
    });
    (address, file, seen)
}

fn serve(stream: TcpStream, config: Arc<ServerConfig>, length: usize, seen: &Seen) -> Option<()> {
    let mut stream = StreamOwned::new(ServerConnection::new(config).ok()?, stream);
    let mut first = true;
    loop {
        let mut line = String::new();
        let mut close = false;
        let mut body = 0;
        let mut input = BufReader::with_capacity(1, &mut stream);
        loop {
            line.clear();
            if input.read_line(&mut line).ok()? == 0 {
                return None;
            }
            match line.trim_end() {
                "" => break,
                "Connection: close" => close = true,
                text => {
                    if let Some(value) = text.strip_prefix("Content-Length: ") {
                        body = value.parse().ok()?;
                    }
                }
            }
        }
        std::io::copy(&mut std::io::Read::take(input, body), &mut std::io::sink()).ok()?;
        if std::mem::take(&mut first) {
            let tls = &stream.conn;
            let group = tls.negotiated_key_exchange_group().map(|group| group.name());
            let said = format!(
                "{} {:?} {:?} {:?}",
                if tls.handshake_kind() == Some(HandshakeKind::Full) { "full" } else { "short" },
                tls.protocol_version()?,
                tls.negotiated_cipher_suite()?.suite(),
                group?
            );
            seen.handshakes.lock().unwrap().push(said);
        }
        seen.requests.fetch_add(1, Relaxed);
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").ok()?;
        stream.write_all(&vec![b'x'; length]).ok()?;
        stream.flush().ok()?;
        if close {
            stream.conn.send_close_notify();
            return stream.flush().ok();
        }
    }
}

fn plan(address: SocketAddr, certificate: PathBuf, requests: u64) -> Plan {
    Plan {
        length: Length::Requests(requests),
        time_limit: 20.0,
        connections: 3,
        tls: Some(Tls { certificate, key: None }),
        ..Plan::new(address)
    }
}

#[track_caller]
fn good(result: &LoadResult, requests: u64, body: u64) {
    assert_eq!((result.ok, &result.failures), (requests, &Failures::default()));
    assert_eq!(result.body_bytes, Some(requests * body));
}

const TERMS: &str = "full TLSv1_3 TLS13_AES_128_GCM_SHA256 X25519";

#[test]
fn a_kept_connection_shakes_hands_once() {
    let (address, file, seen) = start("kept", 2);
    good(&run(&plan(address, file, 60)).unwrap(), 60, 2);
    assert_eq!(*seen.handshakes.lock().unwrap(), [TERMS; 3]);
}

#[test]
fn a_connection_a_request_is_a_full_handshake_a_request() {
    let (address, file, seen) = start("close", 2);
    let plan = Plan { keep_alive: false, ..plan(address, file, 40) };
    let result = run(&plan).unwrap();
    good(&result, 40, 2);
    assert_eq!(result.connections_opened, Some(40));
    assert_eq!(*seen.handshakes.lock().unwrap(), [TERMS; 40]);
}

#[test]
fn bodies_of_many_records_go_both_ways() {
    let (address, file, seen) = start("large", 1_000_000);
    let mut upload = Request::get("/");
    upload.method = "POST".into();
    upload.body = Some(Body::Bytes(3_000_000));
    let plan = Plan { requests: vec![upload], ..plan(address, file, 9) };
    good(&run(&plan).unwrap(), 9, 1_000_000);
    assert_eq!(seen.requests.load(Relaxed), 9);
}

#[test]
fn another_certificate_is_a_failure_and_so_is_plain_text() {
    let (_, other, _) = start("other", 2);
    let (address, ..) = start("one", 2);
    let failed = |address, certificate: &PathBuf| {
        let result = run(&plan(address, certificate.clone(), 6)).unwrap();
        assert_eq!((result.ok, result.failures.total()), (0, 6), "{result:?}");
    };
    failed(address, &other);
    let (plain, _) = server::start(|_, stream| ok(stream, "hello"));
    failed(plain, &other);
}

#[test]
fn a_certificate_that_cannot_be_read_is_named() {
    let plan = plan(SocketAddr::from(([127, 0, 0, 1], 1)), "/nowhere/c.pem".into(), 1);
    let error = run(&plan).unwrap_err().to_string();
    assert!(error.contains("`tls.certificate` /nowhere/c.pem"), "{error}");
}
