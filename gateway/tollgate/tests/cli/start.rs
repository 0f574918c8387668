//! Failed starts report why; successful starts report it, to systemd too.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;

use rustix::process::Signal;

use super::{DEADLINE, Running, arg, file, run, tollgate};

const ROUTES: &str = "routes: [{match: /x, respond: 204}]\n";

#[test]
fn addresses_in_use() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address");
    for (config, key) in [
        (format!("listen: \"{address}\"\nadmin: off\nworkers: 2\n{ROUTES}"), "listen"),
        (format!("listen: 127.0.0.1:0\nadmin: \"{address}\"\n{ROUTES}"), "admin"),
    ] {
        let ran = run(&["run", arg(&file(&config))]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        let message = format!("error: cannot listen on {address} (`{key}`): something listens there already");
        assert!(ran.err.contains(&message), "{ran:?}");
    }
}

#[test]
fn a_log_without_a_directory() {
    let config =
        format!("listen: 127.0.0.1:0\nadmin: off\naccess_log: /no/such/directory/access.log\n{ROUTES}");
    let ran = run(&["run", arg(&file(&config))]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("/no/such/directory/access.log: its directory does not exist"), "{ran:?}");
}

#[test]
fn standard_input_cannot_be_run() {
    let ran = run(&["run", "-"]);
    assert!(ran.code == Some(2) && ran.err.contains("SIGHUP"), "{ran:?}");
}

#[test]
fn a_second_signal_cuts_the_drain_short() {
    let origin = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = origin.local_addr().expect("its address");
    let config = file(&format!(
        "listen: 127.0.0.1:0\nadmin: off\ntimeouts: {{drain: off}}\nroutes: [{{to: \"{address}\"}}]\n"
    ));
    let mut running = Running::start(&mut tollgate(&["run", arg(&config)]));
    let mut lines = BufReader::new(running.child().stderr.take().expect("piped")).lines();
    // Each line begins with the time, since nothing else adds it to a pipe.
    let mut line = || {
        let line = lines.next().expect("a line").expect("a line");
        line.split_once("Z ").expect("a time").1.to_owned()
    };
    let started = line();
    let listen =
        started.split_once("listens on ").and_then(|(_, rest)| rest.split_once(": ")).expect("an address").0;
    let mut client = TcpStream::connect(listen).expect("it listens");
    client.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").expect("sent");
    // The request has arrived at an origin that never answers.
    let _kept = origin.accept().expect("a connection");
    running.signal(Signal::INT);
    assert_eq!(line(), "tollgate stops: 1 request in flight");
    running.signal(Signal::INT);
    assert_eq!(line(), "tollgate stops at once: 1 request cut off");
    assert_eq!(running.end().code, Some(0));
}

#[test]
fn systemd_is_notified() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(DEADLINE)).expect("set");
    let notification = || {
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).expect("a message in time");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    // A bare `/` warns, and runs.
    let config = file("listen: 127.0.0.1:0\nadmin: off\nroutes: [{match: /, respond: 204}]\n");
    let mut command = tollgate(&["run", arg(&config)]);
    let mut running = Running::start(command.env("NOTIFY_SOCKET", &path));
    assert_eq!(notification().trim_end(), "READY=1");
    running.signal(Signal::HUP);
    let reloading = notification();
    assert!(reloading.contains("RELOADING=1") && reloading.contains("MONOTONIC_USEC="), "{reloading}");
    assert_eq!(notification().trim_end(), "READY=1");
    running.signal(Signal::TERM);
    assert_eq!(notification().trim_end(), "STOPPING=1");
    let ran = running.end();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.err.contains("warning: ") && ran.err.contains("tollgate stops: 0 requests in flight"),
        "{ran:?}"
    );
    assert!(ran.out.is_empty(), "{ran:?}");
}
