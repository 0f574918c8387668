//! Memory of a target over thousands of idle client connections, and after a burst has gone.

use crate::configs::Terms;
use crate::http::{ask, connect, read_answer};
use crate::meter;
use crate::result::IdleMemory;
use crate::target::{Ground, Running, System, start};
use std::io;
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Idle connections held.
pub const CONNECTIONS: u32 = 5_000;

/// Connections of the burst, and requests on each.
const BURST: (u32, u32) = (2_000, 20);

/// Connections and requests before the first reading, so that what a server sets up once is its own.
const WARM: (u32, u32) = (64, 20);

/// How long memory may take to come back after the burst.
const COME_BACK: Duration = Duration::from_secs(10);

/// Memory counts as back within this factor of before.
pub const BACK: f64 = 1.10;

/// Files this process and a target have open beside the idle connections.
const SPARE_FILES: u64 = 600;

/// Measures one target. `files` is the limit on open files.
pub fn run(ground: &Ground, system: System, files: u64) -> IdleMemory {
    let connections =
        CONNECTIONS.min(u32::try_from(files.saturating_sub(SPARE_FILES)).unwrap_or(CONNECTIONS));
    let terms = Terms { clients: CONNECTIONS + 1_000, ..Terms::default() };
    let mut idle = IdleMemory { name: system.name(), connections, ..IdleMemory::default() };
    let outcome = start(ground, system, &terms, ground.origin_port())
        .map_err(|failure| failure.to_string())
        .and_then(|running| measure(&running, &mut idle).map_err(|error| error.to_string()));
    idle.missing = outcome.err();
    idle
}

fn measure(running: &Running, idle: &mut IdleMemory) -> io::Result<()> {
    let own = || meter::memory(running.id()).own();
    burst(running.port, WARM)?;
    settle();
    idle.base = own();
    let held: Vec<TcpStream> = (0..idle.connections)
        .map(|_| {
            let mut stream = connect(running.port, Duration::from_secs(5))?;
            exchange(&mut stream)?;
            Ok(stream)
        })
        .collect::<io::Result<_>>()?;
    settle();
    idle.held = own();
    drop(held);
    burst(running.port, BURST)?;
    let deadline = Instant::now() + COME_BACK;
    loop {
        settle();
        idle.after = own();
        if idle.after_over_base() <= BACK || Instant::now() > deadline {
            return Ok(());
        }
    }
}

/// Opens so many connections, sends so many requests on each, all connections at once, and closes them.
fn burst(port: u16, (connections, requests): (u32, u32)) -> io::Result<()> {
    let mut streams: Vec<TcpStream> =
        (0..connections).map(|_| connect(port, Duration::from_secs(5))).collect::<io::Result<_>>()?;
    for _ in 0..requests {
        for stream in &mut streams {
            ask(stream, "/body/4096")?;
        }
        for stream in &mut streams {
            expect(stream, 4_096)?;
        }
    }
    Ok(())
}

fn exchange(stream: &mut TcpStream) -> io::Result<()> {
    ask(stream, "/")?;
    expect(stream, 2)
}

fn expect(stream: &mut TcpStream, length: usize) -> io::Result<()> {
    let answer = read_answer(stream)?;
    if answer.status == 200 && answer.body.len() == length {
        Ok(())
    } else {
        let told = format!("status {} with {} bytes", answer.status, answer.body.len());
        Err(io::Error::new(io::ErrorKind::InvalidData, told))
    }
}

/// Lets the server finish what it does after the last byte of an answer.
fn settle() {
    sleep(Duration::from_millis(500));
}
