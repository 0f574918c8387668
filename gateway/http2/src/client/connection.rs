//! The handle of a connection to an endpoint, for the task that reads and writes its socket.
//!
//! The pool's connection task passes received bytes to [`ClientConnection::receive`], and writes with
//! [`ClientConnection::poll_write`]. Requests open streams with [`ClientConnection::send_request`]. All handles
//! share one `Core`.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::client::role::ClientRole;
use crate::client::settings::ClientSettings;
use crate::client::stream::ResponseStream;
use crate::shared::core::Core;
use crate::shared::error_code::ErrorCode;
use crate::shared::frame;
use crate::shared::send::StreamClosed;
use crate::shared::streams::SendProgress;
use crate::shared::totals::MemoryTotals;

/// The pseudo-header fields of a request (RFC 9113, 8.3.1). The values are valid; the caller has checked them.
#[derive(Clone, Copy, Debug)]
pub struct RequestPseudo<'a> {
    /// The value of `:method`.
    pub method: &'a [u8],
    /// Whether `:scheme` is `https`.
    pub is_secure: bool,
    /// The value of `:authority`.
    pub authority: &'a [u8],
    /// The value of `:path`.
    pub path: &'a [u8],
    /// The value of `:protocol`, for extended CONNECT (RFC 8441, 4).
    pub protocol: Option<&'a [u8]>,
}

/// The handle of a connection to an endpoint.
#[derive(Debug)]
pub struct ClientConnection {
    core: Rc<RefCell<Core<ClientRole>>>,
}

impl ClientConnection {
    /// Starts a connection. The preface and SETTINGS wait to be written.
    #[must_use]
    pub fn new(settings: &ClientSettings, totals: &MemoryTotals) -> Self {
        Self { core: Rc::new(RefCell::new(Core::client(settings, totals))) }
    }

    /// Handles received bytes. `passed` is the time since the previous call; it bounds how many frames that
    /// transfer nothing the endpoint may send.
    pub fn receive(&self, bytes: &[u8], passed: Duration) {
        let core = &mut *self.core.borrow_mut();
        core.role.credit.on_time(passed);
        core.role.credit.on_received(bytes.len());
        core.receive(bytes, u64::MAX);
        if core.ended.is_some() {
            core.wake_ended_streams(usize::MAX);
        }
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

    /// Forgets the registered task. A task that runs needs no wake-up for what it is about to write.
    pub fn forget_waker(&self) {
        self.core.borrow_mut().task = None;
    }

    /// Opens a stream and sends the head of a request. With `secrets`, all fields are sent as never indexed
    /// (RFC 7541, 6.2.3). If the head `ends` the request, it carries END_STREAM.
    ///
    /// # Errors
    /// [`StreamClosed`], if no more streams can be opened.
    pub fn send_request<'a>(
        &self,
        pseudo: RequestPseudo<'_>,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        secrets: bool,
        ends: bool,
    ) -> Result<ResponseStream, StreamClosed> {
        let core = &mut *self.core.borrow_mut();
        if !core.can_open() {
            return Err(StreamClosed);
        }
        let key = core.open();
        let progress = if ends { SendProgress::End } else { SendProgress::Head };
        let RequestPseudo { method, is_secure, authority, path, protocol } = pseudo;
        core.write_section(key, Some(progress), |encoder, out| {
            encoder.request(method, (is_secure, authority, path), protocol, out);
            for (name, value) in fields {
                encoder.request_field(name, value, secrets, out);
            }
        })?;
        let head_end = core.output_end();
        if let Some(state) = core.streams.get(key) {
            (state.role.is_connect, state.role.head_end) = (protocol.is_some(), head_end);
        }
        Ok(ResponseStream::new(self.core.clone(), key))
    }

    /// Whether the endpoint's SETTINGS were received.
    #[must_use]
    pub fn has_peer_settings(&self) -> bool {
        self.core.borrow().has_peer_settings
    }

    /// How many concurrent streams the endpoint allows; 0 before its SETTINGS were received.
    #[must_use]
    pub fn max_concurrent_streams(&self) -> usize {
        let core = self.core.borrow();
        if core.has_peer_settings { core.peer_settings.max_concurrent_streams as usize } else { 0 }
    }

    /// Whether the endpoint supports extended CONNECT (RFC 8441, 3).
    #[must_use]
    pub fn allows_connect_protocol(&self) -> bool {
        self.core.borrow().peer_settings.allows_connect_protocol
    }

    /// Whether a further stream can be opened, apart from the limit of concurrent ones: the connection has not
    /// ended, and the endpoint has sent no GOAWAY.
    #[must_use]
    pub fn can_open(&self) -> bool {
        self.core.borrow().can_open()
    }

    /// Makes the next stream the last one whose id is left.
    #[cfg(test)]
    pub(crate) fn use_up_ids(&self) {
        self.core.borrow_mut().last = crate::client::role::LAST_ID_MAX - 2;
    }

    /// Whether the output buffer is full, beyond what bodies may take of it. The caller then reads no more from the
    /// endpoint, because any frame may need a reply.
    #[must_use]
    pub fn is_full(&self) -> bool {
        !self.core.borrow().output_limit.has_room_for_replies()
    }

    /// Sends a PING, unless one waits for its acknowledgement.
    pub fn send_ping(&self) {
        let core = &mut *self.core.borrow_mut();
        if core.role.ping.is_some() || core.ended.is_some() {
            return;
        }
        core.role.pings += 1;
        let payload = core.role.pings.to_be_bytes();
        core.role.ping = Some(payload);
        frame::write_ping(&mut core.out, 0, &payload);
        core.wake();
    }

    /// Whether a PING waits for its acknowledgement.
    #[must_use]
    pub fn awaits_pong(&self) -> bool {
        self.core.borrow().role.ping.is_some()
    }

    /// Ends the connection in order: a GOAWAY without an error waits to be written, and no request can begin. Streams
    /// that are still open are lost.
    pub fn go_away(&self) {
        let core = &mut *self.core.borrow_mut();
        core.end(ErrorCode::NO_ERROR);
        core.wake_ended_streams(usize::MAX);
    }

    /// Marks the connection as lost because nothing more can be read. Requests whose heads were not written count as
    /// not processed. Otherwise as [`ClientConnection::abort`].
    pub fn abort_unread(&self) {
        self.core.borrow_mut().give_up_unwritten();
        self.abort();
    }

    /// Marks the connection as lost: nothing is read or written from now on. Wakes its streams.
    pub fn abort(&self) {
        let core = &mut *self.core.borrow_mut();
        core.abort();
        core.discard_output();
        core.wake_ended_streams(usize::MAX);
    }

    /// The error with which the gateway ended the connection, because the endpoint broke the protocol.
    #[must_use]
    pub fn violation(&self) -> Option<ErrorCode> {
        self.core.borrow().violation()
    }

    /// The reason why the connection ended, if it has.
    #[must_use]
    pub fn ended(&self) -> Option<ErrorCode> {
        self.core.borrow().ended
    }
}
