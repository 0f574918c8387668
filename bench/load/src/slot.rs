//! One connection's place: empty, open or waiting for a response.

use crate::pace::Times;
use crate::response::Reader;
use crate::tls::Connection;
use rustix::fd::OwnedFd;

/// What a slot is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// No request. There may be a connection, kept from the last one.
    Idle,
    /// Connecting before the run.
    Opening,
    /// A request is being sent or its response awaited.
    Waiting,
}

/// One of the plan's connections.
pub(crate) struct Slot {
    pub(crate) socket: Option<OwnedFd>,
    /// Its TLS, where the plan asks for it; there when the socket is.
    pub(crate) tls: Option<Box<Connection>>,
    pub(crate) state: State,
    /// Whether epoll watches the socket.
    pub(crate) watched: bool,
    /// Whether epoll tells when it can be written to.
    pub(crate) for_writing: bool,
    /// Index of the request.
    pub(crate) request: usize,
    /// Bytes of the request that are written.
    pub(crate) written: usize,
    /// When it was taken up: what the time limit counts from.
    pub(crate) begun: u64,
    pub(crate) times: Times,
    /// When its last request ended.
    pub(crate) freed: u64,
    pub(crate) reader: Reader,
}

impl Slot {
    pub(crate) fn new(digested: bool) -> Self {
        Self {
            socket: None,
            tls: None,
            state: State::Idle,
            watched: false,
            for_writing: false,
            request: 0,
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
