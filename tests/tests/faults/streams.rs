//! Streams of layer 4: they live over reloads and binary upgrades, end with their endpoint, and new ones go to
//! the endpoints that are left.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};
use tollgate_tests::{DEADLINE, Gateway, Service, Signal, eventually, free_address};

use super::load::{Answers, Load};
use super::network::Relay;
use super::{allow_files, is_optimised};

/// Idle streams of one endpoint, if the limit of open files allows them: the gateway has two for each.
const IDLE_MAX: usize = 10_000;

/// Streams that are open before the memory is measured.
const FIRST: usize = 500;

/// Open files of the gateway without the streams.
const OTHER_FILES: usize = 1_000;

/// Bytes of the pieces of a busy stream: less than a packet, and more than the relay's buffer.
const PIECES: [usize; 4] = [1, 1_000, 20_000, 200_000];

fn config(listen: SocketAddr, endpoints: &[SocketAddr], more: &str) -> String {
    let endpoints: Vec<String> = endpoints.iter().map(|address| format!("\"{address}\"")).collect();
    format!(
        "listen: [$LISTEN, {{bind: \"{listen}\", name: l4, protocol: tcp, to: shop}}]\nworkers: 2\naccess_log: off\n\
         routes: []\nupstreams: {{shop: {{endpoints: [{}], health: off}}}}\ntimeouts: {{drain: 60s}}\n{more}",
        endpoints.join(", ")
    )
}

/// Starts a server that sends everything back.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut buffer = vec![0; 64 * 1024];
                while let Ok(count @ 1..) = stream.read(&mut buffer) {
                    if stream.write_all(&buffer[..count]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the gateway accepts");
    stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    stream
}

/// Sends a request, and reads the answer's status line.
fn ask(stream: &mut TcpStream) -> std::io::Result<bool> {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: shop\r\n\r\n")?;
    let mut buffer = [0; 4_096];
    let count = stream.read(&mut buffer)?;
    Ok(buffer[..count].starts_with(b"HTTP/1.1 200"))
}

/// Sends pieces through one stream, and compares what comes back, until it is stopped.
fn converse(address: SocketAddr, stop: &AtomicBool) -> Answers {
    let mut answers = Answers::default();
    let mut stream = connect(address);
    let mut writer = stream.try_clone().expect("a copy");
    for number in 0.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let length = PIECES[number % PIECES.len()];
        // The period 251 is prime, so a piece that was lost or repeated shows.
        let piece: Vec<u8> = (0..length).map(|at| ((at + number) % 251) as u8).collect();
        let mut back = vec![0; length];
        let started = Instant::now();
        // The relay's buffers hold less than a large piece, so both ways move at once.
        let sent = thread::scope(|scope| {
            let sending = scope.spawn(|| writer.write_all(&piece));
            stream.read_exact(&mut back).and(sending.join().expect("no panic"))
        });
        match sent {
            Ok(()) if back == piece => answers.times.push(started.elapsed()),
            Ok(()) => answers.failures.push(format!("piece {number}: other bytes")),
            Err(error) => {
                answers.failures.push(format!("piece {number}: {error}"));
                break;
            }
        }
        thread::sleep(Duration::from_millis(2));
    }
    answers
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn busy_streams_live_over_reloads_and_an_upgrade() {
    let (listen, echo) = (free_address(), echo());
    let mut gateway = Gateway::start(&config(listen, &[echo], ""));
    let load = Load::by((0..32).map(|_| move |stop: &AtomicBool| converse(listen, stop)));
    let mut reloads = 0;
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(8) {
        // Every second plan has one more listener, and other timeouts of the stream.
        let more = match reloads % 2 {
            0 => format!(
                "streams: [{{name: other, listeners: l4, server_names: a.example, to: \"{echo}\"}}]\n"
            ),
            _ => String::new(),
        };
        gateway.write_config(&config(listen, &[echo], &more));
        gateway.signal(Signal::HUP);
        reloads += 1;
        thread::sleep(Duration::from_millis(200));
    }
    gateway.upgrade();
    thread::sleep(Duration::from_secs(2));
    let answers = load.end();
    eprintln!(
        "32 busy streams over {reloads} reloads and an upgrade: {} pieces, {} failed; p50 {:?}, p99 {:?}, longest {:?}",
        answers.count(),
        answers.failures.len(),
        answers.percentile(0.5),
        answers.percentile(0.99),
        answers.percentile(1.0),
    );
    assert_eq!(answers.failures, Vec::<String>::new());
    assert!(answers.count() > 1_000, "the streams hardly moved");
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn idle_streams_live_over_a_reload_and_end_with_their_endpoint() {
    let most = getrlimit(Resource::Nofile).maximum.map_or(usize::MAX, |most| most as usize);
    let idle = (most.saturating_sub(OTHER_FILES) / 2).min(IDLE_MAX);
    allow_files((2 * idle + OTHER_FILES) as u64);
    let listen = free_address();
    let mut service = Service::start("a");
    let text = config(listen, &[service.address()], "");
    let gateway = Gateway::start(&text);
    let open = || gateway.metrics().sum("tollgate_streams_active", "").unwrap_or_default();
    // The first streams also pay for what all share, such as the pages of the code that they run.
    let mut streams: Vec<TcpStream> = (0..FIRST).map(|_| connect(listen)).collect();
    eventually("the first streams to be open", || open() == FIRST as f64);
    let before = gateway.memory_kib("VmRSS");
    streams.extend((FIRST..idle).map(|_| connect(listen)));
    eventually("all streams to be open", || open() == idle as f64);
    let each = (gateway.memory_kib("VmRSS").saturating_sub(before)) as f64 / (idle - FIRST) as f64;
    gateway.write_config(&format!("{text}limits: {{connections: 50000}}\n"));
    gateway.signal(Signal::HUP);
    thread::sleep(Duration::from_millis(500));
    let answered =
        streams.iter_mut().step_by(100).filter_map(|stream| ask(stream).ok()).filter(|ok| *ok).count();
    let killed = Instant::now();
    service.kill();
    let ended = streams
        .iter_mut()
        .map(|stream| stream.read(&mut [0; 16]))
        .filter(|end| matches!(end, Ok(0) | Err(_)))
        .count();
    let all_ended = killed.elapsed();
    // The kernel ends a killed process's connections in good order, so each stream still has its client's half.
    drop(streams);
    eventually("no stream to be open", || open() == 0.0);
    eprintln!(
        "{idle} idle streams: {each:.2} KiB each; {answered} of {} asked answered after a reload; all ended {:?} after \
         SIGKILL of their endpoint",
        idle.div_ceil(100),
        all_ended,
    );
    service.restart();
    assert!(ask(&mut connect(listen)).is_ok_and(|ok| ok), "a new stream works");
    assert_eq!((answered, ended), (idle.div_ceil(100), idle));
    assert!(!is_optimised() || each <= 2.0, "{each:.2} KiB a stream");
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn new_streams_go_to_the_endpoints_that_are_left() {
    let listen = free_address();
    let mut services = ["a", "b", "c"].map(Service::start);
    let addresses = services.each_ref().map(Service::address);
    let gateway = Gateway::start(&config(listen, &addresses, ""));
    let once = move |stop: &AtomicBool| {
        let mut answers = Answers::default();
        while !stop.load(Ordering::SeqCst) {
            let started = Instant::now();
            match ask(&mut connect(listen)) {
                Ok(true) => answers.times.push(started.elapsed()),
                // A stream that was open when its endpoint was killed ends with it.
                other => answers.failures.push(format!("{other:?}")),
            }
            thread::sleep(Duration::from_millis(2));
        }
        answers
    };
    let load = Load::by((0..8).map(|_| once));
    thread::sleep(Duration::from_secs(2));
    services[1].kill();
    thread::sleep(Duration::from_secs(4));
    let answers = load.end();
    let sum = |name| gateway.metrics().sum(name, "upstream=\"shop\"").unwrap_or(0.0);
    eprintln!(
        "short streams while one of three endpoints is killed: {} streams, {} failed; p99 {:?}; retries {}, ejections {}",
        answers.count(),
        answers.failures.len(),
        answers.percentile(0.99),
        sum("tollgate_upstream_retries_total"),
        sum("tollgate_upstream_ejections_total"),
    );
    assert!(answers.failures.len() <= 8, "more than were open: {:?}", answers.failures);
    assert!(sum("tollgate_upstream_retries_total") > 0.0, "no connect failed");
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn streams_stall_with_their_network_and_go_on() {
    let listen = free_address();
    let relay = Relay::to(echo());
    let _gateway = Gateway::start(&config(listen, &[relay.address()], ""));
    let load = Load::by((0..16).map(|_| move |stop: &AtomicBool| converse(listen, stop)));
    for delay in [0, 50, 0, 200, 0] {
        relay.set(delay);
        thread::sleep(Duration::from_millis(1_500));
    }
    let answers = load.end();
    eprintln!(
        "16 busy streams over a network that stalls for up to 200 ms a piece: {} pieces, {} failed; p50 {:?}, longest {:?}",
        answers.count(),
        answers.failures.len(),
        answers.percentile(0.5),
        answers.percentile(1.0),
    );
    assert_eq!(answers.failures, Vec::<String>::new());
    assert!(answers.percentile(1.0) >= Duration::from_millis(100), "the network did not stall");
}
