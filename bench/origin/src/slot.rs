//! A slot for one connection. Its buffers are kept for the next connection, which therefore allocates
//! nothing.

use crate::answer::Answer;
use crate::reader::Reader;
use rustix::fd::OwnedFd;
use std::collections::VecDeque;

/// Queued responses at which a connection is no longer read. One read can add some thousand more.
const QUEUED_RESPONSES_MAX: usize = 1024;

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It stays open.
    Open,
    /// It closes after the queued responses; further input is ignored.
    AfterAnswers,
    /// As before, but the input that the client still sends is then read and discarded. Otherwise a reset
    /// could destroy the refusal before the client reads it (RFC 9112, section 9.6).
    Draining,
}

#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) socket: Option<OwnedFd>,
    /// Counts the connections of this slot, so that a late event of one does not affect the next.
    pub(crate) generation: u32,
    /// The number of the connection within the origin.
    pub(crate) number: u64,
    pub(crate) reader: Reader,
    /// Responses in the order of their requests.
    pub(crate) answers: VecDeque<Answer>,
    /// How many of them, from the front, may be sent.
    pub(crate) free: usize,
    /// Bytes of the first response that were sent.
    pub(crate) sent: usize,
    /// Whether epoll reports when the socket is writable.
    pub(crate) for_writing: bool,
    /// Whether the socket may hold bytes that epoll will not report again.
    pub(crate) unread: bool,
    /// Whether the client has closed its sending side.
    pub(crate) ended: bool,
    pub(crate) ending: Ending,
}

impl Slot {
    pub(crate) fn new() -> Self {
        Self {
            socket: None,
            generation: 0,
            number: 0,
            reader: Reader::new(),
            answers: VecDeque::new(),
            free: 0,
            sent: 0,
            for_writing: false,
            unread: false,
            ended: false,
            ending: Ending::Open,
        }
    }

    /// Starts a connection in this slot.
    pub(crate) fn open(&mut self, socket: OwnedFd, number: u64) {
        self.socket = Some(socket);
        self.number = number;
        self.free = 0;
        self.sent = 0;
        self.for_writing = false;
        self.unread = false;
        self.ended = false;
        self.ending = Ending::Open;
    }

    /// Closes the connection.
    pub(crate) fn close(&mut self) {
        self.socket = None;
        // 31 bits, so that no token equals one of the marks.
        self.generation = (self.generation + 1) & 0x7fff_ffff;
        self.reader.reset();
        self.answers.clear();
    }

    /// Returns whether to read from the socket now.
    pub(crate) fn reads(&self) -> bool {
        self.answers.len() < QUEUED_RESPONSES_MAX && !self.ended
    }
}
