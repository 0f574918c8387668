//! The costs of a request, counted: system calls, messages between workers, memory of an idle connection.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tollgate_tests::{Gateway, Origin, eventually};

/// Every system call for sockets and for the event fds that wake their readers; the poll itself is not
/// counted.
const SOCKET_CALLS: &str = "read,readv,recvfrom,recvmsg,recvmmsg,write,writev,sendto,sendmsg,sendmmsg,splice,sendfile,\
    accept4,accept,connect,socket,close,shutdown,getsockopt,setsockopt,getpeername,getsockname,ioctl,fcntl,epoll_ctl";

fn traced(pid: u32) -> bool {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    tasks.flatten().all(|task| {
        let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        status.lines().any(|line| line.strip_prefix("TracerPid:").is_some_and(|tracer| tracer.trim() != "0"))
    })
}

/// Records the system calls of a gateway.
struct Strace {
    child: Child,
    file: PathBuf,
}

impl Strace {
    /// Starts to record these calls. If strace is missing or may not attach, prints what is not tested and
    /// returns `None`.
    fn watch(gateway: &Gateway, calls: &str, not_done: &str) -> Option<Self> {
        if Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_err() {
            eprintln!("SKIPPED: strace is not installed, so {not_done}");
            return None;
        }
        let file = gateway.directory().join("strace.out");
        let mut child = Command::new("strace")
            .args(["-f", "-qq", "-e", &format!("trace={calls}"), "-o"])
            .arg(&file)
            .args(["-p", &gateway.pid().to_string()])
            .stderr(Stdio::null())
            .spawn()
            .expect("strace starts");
        let mut refused = false;
        eventually("strace to be attached", || {
            refused = child.try_wait().expect("the child is ours").is_some();
            refused || traced(gateway.pid())
        });
        if refused {
            eprintln!("SKIPPED: strace may not attach here, so {not_done}");
            return None;
        }
        Some(Self { child, file })
    }

    /// Returns the recorded calls, one on each line.
    fn end(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("strace is there");
        self.child.wait().expect("strace ends");
        fs::read_to_string(&self.file).expect("strace's output")
    }
}

#[test]
fn a_keep_alive_request_needs_four_socket_calls() {
    const REQUESTS: usize = 200;
    for (what, request) in [
        ("GET", "GET /x HTTP/1.1\r\nHost: a\r\nUser-Agent: t\r\nAccept: */*\r\n\r\n"),
        ("POST", "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nsome body"),
    ] {
        let origin = Origin::ok();
        let gateway = Gateway::with(&origin, "workers: 1\naccess_log: off");
        let mut client = gateway.client();
        for _ in 0..50 {
            assert_eq!(client.ask(request).status, 200);
        }
        let not_done = "the system calls of a request were NOT counted";
        let Some(strace) = Strace::watch(&gateway, SOCKET_CALLS, not_done) else { return };
        for _ in 0..REQUESTS {
            assert_eq!(client.ask(request).status, 200);
        }
        let text = strace.end();
        // With -f, a call that another thread interrupts appears twice: `<unfinished ...>` and `... resumed`.
        let calls: Vec<&str> =
            text.lines().filter(|line| !line.contains(" resumed>") && line.contains('(')).collect();
        // The housekeeping of other threads (such as a clock tick) may add a few calls.
        let (count, allowed) = (calls.len(), 4 * REQUESTS + 40);
        let sample = calls[..calls.len().min(12)].join("\n");
        assert!(count <= allowed, "{what}: {count} socket calls for {REQUESTS} requests, such as\n{sample}");
        assert!(count >= 2 * REQUESTS, "{what}: only {count} calls were seen: strace missed the worker");
    }
}

/// A worker with many waiting connections accepts a few, and then asks the poller for other events.
#[test]
fn a_flood_of_connections_is_taken_a_few_at_a_time() {
    const WAITING: usize = 300;
    const TURN: usize = 4;
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "workers: 1\naccess_log: off");
    assert_eq!(gateway.client().get("/").status, 200);
    let calls = "accept4,accept,epoll_wait,epoll_pwait,epoll_pwait2";
    let not_done = "the order of system calls was NOT looked at";
    let Some(strace) = Strace::watch(&gateway, calls, not_done) else { return };
    // All of them wait in the kernel's queue when the gateway resumes.
    gateway.signal(Signal::STOP);
    let clients: Vec<_> = (0..WAITING).map(|_| gateway.client()).collect();
    gateway.signal(Signal::CONT);
    for mut client in clients {
        assert_eq!(client.get("/").status, 200);
    }
    let text = strace.end();
    let (mut all, mut run, mut longest) = (0, 0, 0);
    for line in text.lines() {
        if line.contains("accept") && line.rsplit(" = ").next().is_some_and(|fd| fd.parse::<u32>().is_ok()) {
            all += 1;
            run += 1;
            longest = longest.max(run);
        } else if line.contains("epoll_") && !line.contains("unfinished") {
            run = 0;
        }
    }
    assert!(all >= WAITING, "strace saw {all} connections taken");
    assert!(longest <= TURN, "{longest} connections were taken without a look at the others");
}

#[test]
fn workers_exchange_no_message_over_keep_alive_requests() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "workers: 2");
    let mut clients: Vec<_> = (0..8).map(|_| gateway.client()).collect();
    for client in &mut clients {
        assert_eq!(client.get("/").status, 200);
    }
    let messages = || gateway.metrics().sum("tollgate_worker_messages_total", "").expect("the metric");
    let before = messages();
    for _ in 0..50 {
        for client in &mut clients {
            assert_eq!(client.get("/").status, 200);
        }
    }
    let scrapes = messages() - before;
    assert!(scrapes <= 0.0, "{scrapes} messages for 400 requests");
}

#[test]
fn an_idle_connection_costs_little_memory() {
    const CONNECTIONS: u64 = 2_000;
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "access_log: off");
    // The warm-up removes the allocator's growth under a burst from the figure for each connection.
    let mut warm: Vec<_> = (0..50).map(|_| gateway.client()).collect();
    for client in &mut warm {
        assert_eq!(client.get("/").status, 200);
    }
    let before = gateway.memory_kib("VmRSS");
    let mut clients: Vec<_> = (0..CONNECTIONS).map(|_| gateway.client()).collect();
    for client in &mut clients {
        assert_eq!(client.get("/").status, 200);
    }
    let after = gateway.memory_kib("VmRSS");
    let each = (after.saturating_sub(before) * 1024) / CONNECTIONS;
    assert!(each <= 2048, "{each} bytes an idle connection ({before} KiB before, {after} KiB after)");
    drop(clients);
    drop(warm);
    eventually("the connections to be gone", || gateway.open_files() < 100);
    assert_eq!(gateway.client().get("/").status, 200);
}
