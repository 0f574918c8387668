//! The mailboxes through which the workers of the process reach each other.

use std::fmt;
use std::sync::OnceLock;
use std::time::Instant;

use super::Message;

/// Puts a message into a worker's mailbox. Returns the message if that worker is gone.
pub type SendToWorker = Box<dyn Fn(Message) -> Result<(), Message> + Send + Sync>;

/// The mailboxes of all workers, and the instant from which their times count.
pub(crate) struct Mailboxes {
    start: Instant,
    senders: OnceLock<Vec<SendToWorker>>,
}

impl Mailboxes {
    pub fn new(start: Instant) -> Self {
        Self { start, senders: OnceLock::new() }
    }

    /// Stores the mailboxes of all workers, in the order of worker numbers. Only the first call has an
    /// effect, because every worker passes the same ones.
    pub fn connect(&self, senders: impl FnOnce() -> Vec<SendToWorker>) {
        self.senders.get_or_init(senders);
    }

    /// Returns the number of workers; 0 until [`connect`](Self::connect) was called.
    pub fn workers(&self) -> usize {
        self.senders.get().map_or(0, Vec::len)
    }

    /// Sends a message to a worker.
    ///
    /// # Errors
    /// Returns the message if the worker is gone.
    pub fn send(&self, worker: usize, message: Message) -> Result<(), Message> {
        match self.senders.get().and_then(|senders| senders.get(worker)) {
            Some(post) => post(message),
            None => Err(message),
        }
    }

    /// Returns the microseconds from the start to `at`.
    pub fn microseconds(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.start).as_micros()).unwrap_or(u64::MAX - 1)
    }
}

impl fmt::Debug for Mailboxes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mailboxes({})", self.workers())
    }
}
