//! Tests `tollgate bench load` over TLS, HTTP/2, gRPC, WebSocket and server-sent events.

use crate::bench::Bench;
use crate::load_url::{load, ok, request};
use crate::parts::Origin;
use bytes::Bytes;
use rcgen::{BasicConstraints, Certificate, CertificateParams, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use tokio::runtime::Builder;
use tokio_tungstenite::tungstenite::accept;

/// Starts a server in threads that end with the test's process, one call for each connection.
fn serve(connection: impl Fn(std::net::TcpStream) -> Option<()> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connection = Arc::new(connection);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let connection = Arc::clone(&connection);
            thread::spawn(move || connection(stream));
        }
    });
    address
}

/// Starts a server with TLS and this certificate. Clients must present a certificate that `authority` has signed, if it
/// is given.
fn serve_tls(certificate: &Certificate, key: &KeyPair, authority: Option<&Certificate>) -> SocketAddr {
    let provider = Arc::new(ring::default_provider());
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match authority {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(authority.der().clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let config = Arc::new(builder.with_single_cert(vec![certificate.der().clone()], key).unwrap());
    serve(move |stream| {
        let tls = ServerConnection::new(Arc::clone(&config)).ok()?;
        let mut stream = BufReader::new(StreamOwned::new(tls, stream));
        while request(&mut stream).is_some() {
            stream.get_mut().write_all(ok("secret").as_bytes()).ok()?;
        }
        Some(())
    })
}

#[test]
fn certificates_that_do_not_fit_are_told_before_the_load() {
    let bench = Bench::new();
    let refused = |address: SocketAddr, arguments: &[&str], words: &str| {
        let url = format!("https://localhost:{}/", address.port());
        bench.run(&[&["load", &url, "-n", "1"], arguments].concat()).refused(1, &[words]);
    };
    // `openssl req -x509` makes such certificates.
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).unwrap();
    bench.write("ca.pem", &authority.pem());
    let address = serve_tls(&authority, &key, None);
    refused(address, &["--cacert", "ca.pem"], "belongs to an authority (CA:TRUE), not to a server");
    // A server with TLS 1.3 says after the handshake that it wants a certificate.
    let strict = serve_tls(&authority, &key, Some(&authority));
    refused(strict, &["-k"], "wants a certificate of the client: name it with `--cert FILE --key FILE`");
    let other = rcgen::generate_simple_self_signed(vec!["me".to_owned()]).unwrap();
    bench.write("me.pem", &other.cert.pem());
    bench.write("me.key", &other.signing_key.serialize_pem());
    refused(
        strict,
        &["-k", "--cert", "me.pem", "--key", "me.key"],
        "does not accept the client's certificate",
    );
}

#[test]
fn an_ordinary_certificate_is_verified_unless_the_user_waives_it() {
    let bench = Bench::new();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    bench.write("ca.pem", &made.cert.pem());
    let address = serve_tls(&made.cert, &made.signing_key, None);
    let url = format!("https://localhost:{}/", address.port());
    let few = ["-n", "20", "-c", "2"];
    let refused = |arguments: &[&str], words: &str| {
        bench.run(&[&["load"], arguments, &few[..]].concat()).refused(1, &[words]);
    };
    refused(
        &[&url],
        "the certificate of localhost is not signed by a known authority: name its authority with `--cacert FILE`",
    );
    let elsewhere = format!("https://127.0.0.1:{}/", address.port());
    refused(&[&elsewhere, "--cacert", "ca.pem"], "the certificate is not valid for the name 127.0.0.1");
    refused(&[&url, "--cacert", "ca.pem", "--http2"], "does not speak HTTP/2 over TLS");
    refused(&[&url, "--cacert", "none.pem"], "none.pem: ");
    for arguments in [&[&*url, "--cacert", "ca.pem"][..], &[&*url, "--insecure"], &[&*elsewhere, "-k"]] {
        let (result, answer) = load(&bench, &[arguments, &few[..]].concat());
        assert_eq!((result.ok, result.failures.total()), (20, 0));
        assert!(answer.stderr.contains("HTTP/1.1 over TLS 1.3, TLS_"), "{}", answer.stderr);
    }
}

#[test]
fn http2_with_prior_knowledge_shares_connections_between_streams() {
    let bench = Bench::new();
    let origin = Origin::start(&bench, r#", "grpc": true, "response_bytes": 10"#);
    let url = format!("http://127.0.0.1:{}/", origin.port);
    let (result, answer) = load(
        &bench,
        &[&url, "--http2", "-c", "2", "--streams", "4", "-n", "400", "-d", "hi", "--verify-body"],
    );
    assert_eq!((result.ok, result.failures.total()), (400, 0));
    assert_eq!(result.connections_opened, Some(2));
    // A message of 10 bytes with its prefix.
    assert_eq!(result.body_bytes, Some(400 * 15));
    assert!(answer.stderr.contains("HTTP/2, 2 connections of 4 streams"), "{}", answer.stderr);
    let (result, _) = load(&bench, &[&url, "--http2", "-c", "1", "--streams", "4", "-r", "200", "-z", "1s"]);
    assert_eq!((result.ok + result.failures.total(), result.failures.total()), (200, 0));
    assert!(result.response_time.is_some() && result.send_lag.is_some());
}

#[test]
fn unary_grpc_calls_are_counted_by_their_own_status() {
    let bench = Bench::new();
    let origin = Origin::start(&bench, r#", "grpc": true, "response_bytes": 10"#);
    let url = format!("http://127.0.0.1:{}/pkg.Service/Method", origin.port);
    let (result, _) = load(&bench, &[&url, "--grpc", "-n", "50", "-c", "2", "-d", "message"]);
    assert_eq!((result.ok, result.failures.total()), (50, 0));
    // Status 200 with a failure in the trailers.
    let address = h2_server(|request, mut respond| async move {
        drop(request);
        let response = http::Response::builder().status(200).header("grpc-status", "13").body(()).unwrap();
        respond.send_response(response, true).unwrap();
    });
    let url = format!("http://{address}/pkg.Service/Method");
    let (result, answer) = load(&bench, &[&url, "--grpc", "-n", "10", "-c", "1", "--fail-if", "errors>0"]);
    assert_eq!((result.ok, result.failures.status, answer.code), (0, 10, Some(3)));
}

#[test]
fn the_origin_sends_each_message_of_a_stream_back() {
    let bench = Bench::new();
    let origin = Origin::start(&bench, r#", "grpc": true, "echo": true"#);
    let url = format!("http://127.0.0.1:{}/pkg.Service/Method", origin.port);
    let (result, _) = load(
        &bench,
        &[&url, "--grpc-stream", "-n", "500", "-c", "2", "--streams", "5", "-d", "message", "--verify-body"],
    );
    assert_eq!((result.ok, result.failures.total()), (500, 0));
    assert_eq!(result.connections_opened, Some(2));
    assert_eq!(result.body_bytes, Some(500 * 7));
}

/// Starts a server of HTTP/2 in plain text.
fn h2_server<F>(
    handler: impl Fn(http::Request<h2::RecvStream>, h2::server::SendResponse<Bytes>) -> F + Clone + Send + 'static,
) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    thread::spawn(move || {
        Builder::new_current_thread().enable_io().build().unwrap().block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let handler = handler.clone();
                tokio::spawn(async move {
                    let mut connection = h2::server::handshake(stream).await.ok()?;
                    while let Some(Ok((request, respond))) = connection.accept().await {
                        tokio::spawn(handler(request, respond));
                    }
                    Some(())
                });
            }
        });
    });
    address
}

#[test]
fn messages_on_a_grpc_stream_are_answered_one_by_one() {
    let bench = Bench::new();
    let address = h2_server(|request, mut respond| async move {
        assert_eq!(request.headers()["content-type"], "application/grpc");
        let response = http::Response::builder().status(200).body(()).unwrap();
        let mut output = respond.send_response(response, false).unwrap();
        let mut input = request.into_body();
        while let Some(Ok(bytes)) = input.data().await {
            let _ = input.flow_control().release_capacity(bytes.len());
            // Half a message first.
            let (first, second) = (bytes.slice(..3), bytes.slice(3..));
            if output.send_data(first, false).is_err() || output.send_data(second, false).is_err() {
                return;
            }
        }
    });
    let url = format!("http://{address}/pkg.Service/Echo");
    let (result, answer) = load(
        &bench,
        &[&url, "--grpc-stream", "-c", "1", "--streams", "3", "-n", "60", "-d", "ping", "--verify-body"],
    );
    assert_eq!((result.ok, result.failures.total(), result.connections_opened), (60, 0, Some(1)));
    assert_eq!(result.body_bytes, Some(240));
    assert!(answer.stderr.contains("gRPC streams"), "{}", answer.stderr);
}

#[test]
fn messages_on_a_web_socket_are_echoed_and_counted() {
    let bench = Bench::new();
    let address = serve(|stream| {
        let mut socket = accept(stream).ok()?;
        loop {
            let message = socket.read().ok()?;
            if message.is_text() || message.is_binary() {
                socket.send(message).ok()?;
            }
        }
    });
    let url = format!("ws://{address}/echo");
    let (result, answer) = load(&bench, &[&url, "-c", "3", "-n", "90", "-d", "hello", "--verify-body"]);
    assert_eq!((result.ok, result.failures.total(), result.body_bytes), (90, 0, Some(450)));
    assert_eq!(result.connections_opened, Some(3));
    assert!(answer.stderr.contains("WebSocket, 3 connections"), "{}", answer.stderr);
    let (result, _) = load(&bench, &[&url, "-c", "2", "-r", "100", "-z", "1s", "-d", "hello"]);
    assert_eq!(result.ok + result.failures.total(), 100);
    // A server that does not switch protocols.
    let (plain, _) = crate::load_url::server(|_| ok("no"));
    let answer = bench.run(&["load", &format!("ws://{plain}/"), "-c", "1", "-n", "3"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.stdout.contains("3 wrong status"), "{answer:?}");
}

#[test]
fn server_sent_events_are_counted() {
    let bench = Bench::new();
    let address = serve(|stream| {
        let mut input = BufReader::new(stream.try_clone().ok()?);
        let asked = request(&mut input)?;
        assert_eq!(asked.fields["accept"], "text/event-stream");
        let mut output = stream;
        output
            .write_all(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
            )
            .ok()?;
        for number in 0.. {
            let event = format!(": beat\n\nid: {number}\ndata: tick\n\n");
            write!(output, "{:x}\r\n{event}\r\n", event.len()).ok()?;
        }
        Some(())
    });
    let url = format!("http://{address}/events");
    let (result, answer) = load(&bench, &[&url, "--sse", "-c", "2", "-n", "300", "--verify-body"]);
    assert_eq!((result.ok, result.failures.total(), result.body_bytes), (300, 0, Some(1_200)));
    assert_eq!(result.connections_opened, Some(2));
    assert!(answer.stdout.contains("from one event to the next"), "{}", answer.stdout);
    bench.run(&["load", &url, "--sse", "-r", "5"]).refused(2, &["--sse", "--rate"]);
}
