//! Binary upgrade (SIGUSR2): another process takes over without lost requests, or everything stays as it is.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, kill_process};
use serde_json::Value;
use tollgate_tests::{Client, DEADLINE, Gate, Gateway, Origin, Signal, binary, eventually};

const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
const WEBSOCKET: &str = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";

/// Starts an origin that answers requests, and echoes after a protocol switch.
fn origin() -> Origin {
    Origin::play(|conn| {
        while let Some(request) = conn.request() {
            if request.headers.has("Upgrade") {
                conn.send(SWITCH);
                conn.echo_bytes();
                return;
            }
            conn.ok(&request.target);
        }
    })
}

fn echoes(client: &mut Client, text: &str) {
    client.send(text);
    assert_eq!(client.wire().take(text.len()), Ok(text.as_bytes().to_vec()));
}

/// Sends requests until an answer announces the close, and returns how many it sent. Workers learn of the
/// upgrade at different moments.
fn reported(client: &mut Client) -> usize {
    for asked in 1..1000 {
        let answer = client.get("/told");
        assert_eq!(answer.text(), "/told");
        if answer.says_close() {
            client.expect_close();
            return asked;
        }
    }
    panic!("the connection is kept for ever");
}

fn failed_upgrade(gateway: &Gateway) -> Option<String> {
    let status: Value = serde_json::from_str(&gateway.admin("/status").text()).expect("JSON");
    status["last_failed_upgrade"]["problem"].as_str().map(str::to_owned)
}

#[test]
fn another_process_serves_and_the_first_one_ends_its_work() {
    let origin = origin();
    let mut gateway = Gateway::with(&origin, "workers: 2\ntimeouts: {drain: 10s}");
    let first = gateway.pid();
    let (mut kept, mut websocket) = (gateway.client(), gateway.client());
    assert_eq!(kept.get("/1").text(), "/1");
    websocket.send(WEBSOCKET);
    assert_eq!(websocket.head().status, 101);
    echoes(&mut websocket, "before");

    gateway.upgrade();
    assert_ne!(gateway.pid(), first);
    // The first process still has this connection. One more answer announces its close.
    let asked = reported(&mut kept);
    let new = gateway.client().get("/3");
    assert_eq!((new.text().as_str(), new.says_close()), ("/3", false));
    echoes(&mut websocket, "after");
    drop(websocket);
    gateway.wait_predecessor(0);
    assert_eq!(gateway.admin("/readyz").status, 200);
    eventually("all records", || gateway.records().len() == 3 + asked);
    gateway.reconcile(&[&origin]);
    gateway.await_message("has taken over from");
}

#[test]
fn no_connection_is_refused_and_no_request_lost_over_several() {
    let origin = origin();
    let config = |workers: usize| {
        format!(
            "workers: {workers}\ntimeouts: {{drain: 5s}}\nroutes: [{{match: \"/*\", to: [{}]}}]",
            origin.address()
        )
    };
    let mut gateway = Gateway::start(&config(2));
    let stop = Arc::new(AtomicBool::new(false));
    let address = gateway.address();
    let clients: Vec<_> = (0..4)
        .map(|n| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let mut answers = 0;
                let mut client = None;
                while !stop.load(Ordering::SeqCst) {
                    // Two clients always open new connections; two keep theirs for as long as they may.
                    let mut own = client.take().unwrap_or_else(|| Client::connect(address, Arc::default()));
                    let target = format!("/{n}/{answers}");
                    let answer = own.get(&target);
                    assert_eq!((answer.status, answer.text()), (200, target));
                    answers += 1;
                    client = (n < 2 && !answer.says_close()).then_some(own);
                }
                answers
            })
        })
        .collect();
    // With fewer workers, then with more: each listening socket keeps a worker that accepts from it.
    for (turn, workers) in [1, 3, 2].into_iter().enumerate() {
        gateway.write_config(&config(workers));
        gateway.upgrade();
        gateway.wait_predecessor(turn);
    }
    stop.store(true, Ordering::SeqCst);
    let answers: usize = clients.into_iter().map(|client| client.join().expect("no request fails")).sum();
    eventually("a record of each request", || gateway.records().len() >= answers);
    assert_eq!(gateway.records().len(), answers);
}

/// Copies the binary, so that a test can replace the file while the gateway runs.
fn own_binary(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tollgate-takeover-{}-{name}", std::process::id()));
    fs::copy(binary(), &path).expect("a copy");
    path
}

fn replace(program: &Path, script: &str) {
    let new = program.with_extension("new");
    fs::write(&new, script).expect("written");
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).expect("permissions");
    fs::rename(&new, program).expect("renamed");
}

#[test]
fn a_successor_that_fails_to_start_changes_nothing() {
    let program = own_binary("rollback");
    let origin = origin();
    let config = format!(
        "timeouts: {{takeover: 5s}}\nroutes: [{{match: \"/*\", to: [{}]}}]\nworkers: 2",
        origin.address()
    );
    let gateway = Gateway::start_program(&program, &config);
    let mut kept = gateway.client();
    let pid = gateway.pid();
    for (script, problem) in [
        (Some("#!/bin/sh\nexit 7\n"), "ended with exit status 7"),
        (Some("#!/bin/sh\nkill -9 $$\n"), "ended by signal 9"),
        (Some("#!/bin/sh\nexec sleep 1000\n"), "did not come up in time"),
        (Some("not a program"), "cannot start"),
        (None, "cannot start"),
    ] {
        match script {
            Some(script) => replace(&program, script),
            None => fs::remove_file(&program).expect("removed"),
        }
        gateway.signal(Signal::USR2);
        eventually(problem, || failed_upgrade(&gateway).is_some_and(|reported| reported.contains(problem)));
        let answer = kept.get("/");
        assert_eq!((answer.status, answer.says_close()), (200, false), "as if nothing had happened");
        assert_eq!(gateway.client().get("/").status, 200);
        assert_eq!((gateway.serving_pid(), gateway.admin("/readyz").status), (pid, 200));
    }
    // The upgrade succeeds once the file is valid again.
    fs::copy(binary(), &program).expect("a copy");
    let mut gateway = gateway;
    gateway.upgrade();
    reported(&mut kept);
    fs::remove_file(&program).expect("removed");
}

#[test]
fn a_bad_file_stays_with_the_old_one() {
    let mut gateway = Gateway::start("routes: [{match: /version, respond: one}]");
    gateway.write_config("routes: [{match: /version, respnd: two}]");
    gateway.signal(Signal::USR2);
    eventually("a message", || gateway.stderr().contains("error: no upgrade: the new process ended"));
    gateway.await_message("respnd");
    assert_eq!(gateway.client().get("/version").text(), "one");
    gateway.write_config("routes: [{match: /version, respond: two}]");
    gateway.upgrade();
    assert_eq!(gateway.client().get("/version").text(), "two");
}

#[test]
fn only_one_at_a_time_and_a_stop_ends_both() {
    let program = own_binary("stuck");
    let mut gateway = Gateway::start_program(&program, "routes: [{match: /, respond: 204}]");
    replace(&program, "#!/bin/sh\nexec sleep 1000\n");
    gateway.signal(Signal::USR2);
    // The kernel may merge two pending signals into one.
    eventually("the second to be refused", || {
        gateway.signal(Signal::USR2);
        gateway.stderr().contains("no second upgrade")
    });
    // A reload requested now waits, because the gateway does not know which file the new process has read.
    gateway.write_config("routes: [{match: /new, respond: 204}]");
    gateway.signal(Signal::HUP);
    std::thread::sleep(Duration::from_millis(50));
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait_exit().code(), Some(0));
    assert!(!gateway.stderr().contains("reloaded"), "{}", gateway.stderr());
    fs::remove_file(&program).expect("removed");
}

#[test]
fn a_reload_during_an_upgrade_runs_afterwards() {
    let program = own_binary("later");
    let config = |body: &str| format!("timeouts: {{takeover: 3s}}\nroutes: [{{match: /v, respond: {body}}}]");
    let gateway = Gateway::start_program(&program, &config("one"));
    replace(&program, "#!/bin/sh\nexec sleep 1000\n");
    eventually("the upgrade to be under way", || {
        gateway.signal(Signal::USR2);
        gateway.stderr().contains("no second upgrade")
    });
    gateway.write_config(&config("two"));
    gateway.signal(Signal::HUP);
    eventually("the new plan", || gateway.client().get("/v").text() == "two");
    assert!(failed_upgrade(&gateway).is_some(), "not before it was clear who serves");
    fs::remove_file(&program).expect("removed");
}

#[test]
fn addresses_and_logs_may_change_with_it() {
    let origin = origin();
    let other = tollgate_tests::free_address();
    let routes = format!("routes: [{{match: \"/*\", to: [{}]}}]", origin.address());
    let mut gateway = Gateway::start(&format!("listen: [$LISTEN, \"{other}\"]\n{routes}"));
    assert_eq!(Client::connect(other, Arc::default()).get("/").status, 200);
    gateway.write_config(&format!("access_log: {{to: $DIR/new.log, format: json}}\n{routes}"));
    gateway.upgrade();
    assert_eq!(gateway.client().get("/").status, 200);
    gateway.wait_predecessor(0);
    assert!(std::net::TcpStream::connect(other).is_err(), "the new file does not have it");
    eventually("the new log", || {
        fs::read_to_string(gateway.directory().join("new.log")).is_ok_and(|log| log.lines().count() == 1)
    });
}

#[test]
fn waiting_commands_run_after_a_failed_upgrade() {
    let program = own_binary("again");
    let many: String = (0..20_000).map(|n| format!("  - {{match: /r{n}, respond: 204}}\n")).collect();
    let config = |body: &str| {
        format!("timeouts: {{takeover: 2s}}\nroutes:\n  - {{match: /v, respond: {body}}}\n{many}")
    };
    let gateway = Gateway::start_program(&program, &config("one"));
    replace(&program, "#!/bin/sh\nexec sleep 1000\n");
    let a_moment = || std::thread::sleep(Duration::from_millis(20));
    // A reload, another during the first, and then the upgrade, which both precede.
    gateway.write_config(&config("two"));
    gateway.signal(Signal::HUP);
    a_moment();
    gateway.write_config(&config("three"));
    gateway.signal(Signal::HUP);
    a_moment();
    gateway.signal(Signal::USR2);
    eventually("the upgrade to fail", || failed_upgrade(&gateway).is_some());
    eventually("the last file", || gateway.client().get("/v").text() == "three");
    fs::remove_file(&program).expect("removed");
}

#[test]
fn sockets_for_more_workers_get_nothing_before_it_serves() {
    let origin = origin();
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    silent.set_read_timeout(Some(DEADLINE)).expect("a time-out");
    let config = |workers: usize, more: &str| {
        format!(
            "workers: {workers}\ntimeouts: {{takeover: 2s}}\n{more}routes:\n  - {{match: \"/*\", to: [{}]}}\n",
            origin.address()
        )
    };
    let gateway = Gateway::start(&config(1, ""));
    // The new process waits for a DNS server that does not answer, for longer than its start may take.
    let lookup = format!(
        "upstreams: {{u: {{discover: {{dns: app.test, port: 80, servers: \"{}\"}}}}}}\n",
        silent.local_addr().expect("an address")
    );
    gateway.write_config(&(config(8, &lookup) + "  - {match: /u, to: u}\n"));
    gateway.signal(Signal::USR2);
    while failed_upgrade(&gateway).is_none() {
        assert_eq!(gateway.client().get("/").status, 200);
    }
    assert!(failed_upgrade(&gateway).is_some_and(|reported| reported.contains("did not come up in time")));
    assert!(silent.recv(&mut [0; 512]).is_ok(), "it came as far as that");
    gateway.reconcile(&[&origin]);
}

#[test]
fn a_stop_of_all_processes_is_the_first_for_each() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::play(move |conn| {
        while conn.request().is_some() {
            held.wait();
            conn.ok("finished");
        }
    });
    let mut gateway = Gateway::to(&origin);
    let first = i32::try_from(gateway.pid()).ok().and_then(Pid::from_raw).expect("an id");
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the request", || origin.count() == 1);
    gateway.upgrade();
    // As a supervisor does when it stops the service.
    kill_process(first, Signal::TERM).expect("it is there");
    eventually("the signal to be heard", || gateway.stderr().contains("ends already: 1 request in flight"));
    gate.open();
    assert_eq!(client.response().text(), "finished");
    gateway.wait_predecessor(0);
}

#[test]
fn an_address_may_become_wider_with_it() {
    let config = |host: &str, port: u16| {
        format!("listen: [$LISTEN, \"{host}:{port}\"]\nroutes: [{{match: /, respond: \"{host}\"}}]")
    };
    let port = tollgate_tests::free_port();
    let there = || Client::connect(([127, 0, 0, 1], port).into(), Arc::default()).get("/").text();
    let mut gateway = Gateway::start(&config("127.0.0.1", port));
    gateway.write_config(&config("0.0.0.0", port));
    gateway.upgrade();
    gateway.wait_predecessor(0);
    assert_eq!(there(), "0.0.0.0");
}
