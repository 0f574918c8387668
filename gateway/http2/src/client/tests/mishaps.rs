//! Both roles talk to each other while either side gives requests up and the server shuts down. Neither side may take
//! the other's frames for an error, lose a request, or lose a part of a window.

use std::io::IoSlice;

use super::pairs::{Random, collect, pass};
use super::*;
use crate::{IncomingRequest, LocalSettings, RequestStream, ServerConnection};

/// One in this many steps of a side gives its request up.
const GIVE_UP: usize = 40;

/// One exchange of both sides. The bodies are zeros, so only their lengths count.
struct Exchange {
    client: Option<ResponseStream>,
    server: Option<RequestStream>,
    /// Whether the server has taken the request.
    is_taken: bool,
    /// Whether either side gave it up.
    is_given_up: bool,
    /// The lengths of the request and of the response, how much of each was sent, and how much arrived.
    lengths: [usize; 2],
    sent: [usize; 2],
    got: [usize; 2],
    has_head: bool,
    is_complete: bool,
}

/// A connection with both of its ends.
struct Pair {
    seed: u64,
    random: Random,
    client: ClientConnection,
    server: ServerConnection,
    /// The bytes that each side has written and the other has not read yet. `logs` keeps every byte.
    wires: [Vec<u8>; 2],
    logs: [Vec<u8>; 2],
    exchanges: Vec<Exchange>,
    is_shutting_down: bool,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let random = Random::new(seed);
        let totals = MemoryTotals::default();
        let client = ClientConnection::new(
            &ClientSettings { stream_window: 65_535, connection_window: 70_000, max_head_bytes: 10_000 },
            &totals,
        );
        let server = ServerConnection::new(
            LocalSettings {
                max_concurrent_streams: 100,
                stream_window: [1_000, 65_535][random.below(2)],
                connection_window: 65_535,
                max_head_bytes: 10_000,
            },
            &totals,
        );
        let (wires, logs, exchanges) = (Default::default(), Default::default(), Vec::new());
        Self { seed, random, client, server, wires, logs, exchanges, is_shutting_down: false }
    }

    fn start(&mut self, lengths: [usize; 2]) {
        let index = self.exchanges.len().to_string();
        let fields = [(&b"x-index"[..], index.as_bytes())].into_iter();
        let ends = lengths[0] == 0;
        let Ok(stream) = self.client.send_request(PSEUDO, fields, false, ends) else {
            assert!(self.is_shutting_down, "seed {}", self.seed);
            return;
        };
        self.exchanges.push(Exchange {
            client: Some(stream),
            server: None,
            is_taken: false,
            is_given_up: false,
            lengths,
            sent: [0; 2],
            got: [0; 2],
            has_head: false,
            is_complete: false,
        });
    }

    /// Moves a part of what waits in both directions.
    fn exchange_bytes(&mut self) {
        let Self { seed, random, client, server, wires: [up, down], logs, exchanges, .. } = self;
        let piece = pass(random, up, |bytes| collect(bytes, |write| drop(client.poll_write(write))));
        logs[0].extend_from_slice(&piece);
        let mut rest = &piece[..];
        while !rest.is_empty() {
            let taken = server.receive(rest, 1_000);
            assert!(taken > 0, "seed {seed}: {:?}", server.ended());
            rest = &rest[taken..];
        }
        let piece = pass(random, down, |bytes| collect(bytes, |write| drop(server.poll_write(write))));
        logs[1].extend_from_slice(&piece);
        client.receive(&piece, Duration::from_millis(1));
        assert_eq!((client.ended(), server.ended()), (None, None), "seed {seed}");
        while let Some(IncomingRequest { stream, fields }) = server.next_request() {
            let (_, mut others) = fields.request().expect("a request");
            let (_, index) = others.next().expect("its index");
            let index: usize = str::from_utf8(index).expect("digits").parse().expect("digits");
            let exchange = &mut exchanges[index];
            (exchange.server, exchange.is_taken) = (Some(stream), true);
        }
    }

    /// Lets both sides of all exchanges do something.
    fn step(&mut self, gives_up: bool) {
        let give_up = |random: &Random| gives_up && random.below(GIVE_UP) == 0;
        for exchange in &mut self.exchanges {
            if exchange.client.is_some() && give_up(&self.random) {
                (exchange.client, exchange.is_given_up) = (None, true);
            }
            if exchange.server.is_some() && give_up(&self.random) {
                (exchange.server, exchange.is_given_up) = (None, true);
            }
            exchange.step_client(&self.random, self.seed, gives_up);
            exchange.step_server(&self.random);
        }
    }

    fn is_done(&self) -> bool {
        self.exchanges.iter().all(|exchange| exchange.client.is_none() && exchange.server.is_none())
    }
}

static ZEROS: [u8; 30_000] = [0; 30_000];

impl Exchange {
    fn step_client(&mut self, random: &Random, seed: u64, gives_up: bool) {
        let Some(stream) = &self.client else { return };
        if !stream.has_sent_end() {
            let count = (self.lengths[0] - self.sent[0]).min(random.below(ZEROS.len()));
            let last = self.sent[0] + count == self.lengths[0];
            // If the stream was reset, its response says more.
            self.sent[0] += stream.send(&[IoSlice::new(&ZEROS[..count])], last).unwrap_or(0);
        }
        let mut buffer = [0; 20_000];
        let mut failure = None;
        match stream.poll_head(&mut cx()) {
            Poll::Ready(Ok(head)) => stream.recycle_fields(head),
            Poll::Ready(Err(error)) if !stream.is_received() => failure = Some(error),
            _ => {}
        }
        match stream.poll_read(&mut cx(), &mut buffer[..1 + random.below(20_000)]) {
            // The rest of the request is given up, or sent first.
            Poll::Ready(Ok(0)) if !gives_up && !stream.has_sent_end() => {}
            Poll::Ready(Ok(0)) => {
                assert_eq!(self.got[1], self.lengths[1], "seed {seed}: no part of the response is missing");
                (self.client, self.is_complete) = (None, true);
                return;
            }
            Poll::Ready(Ok(count)) => self.got[1] += count,
            Poll::Ready(Err(error)) => failure = Some(error),
            Poll::Pending => {}
        }
        match failure {
            Some(ResponseFailure::NotProcessed) => {
                assert!(!self.is_taken, "seed {seed}: a request that is sent again was processed");
                self.client = None;
            }
            Some(error) => {
                assert!(self.is_given_up && error == ResponseFailure::Reset, "seed {seed}: {error:?}");
                self.client = None;
            }
            None => {}
        }
    }

    fn step_server(&mut self, random: &Random) {
        let Some(stream) = &self.server else { return };
        let mut buffer = [0; 20_000];
        let mut is_read = false;
        let read = stream.poll_read(&mut cx(), &mut buffer[..1 + random.below(20_000)]);
        let mut is_gone = match read {
            Poll::Ready(Ok(count)) => {
                self.got[0] += count;
                is_read = count == 0;
                false
            }
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        };
        if !std::mem::replace(&mut self.has_head, true) {
            is_gone |= stream.send_head(b"200", std::iter::empty(), false).is_err();
        }
        if !is_gone && !stream.has_sent_end() {
            let count = (self.lengths[1] - self.sent[1]).min(random.below(ZEROS.len()));
            let last = self.sent[1] + count == self.lengths[1];
            match stream.send(&[IoSlice::new(&ZEROS[..count])], last) {
                Ok(sent) => self.sent[1] += sent,
                Err(_) => is_gone = true,
            }
        }
        if is_gone || is_read && stream.has_sent_end() {
            self.server = None;
        }
    }
}

/// Plays until all exchanges have ended.
fn play(seed: u64, shuts_down: bool) {
    let mut pair = Pair::new(seed);
    let mut to_start = 5 + pair.random.below(20);
    for turn in 0.. {
        assert!(turn < 100_000, "seed {seed}: it goes on forever");
        if to_start > 0 && pair.random.below(3) == 0 {
            to_start -= 1;
            let lengths = [(); 2].map(|()| [0, 10, 3_000, 150_000][pair.random.below(4)]);
            pair.start(lengths);
        }
        if shuts_down && pair.server.has_peer_settings() && pair.random.below(30) == 0 {
            pair.is_shutting_down = true;
            pair.server.start_graceful_shutdown();
        }
        if pair.random.below(50) == 0 {
            pair.client.send_ping();
        }
        pair.exchange_bytes();
        pair.step(true);
        if to_start == 0 && pair.is_done() {
            break;
        }
    }
    if !pair.is_shutting_down {
        // Nothing of the windows was lost: they let through many times their size.
        pair.start([400_000; 2]);
        for turn in 0.. {
            assert!(turn < 100_000, "seed {seed}: the windows stay closed");
            pair.exchange_bytes();
            pair.step(false);
            if pair.is_done() {
                break;
            }
        }
        let last = pair.exchanges.last().expect("an exchange");
        assert!(last.is_complete && last.got[0] == 400_000, "seed {seed}");
    }
    for log in &pair.logs {
        let frames = log.strip_prefix(PREFACE).unwrap_or(log);
        let (frames, _) = split_start(frames);
        for frame in frames.iter().filter(|frame| frame.kind == FrameType::RST_STREAM) {
            let code = frame::read_number(&frame.payload).map(ErrorCode);
            let is_normal = matches!(code, Some(ErrorCode::NO_ERROR | ErrorCode::CANCEL));
            assert!(is_normal, "seed {seed}: {frame:?} is no answer to a peer that keeps to the rules");
        }
    }
}

#[test]
fn requests_that_are_given_up_cost_no_other() {
    (0..150).for_each(|seed| play(seed, false));
}

#[test]
fn a_shutdown_loses_no_request() {
    (0..150).for_each(|seed| play(seed, true));
}
