//! The streams of the simulation: clients of the layer 4 listener, and the servers that send everything back.
//!
//! A server speaks first, then reads the stream's number, and echoes the bytes that follow. Both sides compare
//! each byte with the stream's pattern.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;

use tollgate_net::simulated::{self, TaskGroup};

use crate::pattern;
use crate::recorder::{Recorder, StreamEnd};
use crate::sabotage::Sabotage;
use crate::scenario::{ECHOES, Leave, STREAMS, StreamPlan};
use crate::wire::{self, Pace, Reader, Wire};

/// The pattern numbers of streams start here, above the numbers of answers.
const PATTERNS: u64 = 10_000_000;

/// The first byte of a server.
const GREETING: &[u8] = b"h";

/// Connections that wait for a server.
const BACKLOG: usize = 128;

/// Plays a client to its end.
pub async fn play(plan: StreamPlan, recorder: Recorder) {
    simulated::sleep(plan.start).await;
    let number = plan.number;
    let Ok(stream) = simulated::connect_from(plan.address, STREAMS).await else {
        return recorder.stream(number, |entry| {
            entry.end = Some(StreamEnd::NoConnection);
            entry.until = simulated::elapsed();
        });
    };
    recorder.stream(number, |entry| entry.connected = true);
    let wire = Wire::new(stream);
    tollgate_net::spawn(send(plan.clone(), wire.clone(), recorder.clone()));
    let mut reader = Reader::new(wire, plan.reads);
    let mut greeted = false;
    let end = loop {
        match reader.some(usize::MAX).await {
            Ok(bytes) if bytes.is_empty() => break StreamEnd::Whole,
            Ok(bytes) => {
                let echoed = if greeted { &bytes[..] } else { &bytes[1..] };
                if !greeted && !bytes.starts_with(GREETING) {
                    recorder.violation(format!("stream {number} does not begin with the server's greeting"));
                }
                greeted = true;
                let came = recorder.read().streams.get(&number).map_or(0, |entry| entry.came);
                if !pattern::is(PATTERNS + number, came, echoed) {
                    recorder.violation(format!("another's bytes came back in stream {number}"));
                }
                recorder.stream(number, |entry| entry.came += echoed.len());
            }
            Err(_) => break StreamEnd::Reset,
        }
    };
    recorder.stream(number, |entry| {
        entry.end = Some(match end {
            _ if entry.left => StreamEnd::Left,
            StreamEnd::Whole if entry.write_failed && !entry.finished => StreamEnd::Reset,
            end => end,
        });
        entry.greeted = greeted;
        entry.until = simulated::elapsed();
    });
    simulated::note(&format!("stream {number} has ended"));
}

/// Sends the stream's number and its bytes, then ends the client's direction, or leaves.
async fn send(plan: StreamPlan, wire: Wire, recorder: Recorder) {
    let number = plan.number;
    let most = plan.leave.map_or(plan.length, |(bytes, _)| bytes);
    // The kernel reports a reset once: the reader would see an orderly end after a write that failed.
    let write = async |bytes: &[u8]| {
        let written = wire.write(bytes).await;
        if written.is_err() {
            recorder.stream(number, |entry| entry.write_failed = true);
        }
        written.is_ok()
    };
    let mut sent = write(&number.to_be_bytes()).await;
    for start in (0..most).step_by(plan.writes.piece) {
        if !sent {
            break;
        }
        let piece = pattern::bytes(PATTERNS + number, start, plan.writes.piece.min(most - start));
        sent = write(&piece).await;
        if !plan.writes.pause.is_zero() {
            simulated::sleep(plan.writes.pause).await;
        }
    }
    if !sent {
        return;
    }
    match plan.leave {
        Some((_, how)) => {
            recorder.stream(number, |entry| entry.left = true);
            wire.close(how == Leave::Reset);
        }
        None => {
            recorder.stream(number, |entry| entry.finished = true);
            wire.shutdown().await;
        }
    }
}

/// Starts the servers that are there, in a group of their own.
#[must_use]
pub fn start_echoes(
    there: [bool; ECHOES.len()],
    plans: &[StreamPlan],
    recorder: &Recorder,
    sabotage: Option<Sabotage>,
) -> TaskGroup {
    let group = simulated::new_group();
    let plans: Rc<BTreeMap<u64, StreamPlan>> =
        Rc::new(plans.iter().map(|plan| (plan.number, plan.clone())).collect());
    for (address, _) in ECHOES.into_iter().zip(there).filter(|(_, there)| *there) {
        let (plans, recorder) = (plans.clone(), recorder.clone());
        simulated::spawn_in(group, async move {
            let Some(listener) = wire::listen(address, BACKLOG) else { return };
            loop {
                let accepted = poll_fn(|cx| listener.poll_accept(cx)).await;
                let Ok(stream) = accepted.and_then(|(accepted, _)| accepted.attach()) else { return };
                tollgate_net::spawn(echo(Wire::new(stream), plans.clone(), recorder.clone(), sabotage));
            }
        });
    }
    group
}

/// Serves one connection.
async fn echo(
    wire: Wire,
    plans: Rc<BTreeMap<u64, StreamPlan>>,
    recorder: Recorder,
    sabotage: Option<Sabotage>,
) {
    if wire.write(GREETING).await.is_err() {
        return;
    }
    let mut reader = Reader::new(wire.clone(), Pace::default());
    let mut number = Vec::new();
    while number.len() < size_of::<u64>() {
        match reader.some(size_of::<u64>() - number.len()).await {
            Ok(bytes) if !bytes.is_empty() => number.extend(bytes),
            // The client left, or its connection was a try.
            _ => return wire.close(false),
        }
    }
    let number = number.try_into().map(u64::from_be_bytes).unwrap_or_default();
    let Some(plan) = plans.get(&number) else {
        return recorder.violation(format!("a server got the stream {number}, which has no client"));
    };
    let mut received = 0;
    loop {
        if let Some((most, how)) = plan.cut
            && received >= most
        {
            recorder.stream(number, |entry| entry.cut = Some(how));
            return wire.close(how == Leave::Reset);
        }
        let most = plan.cut.map_or(usize::MAX, |(most, _)| most - received);
        match reader.some(most).await {
            Ok(bytes) if bytes.is_empty() => break,
            Ok(mut bytes) => {
                if !pattern::is(PATTERNS + number, received, &bytes) {
                    recorder.violation(format!("another's bytes arrived in stream {number}"));
                }
                received += bytes.len();
                match sabotage {
                    Some(Sabotage::CorruptStreams) => bytes[0] ^= 1,
                    Some(Sabotage::CutStreams) => return wire.close(false),
                    _ => {}
                }
                if wire.write(&bytes).await.is_err() {
                    return;
                }
                recorder.stream(number, |entry| entry.echoed += bytes.len());
            }
            Err(_) => return,
        }
    }
    recorder.stream(number, |entry| entry.end_arrived = true);
    wire.shutdown().await;
}
