//! Observes the peer's direction without consuming a byte: whether there is something to read, and whether
//! the peer has left. Pools check idle connections with it, and exchanges notice clients that disconnect
//! while they wait.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, ready};

use rustix::net::{RecvFlags, recv};
use tokio::io::Interest;
use tokio::task::coop::{has_budget_remaining, unconstrained};

use super::{Stream, StreamKind};
use crate::Peek;

impl Stream {
    /// Returns what can be read, without consuming it; `None`: nothing. Makes a system call only if the
    /// poller has reported an event since the last short read.
    #[must_use]
    pub fn peek(&self) -> Option<Peek> {
        #[cfg(feature = "simulate")]
        if let StreamKind::Simulated(socket) = &self.kind {
            return socket.peek();
        }
        if let StreamKind::Tls(tls) = &self.kind {
            return tls.peek();
        }
        let mut byte = [0];
        // The event may be stale, if the last read took exactly everything. The attempt then clears it.
        let peeked = self.try_io(Interest::READABLE, byte.len(), |socket| {
            recv(socket, &mut byte, RecvFlags::PEEK).map(|(count, _)| count)
        });
        peeked.map(|peeked| match peeked {
            Ok(0) => Peek::End,
            Ok(_) => Peek::Data,
            Err(_) => Peek::Reset,
        })
    }

    /// Waits until something can be read, and returns what, without consuming it, as [`Self::peek`] does.
    ///
    /// Pending means that nothing is available, never that the task has used its cooperative budget
    /// (tokio's). The pool relies on that.
    pub fn poll_peek(&self, cx: &mut Context<'_>) -> Poll<Peek> {
        #[cfg(feature = "simulate")]
        if let StreamKind::Simulated(socket) = &self.kind {
            return match socket.peek() {
                Some(peek) => Poll::Ready(peek),
                None => socket.poll_readable(cx).map(|()| Peek::End),
            };
        }
        if let StreamKind::Tls(tls) = &self.kind {
            return tls.poll_peek(cx);
        }
        loop {
            if let Some(peek) = self.peek() {
                return Poll::Ready(peek);
            }
            if ready!(self.poll_read_event_unconstrained(cx)).is_err() {
                return Poll::Ready(Peek::Reset);
            }
        }
    }

    /// Waits until the peer has closed its direction or reset the connection. Unread bytes stay in the
    /// socket. With `half_close` only a reset counts, as far as the poller reports one.
    ///
    /// Makes a system call only after the poller has reported an event.
    pub fn poll_peer_closed(&self, cx: &mut Context<'_>, half_close: bool) -> Poll<()> {
        #[cfg(feature = "simulate")]
        if let StreamKind::Simulated(socket) = &self.kind {
            return socket.poll_peer_closed(cx, half_close);
        }
        if let StreamKind::Tls(tls) = &self.kind {
            return tls.poll_peer_closed(cx, half_close);
        }
        if half_close && self.is_reported(Interest::PRIORITY) {
            // Only a reset can follow the end, and it wakes no task.
            return if self.is_reported(Interest::ERROR) { Poll::Ready(()) } else { Poll::Pending };
        }
        loop {
            let peeked = match self.may_have_unread.get() {
                // Only an event after the known bytes matters.
                true => self.is_reported(Interest::READABLE).then_some(Peek::Data),
                false => self.peek(),
            };
            match peeked {
                None => {}
                Some(Peek::End) if half_close => return Poll::Pending,
                Some(Peek::End | Peek::Reset) => return Poll::Ready(()),
                Some(Peek::Data) => {
                    if self.is_reported(Interest::PRIORITY) {
                        let is_over = !half_close || self.is_reported(Interest::ERROR);
                        return if is_over { Poll::Ready(()) } else { Poll::Pending };
                    }
                    self.clear_readiness();
                }
            }
            if ready!(self.poll_read_event_unconstrained(cx)).is_err() {
                return Poll::Ready(());
            }
        }
    }

    /// Whether the poller has reported this readiness. [`Interest::PRIORITY`] means the end of the peer's
    /// direction (`EPOLLRDHUP`): tokio reports it under that interest, and no socket is registered for urgent
    /// data.
    fn is_reported(&self, interest: Interest) -> bool {
        let seen = || {
            if interest.is_readable() {
                self.registered_task.set(None);
            }
            Ok(())
        };
        match &self.kind {
            StreamKind::Tcp(stream) => stream.try_io(interest, seen).is_ok(),
            StreamKind::Unix(stream) => stream.try_io(interest, seen).is_ok(),
            StreamKind::Tls(_) => false,
            #[cfg(feature = "simulate")]
            StreamKind::Simulated(_) => false,
        }
    }

    /// Clears the readiness although bytes are unread, so that the next event can be awaited.
    fn clear_readiness(&self) {
        self.may_have_unread.set(true);
        self.registered_task.set(None);
        let forget = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        let forgotten = match &self.kind {
            StreamKind::Tcp(stream) => stream.try_io(Interest::READABLE, forget),
            StreamKind::Unix(stream) => stream.try_io(Interest::READABLE, forget),
            StreamKind::Tls(_) => return,
            #[cfg(feature = "simulate")]
            StreamKind::Simulated(_) => return,
        };
        drop(forgotten);
    }

    /// As [`Self::poll_read_event`], also for a task that has used its budget.
    fn poll_read_event_unconstrained(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match has_budget_remaining() {
            true => self.poll_read_event(cx),
            false => pin!(unconstrained(poll_fn(|cx| self.poll_read_event(cx)))).poll(cx),
        }
    }
}
