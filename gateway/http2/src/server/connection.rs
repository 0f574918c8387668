//! The handle of a connection for the task that reads and writes its socket.
//!
//! The proxy's connection task passes received bytes to [`ServerConnection::receive`], takes requests with
//! [`ServerConnection::next_request`], and writes with [`ServerConnection::poll_write`]. The counters tell it
//! when a client misuses the protocol. The handle and all [`RequestStream`]s share one `Core`.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::server::role::ServerRole;
use crate::server::settings::LocalSettings;
use crate::server::stream::RequestStream;
use crate::shared::core::Core;
use crate::shared::error_code::ErrorCode;
use crate::shared::fields::FieldSection;
use crate::shared::totals::MemoryTotals;

/// A request whose head was received.
#[derive(Debug)]
pub struct IncomingRequest {
    /// The stream on which to answer it.
    pub stream: RequestStream,
    /// The fields of the request's head, pseudo-header fields included.
    pub fields: FieldSection,
}

/// The handle of a connection for the task that reads and writes its socket.
#[derive(Debug)]
pub struct ServerConnection {
    core: Rc<RefCell<Core<ServerRole>>>,
}

impl ServerConnection {
    /// Starts a connection. `totals` is shared with the other connections of the worker.
    #[must_use]
    pub fn new(settings: LocalSettings, totals: &MemoryTotals) -> Self {
        Self { core: Rc::new(RefCell::new(Core::server(settings, totals))) }
    }

    /// Parses received bytes until the [extra cost](ServerConnection::extra_cost) has grown by `max_cost`.
    /// Returns how many bytes it consumed; the caller passes the rest again later. Returns 0 only after the
    /// end of the connection.
    #[must_use]
    pub fn receive(&self, bytes: &[u8], max_cost: u64) -> usize {
        self.core.borrow_mut().receive(bytes, max_cost)
    }

    /// Takes the next request from the queue of received requests.
    #[must_use]
    pub fn next_request(&self) -> Option<IncomingRequest> {
        let core = &mut *self.core.borrow_mut();
        let (key, fields) = core.next_request()?;
        Some(IncomingRequest { stream: RequestStream::new(self.core.clone(), key), fields })
    }

    /// Whether received requests wait for [`ServerConnection::next_request`].
    #[must_use]
    pub fn has_request(&self) -> bool {
        !self.core.borrow().role.queue.is_empty()
    }

    /// Bytes of memory that the fields of queued requests take: their heads, and trailers that have already
    /// arrived.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.core.borrow().role.queued_bytes.own()
    }

    /// The same for all connections that share the totals.
    #[must_use]
    pub fn queued_bytes_of_all(&self) -> usize {
        self.core.borrow().role.queued_bytes.all()
    }

    /// Whether the client's SETTINGS frame was received. Until then every other frame is an error.
    #[must_use]
    pub fn has_peer_settings(&self) -> bool {
        self.core.borrow().has_peer_settings
    }

    /// How many streams were reset before the caller took them from the queue.
    #[must_use]
    pub fn reset_before_start(&self) -> u64 {
        self.core.borrow().role.reset_before_start
    }

    /// How many streams were refused because too many were open at once, or because they depended on
    /// themselves.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.core.borrow().role.refused
    }

    /// CPU cost of the frames received so far beyond their size, expressed in bytes of body. Heads and
    /// SETTINGS cost far more than copying their bytes.
    #[must_use]
    pub fn extra_cost(&self) -> u64 {
        self.core.borrow().extra_cost
    }

    /// How many DATA frames arrived for streams that are closed or were reset; they are discarded.
    #[must_use]
    pub fn discarded_data_frames(&self) -> u64 {
        self.core.borrow().discarded_data_frames
    }

    /// Whether the client reads slowly: more than 8 KiB wait to be written.
    #[must_use]
    pub fn is_slow_reader(&self) -> bool {
        self.core.borrow().output_limit.is_slow_reader()
    }

    /// Whether the output buffer is full. The caller then reads no more from the client, because any frame
    /// may need a reply.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.core.borrow().output_limit.is_full()
    }

    /// Writes the output buffer by calling `write`, which returns how many bytes the socket accepted.
    ///
    /// # Errors
    /// Errors of `write`; `WriteZero` if it accepts nothing.
    pub fn poll_write(&self, write: impl FnMut(&[u8]) -> Poll<io::Result<usize>>) -> Poll<io::Result<()>> {
        self.core.borrow_mut().poll_write(write)
    }

    /// Registers the task to be woken when there is something to write.
    pub fn register_waker(&self, cx: &Context<'_>) {
        self.core.borrow_mut().register_waker(cx);
    }

    /// Sends GOAWAY: the client should open no more streams. Streams that it opens before it receives that
    /// are still served. Not before the client's preface has arrived: the first frame must be SETTINGS (RFC 9113, 3.4).
    pub fn start_graceful_shutdown(&self) {
        self.core.borrow_mut().start_graceful_shutdown();
    }

    /// Ends the grace period after [`ServerConnection::start_graceful_shutdown`]: streams that the client
    /// opens from now on are ignored. Without this bound, a client that ignores GOAWAY could send requests
    /// without limit.
    pub fn finish_graceful_shutdown(&self) {
        self.core.borrow_mut().finish_graceful_shutdown();
    }

    /// Ends the connection: sends GOAWAY with the reason and reads nothing more.
    /// [`ServerConnection::wake_ended_streams`] wakes the streams.
    pub fn end(&self, code: ErrorCode) {
        self.core.borrow_mut().end(code);
    }

    /// Marks the connection as lost: nothing is read or written from now on.
    /// [`ServerConnection::wake_ended_streams`] wakes the streams.
    pub fn abort(&self) {
        let core = &mut *self.core.borrow_mut();
        core.abort();
        core.discard_output();
    }

    /// Wakes at most `max_count` streams that were waiting when the connection ended. Returns how many it
    /// woke; fewer than `max_count` means that none is left. The wake-ups are spread out because each ended
    /// request costs a connection to an endpoint, and other work waits while a hundred are ended.
    #[must_use]
    pub fn wake_ended_streams(&self, max_count: usize) -> usize {
        self.core.borrow_mut().wake_ended_streams(max_count)
    }

    /// The reason why the connection ended, if it has.
    #[must_use]
    pub fn ended(&self) -> Option<ErrorCode> {
        self.core.borrow().ended
    }

    /// Whether the connection is finished: the client can open no more streams, none is open, and everything
    /// was written.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.core.borrow().is_finished()
    }
}
