//! Listeners: Unix sockets, and how long a connection may live.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tollgate_tests::{Gateway, Origin, Signal, eventually};

fn ask(path: &Path, lines: &str) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    stream.write_all(format!("{lines}GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn config(origin: &Origin, listen: &str) -> String {
    format!("listen: [\"$LISTEN\"{listen}]\nroutes: [{{match: \"/*\", to: [\"{}\"]}}]", origin.address())
}

fn socket(gateway: &Gateway) -> PathBuf {
    gateway.directory().join("in.sock")
}

#[test]
fn clients_come_by_a_unix_socket() {
    let origin = Origin::ok();
    let mut gateway = Gateway::start(&config(&origin, ", {bind: \"unix:$DIR/in.sock\", mode: 640}"));
    let path = socket(&gateway);
    assert!(ask(&path, "").expect("an answer").starts_with("HTTP/1.1 200 OK"));
    let mode = std::fs::metadata(&path).expect("the file").permissions().mode() & 0o777;
    assert_eq!(mode, 0o640);
    eventually("the record", || gateway.records().iter().any(|record| record["client"] == "unix:"));
    assert_eq!(gateway.client().get("/").status, 200, "the other listener is there too");
    // The process that takes over by an upgrade has the same socket.
    gateway.upgrade();
    assert!(ask(&path, "").expect("an answer").starts_with("HTTP/1.1 200 OK"));
    // A config without the socket closes it.
    gateway.write_config(&config(&origin, ""));
    gateway.signal(Signal::HUP);
    eventually("the socket to be gone", || !path.exists());
    gateway.write_config(&config(&origin, ", \"unix:$DIR/in.sock\""));
    gateway.signal(Signal::HUP);
    eventually("the socket to be back", || {
        ask(&path, "").is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
    });
    gateway.signal(Signal::TERM);
    gateway.wait_exit();
    eventually("its file to be gone", || !path.exists());
}

#[test]
fn a_socket_that_was_left_is_replaced_and_another_process_is_not() {
    let origin = Origin::ok();
    let folder = std::env::temp_dir().join(format!("tollgate-listen-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("in.sock");
    drop(UnixListener::bind(&path).expect("bound"));
    let listen = format!(", \"unix:{}\"", path.display());
    let gateway = Gateway::start(&config(&origin, &listen));
    assert!(ask(&path, "").expect("an answer").starts_with("HTTP/1.1 200 OK"));
    // The second gateway finds the socket in use, and keeps its previous configuration.
    let other = Gateway::start(&config(&origin, ""));
    other.write_config(&config(&origin, &listen));
    other.signal(Signal::HUP);
    eventually("the refusal", || other.stderr().contains("a process listens there already"));
    assert_eq!(other.client().get("/").status, 200);
    assert!(ask(&path, "").expect("an answer").starts_with("HTTP/1.1 200 OK"));
    drop(gateway);
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn a_proxy_names_the_client_of_a_unix_socket() {
    let origin = Origin::ok();
    let gateway =
        Gateway::start(&config(&origin, ", {bind: \"unix:$DIR/in.sock\", proxy_protocol: 0.0.0.0/32}"));
    let header = "PROXY TCP4 203.0.113.7 192.0.2.1 4711 80\r\n";
    assert!(ask(&socket(&gateway), header).expect("an answer").starts_with("HTTP/1.1 200 OK"));
    assert!(format!("{:?}", origin.request().headers).contains("203.0.113.7"));
}

#[test]
fn the_source_address_of_connections_to_endpoints() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    let peers = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = peers.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            seen.lock().expect("peers").push(stream.peer_addr().expect("a peer").ip().to_string());
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    let yaml = |source: &str| {
        format!(
            "upstreams: {{up: {{endpoints: [\"{address}\"], source_address: {source}, health: /healthz, retry: off}}}}\n\
             routes: [{{match: \"/*\", to: up}}]"
        )
    };
    let gateway = Gateway::start(&yaml("127.0.0.9"));
    assert_eq!(gateway.client().get("/").status, 200);
    eventually("a probe", || peers.lock().expect("peers").len() >= 2);
    assert!(peers.lock().expect("peers").iter().all(|peer| peer == "127.0.0.9"), "{peers:?}");
    // Another source address applies from the next connection on. An address that this machine lacks opens no
    // connection.
    gateway.write_config(&yaml("127.0.0.10"));
    gateway.signal(Signal::HUP);
    eventually("the other address", || {
        gateway.client().get("/").status == 200
            && peers.lock().expect("peers").last().is_some_and(|peer| peer == "127.0.0.10")
    });
    let gateway = Gateway::start(&yaml("192.0.2.9").replace(", health: /healthz", ""));
    assert_eq!(gateway.client().get("/").reason(), "connection_refused");
}

#[test]
fn a_listener_has_its_own_idle_timeout() {
    let origin = Origin::ok();
    let gateway = Gateway::start(&format!(
        "listen: [{{bind: \"$LISTEN\", timeouts: {{idle: 200ms}}}}]\ntimeouts: {{idle: 1h}}\n\
         routes: [{{match: \"/*\", to: [{}]}}]",
        origin.address()
    ));
    let mut silent = gateway.client();
    let mut client = gateway.client();
    assert_eq!(client.get("/").status, 200);
    client.expect_close();
    silent.expect_close();
    let http2 = gateway.http2();
    eventually("GOAWAY", || !http2.is_open());
}

#[test]
fn a_route_has_its_own_idle_timeout_and_age() {
    let origin = Origin::ok();
    let gateway = Gateway::start(&format!(
        "timeouts: {{idle: 1h}}\nroutes:\n- {{match: /short, to: &to [{}], timeouts: {{idle: 200ms}}}}\n\
         - {{match: /old, respond: old, timeouts: {{age: 1ms}}}}\n- {{match: /off, respond: off, timeouts: {{idle: off}}}}\n\
         - {{match: /aging, respond: aging, timeouts: {{age: 1s}}}}\n- {{match: /*, to: *to}}\n",
        origin.address()
    ));
    // The last request's route sets the idle timeout.
    let (mut short, mut long) = (gateway.client(), gateway.client());
    for (client, paths) in [(&mut short, ["/", "/short"]), (&mut long, ["/short", "/"])] {
        for path in paths {
            let response = client.get(path);
            assert!(response.status == 200 && !response.says_close());
        }
    }
    short.expect_close();
    assert_eq!(long.get("/off").text(), "off");
    // If a connection is older than the age of a route, this route's answer announces the close.
    let response = long.get("/old");
    assert_eq!((response.text().as_str(), response.says_close()), ("old", true));
    long.expect_close();
    // If it is younger, a later answer announces the close at that age, or an idle connection closes then.
    // The routes of later requests do not matter.
    let mut client = gateway.client();
    assert!(!client.get("/aging").says_close());
    assert!(!client.get("/").says_close());
    client.expect_close();

    // HTTP/2: the stream that ended last sets the idle timeout; the age of any of its routes counts.
    let mut http2 = gateway.http2();
    assert_eq!((http2.get("/").status, http2.get("/short").status), (200, 200));
    eventually("GOAWAY", || !http2.is_open());
    let mut http2 = gateway.http2();
    assert_eq!((http2.get("/short").status, http2.get("/").status), (200, 200));
    std::thread::sleep(Duration::from_millis(500));
    assert!(http2.is_open());
    assert_eq!(http2.get("/old").text(), "old");
    eventually("GOAWAY", || !http2.is_open());
    http2.wait_close().expect("an orderly end");
    let mut http2 = gateway.http2();
    assert_eq!((http2.get("/aging").status, http2.get("/").status), (200, 200));
    assert!(http2.is_open());
    eventually("GOAWAY", || !http2.is_open());
}

#[test]
fn a_stream_that_is_under_way_outlives_the_age_of_its_connection() {
    let gate = tollgate_tests::Gate::new();
    let opened = gate.clone();
    let origin = Origin::play(move |conn| {
        while conn.request().is_some() {
            opened.wait();
            conn.ok("late");
        }
    });
    let gateway = Gateway::start(&format!(
        "routes:\n- {{match: /slow, to: {}}}\n- {{match: /old, respond: old, timeouts: {{age: 1ms}}}}\n",
        origin.address()
    ));
    let mut http2 = gateway.http2();
    let slow = http2.begin(tollgate_tests::http2::get("/slow"), true).expect("begun");
    eventually("the origin has it", || origin.count() == 1);
    assert_eq!(http2.get("/old").text(), "old");
    eventually("GOAWAY", || !http2.is_open() || http2.try_ask(tollgate_tests::http2::get("/old")).is_err());
    gate.open();
    assert_eq!(slow.response().expect("an answer").text(), "late");
}

#[test]
fn an_old_connection_gets_connection_close() {
    for settings in ["timeouts: {age: 400ms}", "listen: [{bind: $LISTEN, timeouts: {age: 400ms}}]"] {
        leaves_at_its_age(settings);
    }
}

/// Asserts that connections end after 400 ms.
fn leaves_at_its_age(settings: &str) {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, settings);
    let start = Instant::now();
    let mut client = gateway.client();
    // The next request has always started, because an idle connection would close without an answer.
    client.send("G");
    let mut last = None;
    while start.elapsed() < Duration::from_secs(15) {
        client.send("ET / HTTP/1.1\r\nHost: a\r\n\r\nG");
        let response = client.response();
        assert_eq!(response.status, 200);
        if response.says_close() {
            last = Some(start.elapsed());
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(last.expect("a last answer") >= Duration::from_millis(400));
    client.expect_close();
    // An idle connection closes at its maximum age. An HTTP/2 connection gets a GOAWAY then, also with
    // requests in progress.
    gateway.client().expect_close();
    let mut http2 = gateway.http2();
    assert_eq!(http2.get("/").status, 200);
    eventually("GOAWAY", || !http2.is_open());
    http2.wait_close().expect("an orderly end");
}

#[test]
fn the_age_of_one_listener_is_not_the_age_of_another() {
    let origin = Origin::ok();
    let listen = ", {bind: \"unix:$DIR/in.sock\", timeouts: {age: 200ms}}";
    let gateway = Gateway::start(&config(&origin, listen));
    let mut other = gateway.client();
    assert_eq!(other.get("/").status, 200);
    let mut stream = UnixStream::connect(socket(&gateway)).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
    let mut answer = String::new();
    // The connection is idle behind the answer, and ends at its age.
    stream.read_to_string(&mut answer).expect("an answer and an end");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert_eq!(other.get("/").status, 200, "the older connection goes on");
}
