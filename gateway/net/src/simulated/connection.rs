//! The state of a connection and of its two ends. `end` and `network` change it.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::task::Waker;
use std::time::Duration;

use super::conditions::TaskGroup;

/// A connection. Side 0 opened it.
#[derive(Debug)]
pub(super) struct SimulatedConnection {
    pub ends: [ConnectionEnd; 2],
    pub delay: (u64, u64),
    /// The result of connecting, once it is known. The opener waits for it.
    pub answer: Option<Result<(), ErrorKind>>,
}

/// One end of a connection.
#[derive(Debug, Default)]
pub(super) struct ConnectionEnd {
    pub address: Option<SocketAddr>,
    pub owner: Option<TaskGroup>,
    /// Bytes that arrived and were not read.
    pub incoming: VecDeque<u8>,
    /// Bytes in flight to this end.
    pub in_flight: usize,
    /// Most bytes in flight to this end or unread.
    pub capacity: usize,
    /// When the last of the bytes in flight arrives; later ones arrive no earlier.
    pub last_arrival: Duration,
    /// Bytes that its owner has written.
    pub written: u64,
    /// The other side's FIN arrived.
    pub fin_received: bool,
    /// This side sent its FIN.
    pub fin_sent: bool,
    /// An error to report once, as `sk_err`: by the next call that has nothing else to return.
    pub error: Option<ErrorKind>,
    /// The connection was reset: nothing is sent or received any more.
    pub is_reset: bool,
    /// Its owner dropped it.
    pub closed: bool,
    pub reset_on_close: bool,
    /// Wakers for each direction. As with the poller, only the latest one is kept.
    pub reader: Option<Waker>,
    pub writer: Option<Waker>,
}

impl ConnectionEnd {
    pub fn new(address: SocketAddr, owner: Option<TaskGroup>, capacity: usize) -> Self {
        Self { address: Some(address), owner, capacity, ..Self::default() }
    }

    /// Registers its owner to be woken when the connection is established or fails.
    pub fn wait_for_answer(&mut self, waker: &Waker) {
        self.writer = Some(waker.clone());
    }

    /// Wakes its owner: the connection is established, or has failed.
    pub fn answered(&mut self, connected: bool) {
        self.is_reset |= !connected;
        self.wake_writer();
    }

    /// Returns the bytes that can be sent to this end now.
    pub fn room(&self) -> usize {
        self.capacity.saturating_sub(self.in_flight + self.incoming.len())
    }

    pub fn wake_reader(&mut self) {
        if let Some(waker) = self.reader.take() {
            waker.wake();
        }
    }

    pub fn wake_writer(&mut self) {
        if let Some(waker) = self.writer.take() {
            waker.wake();
        }
    }

    /// Whether a read would not block.
    pub fn is_readable(&self) -> bool {
        !self.incoming.is_empty() || self.error.is_some() || self.fin_received || self.is_reset
    }
}
