//! The connections of a worker when it drains.

use std::io::Read;
use std::time::{Duration, Instant};

use tollgate_observe::Reason;
use tollgate_proxy::{Receipt, WorkerCommand};

use crate::gateway::{Client, Gateway, eventually};
use crate::origin::Origin;

const SOON: Duration = Duration::from_secs(5);

#[test]
fn idle_connections_end_at_once_also_after_an_empty_line() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin.to(), "", "timeouts: {idle: off, header: off}");
    let mut clients: Vec<_> = (0..3).map(|_| gateway.client()).collect();
    clients[1].send("\r\n");
    assert!(clients[2].ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").ends_with("\r\nok"));
    eventually("three connections", || gateway.counts().client_connections == 3);
    std::thread::sleep(Duration::from_millis(50));
    let start = Instant::now();
    gateway.end(Duration::from_secs(15));
    assert!(start.elapsed() < SOON);
    for mut client in clients {
        assert!(client.rest().expect("an end").is_empty());
    }
}

#[test]
fn requests_in_flight_finish_with_connection_close() {
    let origin = Origin::new(|mut connection, _| {
        while connection.request() {
            std::thread::sleep(Duration::from_millis(300));
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let gateway = Gateway::to(&origin.to(), "", "");
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the request", || gateway.counts().in_flight == 1);
    gateway.tell(|| WorkerCommand::Drain(Some(SOON)));
    let answer = client.answer();
    assert!(answer.contains("\r\nConnection: close\r\n") && answer.ends_with("\r\nok"), "{answer}");
    assert!(client.rest().expect("an end").is_empty());
    drop(client);
    gateway.end(SOON);
}

#[test]
fn unfinished_requests_are_cut_and_logged_once() {
    let origin = Origin::new(|mut connection, _| {
        let mut buffer = [0; 4096];
        let count = connection.read(&mut buffer);
        if buffer[..count].starts_with(b"GET /upgrade") {
            let head = "HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
            connection.send(format!("{head}hello"));
        }
        connection.wait_for_end();
    });
    let gateway = Gateway::to(&origin.to(), "", "");
    let mut silent = gateway.client();
    silent.send("GET /silent HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut upgraded = gateway.client();
    upgraded.send("GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    let mut text = String::new();
    while !text.ends_with("hello") {
        let mut buffer = [0; 4096];
        let count = upgraded.stream.read(&mut buffer).expect("the upgrade");
        text.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    upgraded.send("abc");
    // The origin may read either of the two last.
    eventually("the bytes", || origin.seen().contains("abc") && origin.seen().contains("/silent"));
    let ended = gateway.end(Duration::from_millis(100));
    assert_eq!(ended.reason(Reason::ShuttingDown), 2);
    let mut lines = ended.lines;
    lines.sort();
    assert_eq!(lines, ["000 shutting_down 0 0 1 GET /silent", "101 shutting_down 3 5 1 GET /upgrade"]);
}

/// The kernel has accepted these connections for the gateway: closing the listening socket would reset them.
#[test]
fn connections_in_the_queue_are_served() {
    let origin = Origin::ok();
    let routes = format!("routes: [{{match: \"/*\", to: \"{}\"}}]", origin.to());
    for workers in [1, 2] {
        let mut clients = Vec::new();
        let gateway = Gateway::start_after(workers, &routes, |address, mailboxes| {
            for _ in 0..5 {
                let mut client = Client::connect(address);
                client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
                clients.push(client);
            }
            for mailbox in mailboxes {
                mailbox.send(WorkerCommand::Drain(Some(SOON))).expect("a mailbox");
            }
        });
        for client in &mut clients {
            let answer = client.answer();
            assert!(answer.contains("\r\nConnection: close\r\n") && answer.ends_with("\r\nok"), "{answer}");
        }
        drop(clients);
        assert_eq!(gateway.end(SOON).reason(Reason::None), 5);
    }
}

/// Another worker may begin its drain first, and end while a connection is on its way there.
#[test]
fn a_connection_stays_with_its_worker_once_a_drain_is_announced() {
    const CLIENTS: usize = 16;
    let origin = Origin::ok();
    let routes = format!("routes: [{{match: \"/*\", to: \"{}\"}}]", origin.to());
    let mut clients = Vec::new();
    let (receipt, receipts) = Receipt::new();
    let gateway = Gateway::start_after(2, &routes, |address, mailboxes| {
        clients.extend((0..CLIENTS).map(|_| Client::connect(address)));
        for mailbox in mailboxes {
            let leave = WorkerCommand::Leave { grace: None, receipt: Some(receipt.clone()) };
            mailbox.send(leave).expect("a mailbox");
        }
    });
    drop(receipt);
    receipts.wait().expect("no failure");
    eventually("all connections", || gateway.counts().client_connections == CLIENTS as u64);
    assert_eq!(gateway.counts().client_connections_handed_over, 0);
    gateway.tell(|| WorkerCommand::Drain(Some(SOON)));
    for client in &mut clients {
        let answer = client.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(answer.contains("\r\nConnection: close\r\n") && answer.ends_with("\r\nok"), "{answer}");
    }
    drop(clients);
    assert_eq!(gateway.end(SOON).reason(Reason::None), CLIENTS as u64);
}
