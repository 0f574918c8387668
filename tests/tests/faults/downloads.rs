//! Small requests beside downloads that keep one worker busy: the worker moves a bounded part of a body in each turn.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use tollgate_tests::{Gateway, Service};

use super::load::{Answers, Load};

/// The length of a download, in bytes.
const BODY_BYTES: u64 = 1 << 30;

#[test]
#[ignore = "a fault test: `make faults`"]
fn small_requests_beside_two_downloads() {
    let service = Service::start("a");
    let store =
        Gateway::start("workers: 1\naccess_log: off\nroutes: [{match: \"/*\", files: {root: $DIR}}]\n");
    File::create(store.directory().join("large")).and_then(|file| file.set_len(BODY_BYTES)).expect("a file");
    let gateway = Gateway::start(&format!(
        "workers: 1\naccess_log: off\nroutes: [{{match: /large, to: \"{}\"}}, {{match: \"/*\", to: \"{}\"}}]\n",
        store.address(),
        service.address()
    ));
    let alone = load(gateway.address(), || thread::sleep(Duration::from_secs(3)));
    let beside = load(gateway.address(), || {
        let downloads =
            [(); 2].map(|()| gateway.address()).map(|address| thread::spawn(move || download(address)));
        downloads.into_iter().for_each(|download| assert_eq!(download.join().expect("no panic"), BODY_BYTES));
    });
    for (name, answers) in [("alone", alone), ("beside two downloads of 1 GiB", beside)] {
        eprintln!(
            "small requests {name}: {}, {} failed; p50 {:?}, p99 {:?}",
            answers.count(),
            answers.failures.len(),
            answers.percentile(0.5),
            answers.percentile(0.99),
        );
        assert_eq!(answers.failures, Vec::<String>::new());
    }
}

/// Sends small requests while `meanwhile` runs.
fn load(address: SocketAddr, meanwhile: impl FnOnce()) -> Answers {
    let load = Load::start(address, 4, Duration::from_millis(2));
    meanwhile();
    load.end()
}

/// Downloads the large file, and returns the length of its body.
fn download(address: SocketAddr) -> u64 {
    let mut stream = TcpStream::connect(address).expect("the gateway listens");
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sent");
    let mut buffer = vec![0; 1 << 20];
    let mut head = Vec::new();
    loop {
        let count = stream.read(&mut buffer).expect("the response goes on");
        head.extend_from_slice(&buffer[..count]);
        if let Some(end) = head.windows(4).position(|part| part == b"\r\n\r\n") {
            let mut body = (head.len() - end - 4) as u64;
            while let count @ 1.. = stream.read(&mut buffer).expect("the response goes on") {
                body += count as u64;
            }
            return body;
        }
    }
}
