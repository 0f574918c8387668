//! The relay's loop: accepts, reads, delays and writes.
//!
//! One thread serves all connections. Every connection is a `Pair` of sockets with a [`Pipe`] for each
//! direction. Three queues hold what is due later: simulated handshakes, arrivals of portions, and the
//! servers that wait for their turn at the [`Bottleneck`]. All delays are constant, so the first two queues
//! are in order of time and need no sorting.

use crate::failure::Failure;
use crate::link::Link;
use crate::link::bottleneck::Bottleneck;
use crate::link::pipe::Pipe;
use crate::place::Place;
use crate::socket::{Accepted, accept, connect_to, watch_for_accept};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use tollgate_lab_load::clock::{Timer, now, span};

/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 512;

/// Steps of work between two polls of the kernel's events.
const STEPS_MAX: usize = 512;

/// Most bytes read at once.
const READ_MAX_BYTES: usize = 64 * 1024;

/// Mark the listening socket, the timer and the stop event among the events.
const LISTENER: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;
const STOP: u64 = u64::MAX - 2;

/// The side that connects to the relay. Pipe 0 carries the bytes that it sends.
const CLIENT: usize = 0;

/// The side that the relay connects to. Pipe 1 carries the bytes that it sends.
const SERVER: usize = 1;

/// One connection through the relay: two sockets, and a pipe for what each side sends.
#[derive(Debug, Default)]
struct Pair {
    /// Counts the connections that used this slot, so that a late event of one does not affect the next.
    generation: u32,
    sockets: [Option<OwnedFd>; 2],
    pipes: [Pipe; 2],
}

pub(crate) struct Traffic {
    to: SocketAddr,
    round_trip: u64,
    bottleneck: Bottleneck,
    listener: OwnedFd,
    /// Whether epoll reports connections to accept.
    accepting: bool,
    /// Keeps the stop event open as long as epoll watches it.
    _stop: Arc<OwnedFd>,
    epoll: OwnedFd,
    timer: Timer,
    pairs: Vec<Pair>,
    vacant: Vec<usize>,
    /// Connections whose simulated handshake is in progress, and when it ends. All take equally long, so this
    /// queue is in order of time; so is `arrivals`.
    openings: VecDeque<(u64, Place)>,
    /// Portions in transit, by the side that sent them, and when they arrive.
    arrivals: VecDeque<(u64, Place)>,
    /// Servers with data to send, in the order of their turns.
    turns: VecDeque<Place>,
    buffer: Vec<u8>,
}

impl Traffic {
    pub(crate) fn new(link: &Link, listener: OwnedFd, stop: Arc<OwnedFd>) -> Result<Self, Failure> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(Failure::system("create an epoll"))?;
        let timer = Timer::new().map_err(Failure::system("create a timer"))?;
        let watch = |result: Result<(), Errno>| result.map_err(Failure::system("watch a file"));
        watch(epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN))?;
        watch(epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN | EventFlags::ET))?;
        watch(epoll::add(&epoll, &stop, EventData::new_u64(STOP), EventFlags::IN))?;
        Ok(Self {
            to: link.to,
            round_trip: span(link.round_trip_ms / 1e3),
            bottleneck: Bottleneck::new(link.bytes_per_second),
            listener,
            accepting: true,
            _stop: stop,
            epoll,
            timer,
            pairs: Vec::new(),
            vacant: Vec::new(),
            openings: VecDeque::new(),
            arrivals: VecDeque::new(),
            turns: VecDeque::new(),
            buffer: vec![0; READ_MAX_BYTES],
        })
    }

    /// Relays until the stop event.
    pub(crate) fn run(mut self) -> Result<(), Failure> {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
        loop {
            if let Some(wake) = self.work() {
                self.timer.set(wake).map_err(Failure::system("set a timer"))?;
            }
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(Failure::System("wait for events", error.into())),
            }
            for Event { flags, data } in events.iter().copied() {
                match data.u64() {
                    LISTENER => self.accept()?,
                    TIMER => {}
                    STOP => return Ok(()),
                    word => self.event(Place::of(word), flags),
                }
            }
        }
    }

    /// Does what is due. Returns when the next step is due.
    fn work(&mut self) -> Option<u64> {
        let mut time = now();
        for _ in 0..STEPS_MAX {
            let arrival = self.arrivals.front().map_or(u64::MAX, |(due, _)| *due);
            let opening = self.openings.front().map_or(u64::MAX, |(due, _)| *due);
            let turn = if self.turns.is_empty() { u64::MAX } else { self.bottleneck.free() };
            let next = arrival.min(opening).min(turn);
            if next > time {
                return (next < u64::MAX).then_some(next);
            }
            if arrival == next {
                self.arrivals.pop_front().into_iter().for_each(|(_, place)| self.arrive(place));
            } else if opening == next {
                self.openings.pop_front().into_iter().for_each(|(_, place)| self.open(place));
            } else {
                self.turns.pop_front().into_iter().for_each(|place| self.turn(place));
            }
            time = now();
        }
        Some(time)
    }

    fn accept(&mut self) -> Result<(), Failure> {
        for _ in 0..STEPS_MAX {
            let socket = match accept(&self.listener)? {
                Accepted::Connection(socket) => socket,
                Accepted::None => break,
                Accepted::NoRoom => return self.set_accepting(false),
            };
            let at = self.vacant.pop().unwrap_or_else(|| {
                self.pairs.push(Pair::default());
                self.pairs.len() - 1
            });
            self.pairs[at].sockets[CLIENT] = Some(socket);
            let place = Place { at, side: CLIENT, generation: self.pairs[at].generation };
            self.openings.push_back((now() + self.round_trip, place));
        }
        Ok(())
    }

    /// Turns accepting off if no more descriptors may be opened, and on when a connection closes.
    fn set_accepting(&mut self, on: bool) -> Result<(), Failure> {
        self.accepting = on;
        watch_for_accept(&self.epoll, &self.listener, LISTENER, on)
    }

    fn is_open(&self, place: Place) -> bool {
        let pair = &self.pairs[place.at];
        pair.generation == place.generation && pair.sockets[CLIENT].is_some()
    }

    /// Ends the simulated handshake: connects to the server and starts to watch both sides.
    fn open(&mut self, place: Place) {
        if !self.is_open(place) {
            return;
        }
        let Ok(server) = connect_to(self.to) else { return self.close(place.at) };
        let pair = &mut self.pairs[place.at];
        pair.sockets[SERVER] = Some(server);
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        for side in [CLIENT, SERVER] {
            let data = EventData::new_u64(Place { side, ..place }.word());
            let Some(socket) = &pair.sockets[side] else { continue };
            if epoll::add(&self.epoll, socket, data, flags).is_err() {
                return self.close(place.at);
            }
        }
    }

    fn close(&mut self, at: usize) {
        let pair = &mut self.pairs[at];
        pair.sockets = [None, None];
        pair.pipes.iter_mut().for_each(Pipe::reset);
        // 31 bits, so that no word equals one of the marks.
        pair.generation = (pair.generation + 1) & 0x7fff_ffff;
        self.vacant.push(at);
        if !self.accepting {
            // Fails only for a descriptor that is not in the set; the listener is in it.
            let _ = self.set_accepting(true);
        }
    }

    fn event(&mut self, place: Place, flags: EventFlags) {
        if !self.is_open(place) {
            return;
        }
        if flags.contains(EventFlags::OUT) {
            self.deliver(place.opposite());
        }
        let reported = EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        if flags.intersects(reported) && self.is_open(place) {
            self.pairs[place.at].pipes[place.side].readable = true;
            self.pull(place);
        }
    }

    /// Reads what a side sent, while there is room: from the client at once, from the server in its turn.
    fn pull(&mut self, place: Place) {
        if place.side == CLIENT {
            while self.wants(place) && self.read(place, READ_MAX_BYTES) > 0 {}
        } else if self.wants(place) && !self.pairs[place.at].pipes[SERVER].queued {
            self.pairs[place.at].pipes[SERVER].queued = true;
            self.turns.push_back(place);
        }
    }

    /// Returns whether there may be data to read, and room for it.
    fn wants(&self, place: Place) -> bool {
        let pipe = &self.pairs[place.at].pipes[place.side];
        self.is_open(place) && pipe.readable && !pipe.ended && pipe.room() > 0
    }

    /// Gives a server its turn at the bottleneck.
    fn turn(&mut self, place: Place) {
        if !self.is_open(place) {
            return;
        }
        self.pairs[place.at].pipes[SERVER].queued = false;
        let count = self.read(place, self.bottleneck.portion());
        if count > 0 {
            self.bottleneck.pass(count, now());
            self.pull(place);
        }
    }

    /// Reads once and puts the bytes in transit. Returns their number.
    fn read(&mut self, place: Place, most: usize) -> usize {
        let pair = &mut self.pairs[place.at];
        let pipe = &mut pair.pipes[place.side];
        let Some(socket) = &pair.sockets[place.side] else { return 0 };
        let most = most.min(pipe.room());
        let count = loop {
            match recv(socket, &mut self.buffer[..most], RecvFlags::empty()) {
                Ok((_, count)) => break count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    pipe.readable = false;
                    return 0;
                }
                // A connection that breaks on one side is closed on both.
                Err(_) => {
                    self.close(place.at);
                    return 0;
                }
            }
        };
        if count == 0 {
            pipe.end();
        } else {
            pipe.take(&self.buffer[..count]);
        }
        self.arrivals.push_back((now() + self.round_trip / 2, place));
        count
    }

    /// Delivers the first portion in transit from one side to the other.
    fn arrive(&mut self, place: Place) {
        if self.is_open(place) {
            self.pairs[place.at].pipes[place.side].arrive();
            self.deliver(place);
        }
    }

    /// Writes what has arrived from a side to the other one, then reads more.
    fn deliver(&mut self, place: Place) {
        let pair = &mut self.pairs[place.at];
        let Some(to) = &pair.sockets[1 - place.side] else { return };
        let broken = pair.pipes[place.side].deliver(to).is_err();
        if broken || pair.pipes.iter().all(|pipe| pipe.closed) {
            self.close(place.at);
        } else {
            self.pull(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_survive_their_words_and_are_no_marks() {
        for (at, side, generation) in [(0, 0, 0), (7, 1, 3), (0x7fff_ffff, 1, 0x7fff_ffff)] {
            let place = Place { at, side, generation };
            assert_eq!(Place::of(place.word()), place);
            assert!(place.word() < STOP);
        }
    }
}
