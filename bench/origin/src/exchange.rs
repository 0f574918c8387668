//! Handles one connection: parses requests from received bytes, queues the responses, and writes them.
//! Pipelined requests are answered in order. A response may be delayed, by the configured delay or a stall;
//! later responses of the connection then wait behind it. If too many responses are queued, the connection is
//! not read until some have left.

use crate::answer::{Answer, Persistence};
use crate::head::{Head, Refusal};
use crate::reader::Read;
use crate::slot::Ending;
use crate::worker::{WRITE_MAX_BYTES, Worker, token};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use tollgate_lab_load::clock::now;

/// The client closed its side or the connection broke. The socket must then be read to the end, since
/// edge-triggered epoll reports this once.
const ENDED: EventFlags =
    EventFlags::from_bits_retain(EventFlags::RDHUP.bits() | EventFlags::HUP.bits() | EventFlags::ERR.bits());

impl Worker {
    /// Handles an epoll event of a connection.
    pub(crate) fn event(&mut self, reported: u64, flags: EventFlags) {
        let at = (reported & u64::from(u32::MAX)) as usize;
        // An earlier event of the same batch may have closed the connection.
        if token(&self.slots[at], at) != reported || self.slots[at].socket.is_none() {
            return;
        }
        if flags.contains(EventFlags::OUT) {
            self.go_on(at);
        }
        if flags.intersects(EventFlags::IN | ENDED) && token(&self.slots[at], at) == reported {
            self.read(at, flags.intersects(ENDED));
        }
    }

    /// Writes what may be sent. Then resumes reading, if it had stopped because too many answers were queued.
    pub(crate) fn go_on(&mut self, at: usize) {
        if self.write(at) && self.slots[at].unread && self.slots[at].reads() {
            self.read(at, true);
        }
    }

    /// Reads until a read does not fill the buffer, or, if `to_end`, until the socket reports that it is
    /// empty.
    fn read(&mut self, at: usize, to_end: bool) {
        loop {
            let slot = &mut self.slots[at];
            slot.unread = !slot.reads();
            if slot.unread {
                return;
            }
            let Some(socket) = &slot.socket else { return };
            match recv(socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((_, 0)) => {
                    slot.ended = true;
                    // A client that only closed its sending side still gets its responses.
                    if slot.answers.is_empty() {
                        self.close(at);
                    }
                    return;
                }
                Ok((_, count)) => {
                    if !self.take(at, count) || (count < self.buffer.len() && !to_end) {
                        return;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    self.close(at);
                    return;
                }
            }
        }
    }

    /// Processes received bytes. Returns whether the connection is still open.
    fn take(&mut self, at: usize, count: usize) -> bool {
        let mut from = 0;
        while from < count && self.slots[at].ending == Ending::Open {
            let slot = &mut self.slots[at];
            let (shared, number) = (&self.shared, slot.number);
            let read = slot.reader.read(&self.buffer[from..count], &mut self.heads, |head| {
                shared.recorder.keep(number, head);
            });
            match read {
                Ok(Read::More) => break,
                Ok(Read::Waits) => {
                    self.answer(at, Answer::Continue, false);
                    break;
                }
                Ok(Read::Whole(head, taken)) => {
                    from += taken;
                    self.request(at, head);
                }
                Err(refusal) => {
                    slot.ending = Ending::Draining;
                    self.shared.tallies[self.thread].malformed.add();
                    let answer = match refusal {
                        Refusal::Malformed => Answer::Malformed,
                        Refusal::HeadTooLong => Answer::HeadTooLong,
                    };
                    self.answer(at, answer, false);
                }
            }
        }
        self.write(at)
    }

    /// Counts a request and queues its response.
    fn request(&mut self, at: usize, head: Head) {
        let tally = &self.shared.tallies[self.thread];
        tally.requests.add();
        if head.http10 {
            tally.http10.add();
        }
        let persistence = match (head.keep_alive, head.http10) {
            (true, false) => Persistence::Kept,
            (true, true) => Persistence::KeptOnDemand,
            (false, _) => {
                tally.closed_by_request.add();
                self.slots[at].ending = Ending::AfterAnswers;
                Persistence::Closed
            }
        };
        if head.to_ready {
            self.answer(at, Answer::Ready(persistence), false);
            return;
        }
        let answer = match head.wanted {
            None => Some(Answer::Usual(persistence, head.to_head)),
            Some(wanted) => self.answers.wanted(wanted, persistence, head.to_head),
        };
        match answer {
            Some(answer) => self.answer(at, answer, true),
            // More different responses than there is room for.
            None => {
                self.slots[at].ending = Ending::Draining;
                self.answer(at, Answer::Malformed, false);
            }
        }
    }

    /// Queues a response. If it is not `timed`, it may be sent at once, unless others are queued before it.
    fn answer(&mut self, at: usize, answer: Answer, timed: bool) {
        let slot = &mut self.slots[at];
        let first = slot.free == slot.answers.len();
        slot.answers.push_back(answer);
        if first && (!timed || !self.shared.holds()) {
            slot.free += 1;
            return;
        }
        let time = now();
        let due = self.shared.leaves(time);
        if first && due <= time {
            slot.free += 1;
        } else {
            self.held.push_back((due, token(slot, at)));
        }
    }

    /// Writes the responses that may be sent. Returns whether the connection is still open.
    fn write(&mut self, at: usize) -> bool {
        loop {
            let slot = &mut self.slots[at];
            let Some(socket) = &slot.socket else { return false };
            if slot.free == 0 {
                break;
            }
            let (first, last) = self.answers.piece(slot.answers[0], slot.sent);
            let sent = if last && slot.free > 1 && first.len() < WRITE_MAX_BYTES {
                self.out.clear();
                self.out.extend_from_slice(first);
                for answer in slot.answers.range(1..slot.free) {
                    let (piece, last) = self.answers.piece(*answer, 0);
                    if !last || self.out.len() + piece.len() > WRITE_MAX_BYTES {
                        break;
                    }
                    self.out.extend_from_slice(piece);
                }
                send(socket, &self.out, SendFlags::NOSIGNAL)
            } else {
                let more = if last { SendFlags::empty() } else { SendFlags::MORE };
                send(socket, first, SendFlags::NOSIGNAL | more)
            };
            match sent {
                Ok(count) => self.left(at, count),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.watch_for_writing(at);
                    return true;
                }
                Err(_) => {
                    self.close(at);
                    return false;
                }
            }
        }
        self.end_if_done(at)
    }

    /// Removes the bytes that the kernel accepted from the queue.
    fn left(&mut self, at: usize, mut count: usize) {
        let slot = &mut self.slots[at];
        while count > 0 {
            let (piece, last) = self.answers.piece(slot.answers[0], slot.sent);
            if count < piece.len() || !last {
                let taken = count.min(piece.len());
                slot.sent += taken;
                count -= taken;
            } else {
                count -= piece.len();
                slot.sent = 0;
                slot.free -= 1;
                slot.answers.pop_front();
            }
        }
    }

    /// Closes a connection that has nothing left to do. Returns whether it is still open.
    fn end_if_done(&mut self, at: usize) -> bool {
        let slot = &mut self.slots[at];
        let done = slot.answers.is_empty();
        match slot.ending {
            Ending::Draining if done && !slot.ended => {
                // Fails only if the client broke the connection, which the next read reports.
                let _ = slot.socket.as_ref().map(|socket| shutdown(socket, Shutdown::Write));
                true
            }
            Ending::Open if !slot.ended => true,
            _ if !done => true,
            _ => {
                self.close(at);
                false
            }
        }
    }

    fn watch_for_writing(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        let (false, Some(socket)) = (slot.for_writing, &slot.socket) else { return };
        slot.for_writing = true;
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        // Fails only for a descriptor that is not in the set; the socket is in it.
        let _ = epoll::modify(&self.epoll, socket, EventData::new_u64(token(slot, at)), flags);
    }
}
