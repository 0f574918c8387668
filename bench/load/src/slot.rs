//! A slot: one of the plan's connections, which may be closed, idle or waiting for a response.

use crate::pace::Times;
use crate::response::Reader;
use crate::tls::Connection;
use rustix::fd::OwnedFd;

/// The state of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Without a request. The connection of the previous request may still be open.
    Idle,
    /// Connecting before the run.
    Opening,
    /// Sending a request or waiting for its response.
    Waiting,
}

/// One of the plan's connections.
pub(crate) struct Slot {
    pub(crate) socket: Option<OwnedFd>,
    /// The TLS state, if the plan uses TLS; set together with the socket.
    pub(crate) tls: Option<Box<Connection>>,
    pub(crate) state: State,
    /// Whether epoll watches the socket.
    pub(crate) watched: bool,
    /// Whether epoll reports when the socket is writable.
    pub(crate) for_writing: bool,
    /// Index of the request in the plan.
    pub(crate) request: usize,
    /// The serialized request, if it was rendered for this slot; otherwise empty.
    pub(crate) rendered: Vec<u8>,
    /// The values of this slot's user, by their index in `Names`.
    pub(crate) values: Vec<String>,
    /// The next request of this slot's user, in a flow.
    pub(crate) step: usize,
    /// Bytes of the request that were written.
    pub(crate) written: usize,
    /// When the request began; the time limit counts from here.
    pub(crate) begun: u64,
    pub(crate) times: Times,
    /// When the previous request ended.
    pub(crate) freed: u64,
    pub(crate) reader: Reader,
}

impl Slot {
    /// Creates a slot whose user has this number of values.
    pub(crate) fn new(digested: bool, values: usize) -> Self {
        Self {
            socket: None,
            tls: None,
            state: State::Idle,
            watched: false,
            for_writing: false,
            request: 0,
            rendered: Vec::new(),
            values: vec![String::new(); values],
            step: 0,
            written: 0,
            begun: 0,
            times: Times::default(),
            freed: 0,
            reader: Reader::new(digested),
        }
    }

    /// Closes the connection, if there is one.
    pub(crate) fn close(&mut self) {
        self.socket = None;
        self.tls = None;
        self.watched = false;
    }
}
