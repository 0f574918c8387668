//! One request and its response on one connection: connect, write, read, verify, count.
//!
//! [`Worker::begin`] starts a request on an idle slot, and [`Worker::event`] continues it when epoll reports
//! the socket. Each request ends in `complete` or in [`Worker::fail`], which count it and return the slot to
//! the idle ones. Sockets are registered edge-triggered, so a read must continue until it does not fill the
//! buffer, and until the end if the server has closed its side.

use crate::clock::{now, span};
use crate::expect::Fault;
use crate::pace::{Times, uniform};
use crate::plan::Think;
use crate::request::Prepared;
use crate::response::Response;
use crate::slot::{Slot, State};
use crate::socket::{self, READABLE};
use crate::template::Taking;
use crate::tls::{Client, Took};
use crate::worker::{Run, Worker};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::cmp::Reverse;

/// Epoll flags that mean that the server closed its side.
const ENDED: EventFlags =
    EventFlags::from_bits_retain(EventFlags::RDHUP.bits() | EventFlags::HUP.bits() | EventFlags::ERR.bits());

/// How long (ns) a connection of a closed loop rests after it could not be opened. Without the pause, a
/// closed loop against a port that refuses connections would spin.
const REST_NS: u64 = 50_000_000;

/// A request of at most this size fits one segment of the smallest usual MTU, so it leaves at once whether
/// Nagle's algorithm is on or off.
const SEGMENT_BYTES: usize = 1_400;

impl Worker<'_> {
    /// Starts to connect a slot. Returns `false` if that failed at once.
    pub(crate) fn connect(&mut self, at: usize) -> bool {
        let source = match self.plan.sources.len() {
            0 => None,
            count => Some(self.plan.sources[self.next_source % count]),
        };
        self.next_source += 1;
        // If every request has its own connection, this saves a system call for each. The client's second flight of a
        // TLS handshake is more than one message, so Nagle's algorithm would hold a part of it until the server
        // acknowledges the rest: 40 ms behind a relay, which has nothing to answer yet.
        let no_delay = self.plan.keep_alive
            || self.tls.is_some()
            || self.requests.iter().any(|request| request.length() > SEGMENT_BYTES);
        self.opened += 1;
        match socket::open(self.plan.target, source, no_delay) {
            Ok(socket) => {
                let slot = &mut self.slots[at];
                slot.socket = Some(socket);
                match self.tls.as_ref().map(Client::connection).transpose() {
                    Ok(tls) => slot.tls = tls,
                    Err(error) => {
                        slot.close();
                        self.refusal = Some(error);
                        return false;
                    }
                }
                true
            }
            Err(error) => {
                self.refusal = Some(error);
                false
            }
        }
    }

    /// Registers a slot's socket with epoll, edge-triggered. Epoll then reports each event once, and no
    /// system call changes the event set for each request.
    pub(crate) fn watch(&mut self, at: usize, for_writing: bool) {
        let slot = &mut self.slots[at];
        let Some(socket) = &slot.socket else { return };
        let mut flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        flags.set(EventFlags::OUT, for_writing);
        let data = EventData::new_u64(at as u64);
        // Neither call fails for an open socket that is not yet, or already, in the set. A failure would show
        // as a timeout.
        let _ = if slot.watched {
            epoll::modify(&self.epoll, socket, data, flags)
        } else {
            epoll::add(&self.epoll, socket, data, flags)
        };
        slot.watched = true;
        slot.for_writing = for_writing;
    }

    /// Begins a request on an idle slot.
    pub(crate) fn begin(&mut self, run: &mut Run<'_>, at: usize, intended: u64, time: u64) {
        let request = self.choose(at, run.recorded());
        let prepared = &self.requests[request];
        let slot = &mut self.slots[at];
        slot.state = State::Waiting;
        slot.request = request;
        slot.written = 0;
        slot.begun = time;
        slot.times = Times { intended, free: slot.freed, sent: 0 };
        slot.reader.expect(prepared.to_head);
        slot.reader.keep(!prepared.takings.is_empty());
        slot.rendered.clear();
        if let Some(rendering) = &prepared.rendering {
            let parts = rendering.parts(&slot.values, &prepared.parts.host);
            parts.write(self.plan.keep_alive, &mut slot.rendered);
        }
        self.waiting += 1;
        if self.slots[at].socket.is_none() && !self.connect(at) {
            self.fail(run, at, Fault::Connect, time);
            return;
        }
        self.write(run, at);
    }

    /// Returns the request that a slot sends next: in a recording the recorded one, in a flow the user's next
    /// one, otherwise the next of the mix. Gives the user the next row of the data where one is due.
    fn choose(&mut self, at: usize, recorded: Option<usize>) -> usize {
        let slot = &mut self.slots[at];
        let request = match (recorded, &self.plan.replay) {
            (Some(exchange), Some(replay)) => replay.order[exchange] as usize,
            _ if self.plan.flow => slot.step,
            _ => {
                let next = self.next_request;
                self.next_request = if next + 1 == self.order.len() { 0 } else { next + 1 };
                self.order[next] as usize
            }
        };
        if let Some(data) = &self.plan.data
            && (!self.plan.flow || request == 0)
        {
            for (value, field) in slot.values.iter_mut().zip(&data.rows[self.next_row]) {
                value.clone_from(field);
            }
            self.next_row = (self.next_row + self.plan.threads as usize) % data.rows.len();
        }
        request
    }

    /// Writes the rest of the request.
    fn write(&mut self, run: &mut Run<'_>, at: usize) {
        let slot = &mut self.slots[at];
        let bytes = serialized(slot.request, &slot.rendered, self.requests);
        let Some(socket) = &slot.socket else { return };
        let time = now();
        let mut more = false;
        let sent = match &mut slot.tls {
            None => loop {
                match send(socket, &bytes[slot.written..], SendFlags::NOSIGNAL) {
                    Err(Errno::INTR) => {}
                    sent => break sent,
                }
            },
            // Bytes that rustls has accepted count as written. It keeps their order while the handshake or
            // the socket delays them.
            Some(tls) => {
                tls.put(&bytes[slot.written..]).map_err(|_| Errno::IO).and_then(|()| tls.flush(socket)).map(
                    |all| {
                        more = !all;
                        bytes.len() - slot.written
                    },
                )
            }
        };
        match sent {
            Ok(count) => {
                if slot.written == 0 {
                    slot.times.sent = time;
                }
                slot.written += count;
            }
            Err(Errno::AGAIN) => {}
            // A failed connect is reported at the first write.
            Err(Errno::CONNREFUSED | Errno::TIMEDOUT | Errno::HOSTUNREACH | Errno::NETUNREACH) => {
                self.fail(run, at, Fault::Connect, time);
                return;
            }
            Err(_) => {
                self.fail(run, at, Fault::Write, time);
                return;
            }
        }
        let whole = slot.written == bytes.len() && !more;
        if !slot.watched || (!whole && !slot.for_writing) {
            self.watch(at, !whole);
        }
    }

    /// Handles the events of a slot.
    pub(crate) fn event(&mut self, run: &mut Run<'_>, at: usize, flags: EventFlags) {
        match self.slots[at].state {
            State::Waiting => {
                let slot = &self.slots[at];
                let length = serialized(slot.request, &slot.rendered, self.requests).len();
                let more = slot.written < length || slot.tls.as_ref().is_some_and(|tls| tls.has_more());
                if flags.contains(EventFlags::OUT) && more {
                    self.write(run, at);
                }
                if flags.intersects(READABLE) && self.slots[at].state == State::Waiting {
                    self.read(run, at, flags.intersects(ENDED));
                }
            }
            // The server closed an idle connection or sent unsolicited bytes: the next request opens another.
            State::Idle if flags.intersects(READABLE) => self.slots[at].close(),
            State::Idle | State::Opening => {}
        }
    }

    fn read(&mut self, run: &mut Run<'_>, at: usize, ended: bool) {
        loop {
            let slot = &mut self.slots[at];
            let Some(socket) = &slot.socket else { return };
            let got = recv(socket, &mut self.buffer[..], RecvFlags::empty()).map(|(count, _)| count);
            let time = now();
            match got {
                Ok(0) => {
                    match slot.reader.end() {
                        Some(response) => self.complete(run, at, &response, true, time),
                        None => self.fail(run, at, Fault::Read, time),
                    }
                    return;
                }
                Ok(count) if slot.tls.is_some() => {
                    if self.decrypt(run, at, count, ended, time) || (count < self.buffer.len() && !ended) {
                        return;
                    }
                }
                Ok(count) => match slot.reader.read(&self.buffer[..count], &mut self.last_head) {
                    Ok(Some((response, taken))) if taken == count => {
                        self.complete(run, at, &response, ended, time);
                        return;
                    }
                    Ok(None) if count < self.buffer.len() && !ended => return,
                    Ok(None) => {}
                    // Bytes after the response belong to no request.
                    Ok(Some(_)) | Err(_) => {
                        self.fail(run, at, Fault::Protocol, time);
                        return;
                    }
                },
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Err(_) => {
                    let fault = if slot.times.sent == 0 { Fault::Connect } else { Fault::Read };
                    self.fail(run, at, fault, time);
                    return;
                }
            }
        }
    }

    /// Decrypts the received bytes in the buffer. Returns whether the request is finished.
    fn decrypt(&mut self, run: &mut Run<'_>, at: usize, count: usize, ended: bool, time: u64) -> bool {
        let slot = &mut self.slots[at];
        let (Some(tls), Some(socket)) = (&mut slot.tls, &slot.socket) else { return true };
        let mut input = &self.buffer[..count];
        let mut response = None;
        let fault = loop {
            match tls.take(input, &mut self.plain) {
                Ok(Took::Plain(count, left)) => {
                    input = &input[input.len() - left..];
                    let plain = &self.plain[..count];
                    match slot.reader.read(plain, &mut self.last_head) {
                        // Bytes after the response belong to no request.
                        Ok(_) if response.is_some() => break Some(Fault::Protocol),
                        Ok(Some((whole, taken))) if taken == plain.len() => response = Some((whole, ended)),
                        Ok(None) => {}
                        Ok(Some(_)) | Err(_) => break Some(Fault::Protocol),
                    }
                }
                Ok(Took::Nothing) => break None,
                Ok(Took::End) => {
                    response = match response {
                        Some((whole, _)) => Some((whole, true)),
                        None => slot.reader.end().map(|whole| (whole, true)),
                    };
                    break response.is_none().then_some(Fault::Read);
                }
                Err(_) => break Some(Fault::Protocol),
            }
        };
        // Sends the last flight of the handshake and the request after it.
        let flushed = tls.flush(socket);
        match (fault, response) {
            (Some(fault), _) => self.fail(run, at, fault, time),
            (None, Some((response, ended))) => self.complete(run, at, &response, ended, time),
            (None, None) => match flushed {
                Ok(true) => return false,
                Ok(false) => {
                    self.watch(at, true);
                    return false;
                }
                Err(_) => self.fail(run, at, Fault::Write, time),
            },
        }
        true
    }

    fn complete(&mut self, run: &mut Run<'_>, at: usize, response: &Response, ended: bool, time: u64) {
        let slot = &mut self.slots[at];
        let request = &self.requests[slot.request];
        let judged = request.measure.judge(response).and_then(|()| taken(slot, &request.takings));
        if self.plan.flow {
            slot.step = if judged.is_ok() { (slot.step + 1) % self.requests.len() } else { 0 };
        }
        run.completed(response, judged, slot.times, time);
        let length = serialized(slot.request, &slot.rendered, self.requests).len();
        if ended || !response.keep_alive || !self.plan.keep_alive || slot.written < length {
            slot.close();
        }
        slot.state = State::Idle;
        slot.freed = time;
        self.waiting -= 1;
        match self.plan.think {
            None => self.idle.push_back(at as u32),
            Some(think) => {
                let pause = self.pause(think);
                self.resting.push(Reverse((time + pause, at as u32)));
            }
        }
    }

    /// Returns a random pause in nanoseconds.
    fn pause(&mut self, Think { least, most }: Think) -> u64 {
        span(least + (most - least) * uniform(&mut self.random))
    }

    /// Records a failed request and closes its connection.
    pub(crate) fn fail(&mut self, run: &mut Run<'_>, at: usize, fault: Fault, time: u64) {
        let slot = &mut self.slots[at];
        run.failed(fault, slot.times, time);
        slot.step = 0;
        slot.close();
        slot.state = State::Idle;
        slot.freed = time;
        self.waiting -= 1;
        if fault == Fault::Connect && !run.open_loop {
            self.resting.push(Reverse((time + REST_NS, at as u32)));
        } else {
            self.idle.push_back(at as u32);
        }
    }
}

/// Returns the bytes of a slot's request.
fn serialized<'a>(request: usize, rendered: &'a [u8], requests: &'a [Prepared]) -> &'a [u8] {
    if rendered.is_empty() { &requests[request].bytes } else { rendered }
}

/// Takes the values that the request wants from a good response.
fn taken(slot: &mut Slot, takings: &[Taking]) -> Result<(), Fault> {
    let Some(kept) = slot.reader.kept() else { return Ok(()) };
    let all = takings.iter().all(|taking| taking.take(kept, &mut slot.values));
    all.then_some(()).ok_or(Fault::Body)
}
