//! A place for one connection; its buffers stay when the connection goes, so that the next one allocates nothing.

use crate::answer::Answer;
use crate::reader::Reader;
use rustix::fd::OwnedFd;
use std::collections::VecDeque;

/// Answers that a connection may have waiting before no more is read from it. One read can add some thousand more.
const MOST_ANSWERS: usize = 1024;

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Not yet.
    Open,
    /// After the answers that wait: what the client may still send is not looked at.
    AfterAnswers,
    /// Likewise, but then what the client sent meanwhile is read away: a reset could destroy the refusal before the
    /// client reads it (RFC 9112, section 9.6).
    Draining,
}

#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) socket: Option<OwnedFd>,
    /// Counts the connections of this slot, so that what was meant for one does not reach the next.
    pub(crate) generation: u32,
    /// Number of the connection among all of the origin.
    pub(crate) number: u64,
    pub(crate) reader: Reader,
    /// Answers in the order of their requests.
    pub(crate) answers: VecDeque<Answer>,
    /// How many of them, from the front, may leave.
    pub(crate) free: usize,
    /// Bytes of the first that have left.
    pub(crate) sent: usize,
    /// Whether epoll tells when the socket can be written to.
    pub(crate) for_writing: bool,
    /// Whether the socket may hold bytes that epoll will not tell of again.
    pub(crate) unread: bool,
    /// Whether the client has ended its side.
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

    /// Takes a connection.
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
        // 31 bits, so that no token is taken for one of the marks.
        self.generation = (self.generation + 1) & 0x7fff_ffff;
        self.reader.reset();
        self.answers.clear();
    }

    /// Whether to read from the socket now.
    pub(crate) fn reads(&self) -> bool {
        self.answers.len() < MOST_ANSWERS && !self.ended
    }
}
