//! Sends datagrams at a constant rate through each system to an echo, and reads the system's CPU time.
//!
//! The systems take turns in each round. The echo and the sender run in this process, on the cores of the
//! load. A round has a cost only if the rate was kept and nearly all datagrams came back: a relay that drops
//! them would look cheap.

use crate::arm::Arm;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::http::read_head;
use crate::origin::{Origin, READY_BODY};
use crate::target::Target;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::RefCell;
use std::io::{self, ErrorKind, Write};
use std::mem;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};
use tollgate_lab_meter::process::Snapshot;
use tollgate_lab_stats::bootstrap::{Bootstrap, Interval};
use tollgate_lab_stats::histogram::Histogram;
use tollgate_lab_stats::median::median;
use tollgate_lab_stats::paired::ratio;
use tollgate_lab_study::Settings;

/// The address of the echo; all systems may share it, since their sockets have ports of their own.
const ECHO: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Interval at which a batch is sent.
const TICK: Duration = Duration::from_millis(1);

/// Wait for the last answers of a round.
const LAST_ANSWERS: Duration = Duration::from_millis(200);

/// Load before the first measured round of a system, so that its sessions exist.
const WARM_UP: Duration = Duration::from_millis(300);

/// The share of the datagrams that must be sent, and come back, for a round to count.
const KEPT: f64 = 0.99;

/// Bytes of the sequence number and the time at the start of each datagram.
const STAMP: usize = 16;

/// The load of one experiment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sending {
    /// Datagrams a second.
    pub(crate) rate: u32,
    /// Bytes of a datagram, at least [`STAMP`].
    pub(crate) bytes: usize,
    /// Sockets, each of which is a session for the system.
    pub(crate) sockets: usize,
    /// Rounds.
    pub(crate) rounds: u32,
    /// Seconds of a round.
    pub(crate) seconds: f64,
}

/// One round of one system.
#[derive(Debug, Default)]
struct Round {
    sent: u64,
    answered: u64,
    /// Datagrams that came back with other bytes, or twice.
    wrong: u64,
    /// Microseconds from a datagram to its answer.
    times: Histogram,
    /// The system's CPU time for each datagram and its answer, in microseconds.
    cost_us: Option<f64>,
}

/// The rounds of one system.
#[derive(Debug)]
pub(crate) struct Echoed(Vec<Round>);

impl Echoed {
    /// Returns the median CPU time for a datagram and its answer, in microseconds; `None` if no round counts.
    pub(crate) fn cost_us(&self) -> Option<f64> {
        let costs: Vec<f64> = self.0.iter().filter_map(|round| round.cost_us).collect();
        median(&costs)
    }

    /// Returns the ratio of the cost to another system's, over the rounds that count for both.
    pub(crate) fn ratio_to(&self, other: &Self) -> Option<Interval> {
        let both: Vec<(f64, f64)> =
            self.0.iter().zip(&other.0).filter_map(|(own, other)| own.cost_us.zip(other.cost_us)).collect();
        ratio(&both, &Bootstrap::default()).ok()
    }

    /// Returns the median of the rounds' 99th percentiles, in milliseconds.
    pub(crate) fn p99_ms(&self) -> Option<f64> {
        let each: Vec<f64> = self.0.iter().map(|round| round.times.percentile(99.0) as f64 / 1e6).collect();
        median(&each)
    }

    /// Returns how many datagrams were sent, did not come back, and came back wrong.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        let sum = |of: fn(&Round) -> u64| self.0.iter().map(of).sum();
        let sent: u64 = sum(|round| round.sent);
        let answered: u64 = sum(|round| round.answered);
        (sent, sent.saturating_sub(answered), sum(|round| round.wrong))
    }
}

/// Measures the systems in turn. The inner errors are those of single systems.
///
/// # Errors
/// If the echo cannot be started.
pub(crate) fn datagrams(
    environment: &Environment,
    arms: &[Arm],
    sending: Sending,
) -> Result<Vec<Result<Echoed, Failure>>, Failure> {
    let echo = start_echo().map_err(|error| Failure::of("the echo of datagrams", error))?;
    let mut systems: Vec<Result<(Target, Sender, Echoed), Failure>> = arms
        .iter()
        .map(|arm| {
            let features = vec!["tcp".to_owned(), "udp".to_owned()];
            let settings = arm.settings(&Settings { features: Some(features), ..Settings::default() });
            let origin = Rc::new(RefCell::new(Origin::at(vec![echo])));
            let clients = u32::try_from(sending.sockets).unwrap_or(u32::MAX);
            let mut target = Target::start(environment, arm, &settings, Some(origin), clients)?;
            // The sockets last for all rounds: a system keeps the sessions of closed ones until they time out.
            let sender = Sender::open(SocketAddr::from(([127, 0, 0, 1], target.port)), sending)
                .map_err(|error| Failure::of("the sockets of datagrams", error))?;
            target.pause();
            Ok((target, sender, Echoed(Vec::new())))
        })
        .collect();
    for _ in 0..sending.rounds {
        for system in &mut systems {
            let Ok((target, sender, echoed)) = system else { continue };
            target.resume();
            let round = one_round(target, sender);
            target.pause();
            match round {
                Ok(round) => echoed.0.push(round),
                Err(error) => *system = Err(Failure::of("the sender of datagrams", error)),
            }
        }
    }
    Ok(systems.into_iter().map(|system| system.map(|(.., echoed)| echoed)).collect())
}

/// Starts an echo for datagrams, and the answer to the readiness check on the same TCP port. The threads end
/// with this process.
fn start_echo() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((ECHO, 0))?;
    let address = listener.local_addr()?;
    let socket = UdpSocket::bind(address)?;
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let length = READY_BODY.len();
            // A failed check is repeated by the client.
            let _ = read_head(&mut stream)
                .and_then(|_| {
                    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n")
                })
                .and_then(|()| stream.write_all(READY_BODY));
        }
    });
    thread::spawn(move || {
        let mut bytes = [0; 65_536];
        loop {
            // ICMP errors from closed clients arrive here, too.
            if let Ok((length, from)) = socket.recv_from(&mut bytes) {
                let _ = socket.send_to(&bytes[..length], from);
            }
        }
    });
    Ok(address)
}

/// Sends through one system: a warm-up, then the measured part.
fn one_round(target: &Target, sender: &mut Sender) -> io::Result<Round> {
    let sending = sender.sending;
    sender.run(WARM_UP)?;
    sender.round = Round::default();
    let ids = target.ids();
    let before: Vec<Snapshot> = ids.iter().copied().map(Snapshot::take).collect();
    sender.run(Duration::from_secs_f64(sending.seconds))?;
    let used: u64 =
        ids.iter().zip(&before).map(|(id, before)| Snapshot::take(*id).since(before).total_ns).sum();
    let mut round = mem::take(&mut sender.round);
    let offered = f64::from(sending.rate) * sending.seconds;
    let kept = round.sent as f64 >= offered * KEPT && round.answered as f64 >= round.sent as f64 * KEPT;
    round.cost_us = (kept && round.wrong == 0).then(|| used as f64 / 1_000.0 / round.answered as f64);
    Ok(round)
}

/// The sockets of the load, and what was counted.
struct Sender {
    sockets: Vec<UdpSocket>,
    sending: Sending,
    begun: Instant,
    /// The number of the next datagram.
    next: u64,
    /// The number that each socket expects next at the earliest.
    expected: Vec<u64>,
    round: Round,
    datagram: Vec<u8>,
}

impl Sender {
    fn open(to: SocketAddr, sending: Sending) -> io::Result<Self> {
        let sockets = (0..sending.sockets)
            .map(|_| {
                let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
                socket.connect(to)?;
                socket.set_nonblocking(true)?;
                Ok(socket)
            })
            .collect::<io::Result<Vec<UdpSocket>>>()?;
        Ok(Self {
            expected: vec![0; sockets.len()],
            sockets,
            sending,
            begun: Instant::now(),
            next: 0,
            round: Round::default(),
            datagram: vec![0; sending.bytes.max(STAMP)],
        })
    }

    /// Sends at the rate for `time`, and then waits for the last answers.
    fn run(&mut self, time: Duration) -> io::Result<()> {
        let begun = Instant::now();
        let mut sent: u64 = 0;
        let total = (f64::from(self.sending.rate) * time.as_secs_f64()) as u64;
        while sent < total {
            let due = (f64::from(self.sending.rate) * begun.elapsed().as_secs_f64()) as u64;
            while sent < due.min(total) {
                self.send()?;
                sent += 1;
            }
            self.receive(TICK)?;
            // A sender that falls behind would catch up in one burst, which is no constant rate.
            if begun.elapsed() > time.mul_f64(1.2) {
                break;
            }
        }
        let end = Instant::now() + LAST_ANSWERS;
        while self.round.answered < self.round.sent && Instant::now() < end {
            self.receive(TICK)?;
        }
        Ok(())
    }

    fn send(&mut self) -> io::Result<()> {
        let socket = &self.sockets[self.next as usize % self.sockets.len()];
        let nanos = self.begun.elapsed().as_nanos() as u64;
        self.datagram[..8].copy_from_slice(&self.next.to_be_bytes());
        self.datagram[8..STAMP].copy_from_slice(&nanos.to_be_bytes());
        self.next += 1;
        match socket.send(&self.datagram) {
            Ok(_) => self.round.sent += 1,
            // A full buffer: the datagram was not sent, and the rate is not kept.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Waits at most `most` for answers, and reads every answer that has arrived.
    fn receive(&mut self, most: Duration) -> io::Result<()> {
        let mut ready: Vec<PollFd<'_>> =
            self.sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(most.subsec_nanos()) };
        if poll(&mut ready, Some(&timeout))? == 0 {
            return Ok(());
        }
        let ready: Vec<bool> = ready.iter().map(|one| !one.revents().is_empty()).collect();
        let mut bytes = [0; 65_536];
        for index in (0..ready.len()).filter(|index| ready[*index]) {
            loop {
                match self.sockets[index].recv(&mut bytes) {
                    Ok(length) => self.answered(index, &bytes[..length]),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Checks an answer on a socket: its own datagram, whole, and after all earlier ones. On loopback
    /// datagrams keep their order.
    fn answered(&mut self, socket: usize, answer: &[u8]) {
        let number = |at: usize| {
            let bytes = answer.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u64::from_be_bytes)
        };
        let (Some(index), Some(nanos)) = (number(0), number(8)) else {
            self.round.wrong += 1;
            return;
        };
        let own = index % self.sockets.len() as u64 == socket as u64;
        let whole = answer.len() == self.datagram.len() && answer[STAMP..].iter().all(|byte| *byte == 0);
        if !own || !whole || index < self.expected[socket] || index >= self.next {
            self.round.wrong += 1;
            return;
        }
        self.expected[socket] = index + 1;
        self.round.answered += 1;
        self.round.times.record((self.begun.elapsed().as_nanos() as u64).saturating_sub(nanos));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENDING: Sending = Sending { rate: 2_000, bytes: 100, sockets: 4, rounds: 1, seconds: 0.2 };

    #[test]
    fn an_echo_answers_all_and_wrong_answers_are_counted() {
        let echo = start_echo().unwrap();
        let mut sender = Sender::open(echo, SENDING).unwrap();
        sender.run(Duration::from_millis(200)).unwrap();
        assert_eq!((sender.round.sent, sender.round.answered, sender.round.wrong), (400, 400, 0));
        // The same again, another socket's, a short one, and one with a changed byte.
        let answered = sender.datagram.clone();
        let last = (sender.next - 1) as usize % SENDING.sockets;
        sender.answered(last, &answered);
        sender.answered((last + 1) % SENDING.sockets, &answered);
        sender.answered(last, &answered[..50]);
        let mut changed = answered.clone();
        changed[99] ^= 1;
        sender.answered(last, &changed);
        assert_eq!((sender.round.answered, sender.round.wrong), (400, 4));
    }

    #[test]
    fn a_relay_that_drops_has_no_cost() {
        let round = |answered: u64, cost_us| Round { sent: 100, answered, cost_us, ..Round::default() };
        let own = Echoed(vec![round(100, Some(4.0)), round(90, None), round(100, Some(6.0))]);
        let other = Echoed(vec![round(100, Some(8.0)), round(100, Some(8.0)), round(100, Some(12.0))]);
        assert_eq!(own.cost_us(), Some(5.0));
        assert_eq!(own.counts(), (300, 10, 0));
        let compared = own.ratio_to(&other).unwrap();
        assert!((compared.estimate - 0.5).abs() < 1e-9, "{compared:?}");
    }
}
