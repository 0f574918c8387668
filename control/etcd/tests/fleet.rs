//! The etcd clients of a hundred gateways, in one process, on one real etcd.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc as threads;
use std::time::{Duration, Instant};

use tollgate_etcd::{
    ClientSettings, EtcdClient, EtcdEvent, EtcdThread, Operation, RangeRequest, Transaction,
};

/// An etcd process of this test.
struct EtcdServer {
    child: Child,
    directory: PathBuf,
    endpoint: String,
}

impl EtcdServer {
    fn start(name: &str) -> Self {
        let free = || TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port");
        let (client, peer) = (format!("http://{}", free()), format!("http://{}", free()));
        let directory = std::env::temp_dir().join(format!("tollgate-fleet-{}-{name}", std::process::id()));
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(&directory);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("default={peer}")]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Self { child: child.expect("etcd: see scripts/install-test-tools"), directory, endpoint: client }
    }

    fn settings(&self, name: String) -> ClientSettings {
        ClientSettings {
            endpoints: vec![self.endpoint.clone()],
            prefix: "/fleet".to_owned(),
            user: None,
            tls: None,
            server_name: None,
            name,
        }
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(work)
}

/// Writes `count` keys, a hundred per transaction.
async fn fill(client: &EtcdClient, count: usize) {
    let keys: Vec<usize> = (0..count).collect();
    for part in keys.chunks(100) {
        let put =
            |number: &usize| Operation::Put(format!("/fleet/config/routes/r{number:05}"), b"{}".to_vec());
        let transaction = Transaction { compare: Vec::new(), operations: part.iter().map(put).collect() };
        let started = Instant::now();
        while client.transact(&transaction).await.is_err() {
            assert!(started.elapsed() < Duration::from_secs(20), "etcd does not take writes");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn next(events: &mut tokio::sync::mpsc::Receiver<EtcdEvent>) -> EtcdEvent {
    loop {
        match events.blocking_recv().expect("the thread goes on") {
            EtcdEvent::Connected { .. } | EtcdEvent::Disconnected { .. } => {}
            event => return event,
        }
    }
}

#[test]
fn a_list_comes_whole_however_many_pages_it_has() {
    let server = EtcdServer::start("pages");
    let client = EtcdClient::new(server.settings("writer".to_owned())).expect("a client");
    run(fill(&client, 2500));
    let (etcd, mut events) =
        EtcdThread::start(server.settings("one".to_owned()), "{}".to_owned()).expect("a thread");
    let EtcdEvent::Snapshot { revision, entries } = next(&mut events) else { panic!("all comes first") };
    assert_eq!(entries.len(), 2500);
    assert!(entries.windows(2).all(|two| two[0].key < two[1].key), "each once, by key");
    assert_eq!(entries[0].key, "routes/r00000");
    // The next event holds the changes since then.
    let deleted = Transaction {
        compare: Vec::new(),
        operations: vec![Operation::Delete("/fleet/config/routes/r00007".to_owned(), String::new())],
    };
    let client = EtcdClient::new(server.settings("writer".to_owned())).expect("a client");
    let made = run(async { client.transact(&deleted).await }).expect("made").expect("it demands nothing");
    let EtcdEvent::Changes { revision: last, entries } = next(&mut events) else { panic!("a change") };
    assert_eq!((last, entries.len(), entries[0].value.as_deref()), (made, 1, None));
    assert!(made > revision);
    // The gateway's key exists as long as the client does.
    let there = || {
        let client = EtcdClient::new(server.settings("writer".to_owned())).expect("a client");
        run(async { client.list(&RangeRequest::with_prefix("/fleet/gateways/")).await })
            .expect("listed")
            .entries
            .len()
    };
    let wait = |wanted: usize| {
        let started = Instant::now();
        while there() != wanted {
            assert!(started.elapsed() < Duration::from_secs(20), "not {wanted} gateways");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait(1);
    drop(etcd);
    wait(0);
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn a_change_reaches_a_hundred_gateways() {
    const GATEWAYS: usize = 100;
    const CHANGES: usize = 50;
    let server = EtcdServer::start("hundred");
    let client = EtcdClient::new(server.settings("writer".to_owned())).expect("a client");
    run(fill(&client, 1000));
    let (seen, revisions) = threads::channel::<(Instant, u64)>();
    let gateways: Vec<EtcdThread> = (0..GATEWAYS)
        .map(|number| {
            let settings = server.settings(format!("gateway-{number}"));
            let (etcd, mut events) = EtcdThread::start(settings, "{}".to_owned()).expect("a thread");
            let seen = seen.clone();
            std::thread::spawn(move || {
                while let Some(event) = events.blocking_recv() {
                    if let EtcdEvent::Snapshot { revision, .. } | EtcdEvent::Changes { revision, .. } = event
                        && seen.send((Instant::now(), revision)).is_err()
                    {
                        return;
                    }
                }
            });
            etcd
        })
        .collect();
    let all = |what: &str, from: u64| -> Instant {
        let mut last = Instant::now();
        for _ in 0..GATEWAYS {
            let seen = revisions
                .recv_timeout(Duration::from_secs(20))
                .unwrap_or_else(|_| panic!("{what}: not all hear of it"));
            assert!(seen.1 >= from, "{what}: {} is before {from}", seen.1);
            last = last.max(seen.0);
        }
        last
    };
    all("the list", 0);
    let client = EtcdClient::new(server.settings("writer".to_owned())).expect("a client");
    let mut took: Vec<Duration> = run(async {
        let mut took = Vec::new();
        for number in 0..CHANGES {
            let operations = vec![Operation::Put(
                "/fleet/config/routes/r00001".to_owned(),
                number.to_string().into_bytes(),
            )];
            let started = Instant::now();
            let made = client.transact(&Transaction { compare: Vec::new(), operations }).await;
            let made = made.expect("made").expect("it demands nothing");
            took.push(all("a change", made).saturating_duration_since(started));
        }
        took
    });
    took.sort();
    eprintln!(
        "a change reaches {GATEWAYS} gateways on one etcd, from when it is sent to when the last one has it: median {:?}, \
         longest of {CHANGES} {:?}",
        took[CHANGES / 2],
        took[CHANGES - 1]
    );
    drop(gateways);
    assert!(took[CHANGES - 1] < Duration::from_secs(1), "{:?}", took[CHANGES - 1]);
}
