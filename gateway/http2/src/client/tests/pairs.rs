//! Both roles talk to each other, in pieces of any size.

use std::cell::Cell;
use std::io::IoSlice;

use super::*;
use crate::{IncomingRequest, LocalSettings, RequestStream, ServerConnection};

/// Numbers that follow from a seed.
pub(super) struct Random(Cell<u64>);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(Cell::new(seed))
    }

    pub fn below(&self, bound: usize) -> usize {
        let next = self.0.get().wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        self.0.set(next);
        (next >> 33) as usize % bound
    }
}

/// One exchange of both sides.
struct Exchange {
    client: ResponseStream,
    server: Option<RequestStream>,
    /// The bodies, how much of each was sent, and how much arrived.
    request: Vec<u8>,
    response: Vec<u8>,
    sent: [usize; 2],
    got: [Vec<u8>; 2],
    has_head: bool,
    has_trailers: bool,
    done: [bool; 2],
}

/// Moves a random part of what one side has to write.
pub(super) fn pass(random: &Random, wire: &mut Vec<u8>, take: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    take(wire);
    let count = random.below(wire.len() + 1).max(wire.len().min(1));
    wire.drain(..count).collect()
}

pub(super) fn collect(
    bytes: &mut Vec<u8>,
    write: impl FnOnce(&mut dyn FnMut(&[u8]) -> Poll<std::io::Result<usize>>),
) {
    write(&mut |some| {
        bytes.extend_from_slice(some);
        Poll::Ready(Ok(some.len()))
    });
}

fn talk(seed: u64) {
    let random = Random::new(seed);
    let totals = MemoryTotals::default();
    let window = [70_000, 65_535][random.below(2)];
    let client = ClientConnection::new(
        &ClientSettings { stream_window: window, connection_window: 2 * window, max_head_bytes: 10_000 },
        &totals,
    );
    let server = ServerConnection::new(
        LocalSettings {
            max_concurrent_streams: 100,
            stream_window: [1_000, 65_535, 100_000][random.below(3)],
            connection_window: 100_000,
            max_head_bytes: 10_000,
        },
        &totals,
    );
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let mut exchanges: Vec<Exchange> = Vec::new();
    let mut to_start = 1 + random.below(12);
    let mut buffer = vec![0; 20_000];
    for turn in 0.. {
        assert!(turn < 100_000, "seed {seed}: it goes on forever");
        if to_start > 0 && random.below(3) == 0 {
            to_start -= 1;
            let [request, response] = [(); 2].map(|()| {
                let length = [0, 10, 3_000, 150_000][random.below(4)];
                (0..length).map(|at| (at * 7 + seed as usize) as u8).collect::<Vec<u8>>()
            });
            let index = exchanges.len().to_string();
            let fields = [(&b"x-index"[..], index.as_bytes()), (b"user-agent", b"any")].into_iter();
            let ends = request.is_empty() && random.below(2) == 0;
            let stream = client.send_request(PSEUDO, fields, random.below(2) == 0, ends).expect("a stream");
            exchanges.push(Exchange {
                client: stream,
                server: None,
                sent: [0; 2],
                request,
                response,
                got: Default::default(),
                has_head: false,
                has_trailers: random.below(2) == 0,
                done: [false; 2],
            });
        }
        let piece = pass(&random, &mut up, |bytes| {
            collect(bytes, |write| drop(client.poll_write(write)));
        });
        let mut rest = &piece[..];
        while !rest.is_empty() {
            let taken = server.receive(rest, 1_000);
            assert!(taken > 0, "seed {seed}: {:?}", server.ended());
            rest = &rest[taken..];
        }
        let piece = pass(&random, &mut down, |bytes| {
            collect(bytes, |write| drop(server.poll_write(write)));
        });
        client.receive(&piece, Duration::ZERO);
        assert_eq!((client.ended(), server.ended()), (None, None), "seed {seed}");
        while let Some(IncomingRequest { stream, fields }) = server.next_request() {
            let (_, mut others) = fields.request().expect("a request");
            let (_, index) = others.next().expect("its index");
            let index: usize = str::from_utf8(index).expect("digits").parse().expect("digits");
            exchanges[index].server = Some(stream);
        }
        for exchange in &mut exchanges {
            move_on(exchange, &random, &mut buffer);
        }
        if to_start == 0 && exchanges.iter().all(|exchange| exchange.done == [true; 2]) {
            break;
        }
    }
    for exchange in &exchanges {
        assert!(exchange.got == [exchange.request.clone(), exchange.response.clone()], "seed {seed}");
        assert_eq!(exchange.client.take_trailers().is_some(), exchange.has_trailers, "seed {seed}");
    }
    drop(exchanges);
    down.clear();
    collect(&mut down, |write| drop(client.poll_write(write)));
    assert!(split(&down).iter().all(|frame| frame.kind != FrameType::RST_STREAM), "seed {seed}");
}

/// Sends and receives some of an exchange on both sides.
fn move_on(exchange: &mut Exchange, random: &Random, buffer: &mut [u8]) {
    let Exchange { client, server, request, response, sent, got, has_head, has_trailers, done } = exchange;
    let count = 1 + random.below(buffer.len());
    if !client.has_sent_end() {
        let end = request.len().min(sent[0] + 1 + random.below(30_000));
        sent[0] += client.send(&[IoSlice::new(&request[sent[0]..end])], end == request.len()).expect("open");
    }
    if let Some(server) = server {
        if !done[0] && random.below(2) == 0 {
            match server.poll_read(&mut cx(), &mut buffer[..count]) {
                Poll::Ready(Ok(0)) => done[0] = true,
                Poll::Ready(read) => got[0].extend_from_slice(&buffer[..read.expect("open")]),
                Poll::Pending => {}
            }
        }
        if sent[1] == 0 && !*has_head {
            *has_head = true;
            if random.below(3) == 0 {
                server.send_head(b"103", std::iter::empty(), false).expect("open");
            }
            server.send_head(b"200", [(&b"server"[..], &b"any"[..])].into_iter(), false).expect("open");
        }
        if !server.has_sent_end() {
            let end = response.len().min(sent[1] + 1 + random.below(30_000));
            let last = end == response.len();
            sent[1] +=
                server.send(&[IoSlice::new(&response[sent[1]..end])], last && !*has_trailers).expect("open");
            if sent[1] == response.len() && *has_trailers {
                server.send_trailers([(&b"x-end"[..], &b"1"[..])].into_iter()).expect("open");
            }
        }
    }
    if !done[1] && random.below(2) == 0 {
        if let Poll::Ready(Ok(head)) = client.poll_head(&mut cx()) {
            client.recycle_fields(head);
        }
        match client.poll_read(&mut cx(), &mut buffer[..count]) {
            Poll::Ready(Ok(0)) => done[1] = true,
            Poll::Ready(read) => got[1].extend_from_slice(&buffer[..read.expect("open")]),
            Poll::Pending => {}
        }
    }
}

#[test]
fn both_roles_understand_each_other() {
    (0..300).for_each(talk);
}
