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

use super::{Kind, Stream};
use crate::Peek;

impl Stream {
    /// Returns what can be read, without consuming it; `None`: nothing. Makes a system call only if the
    /// poller has reported an event since the last short read.
    #[must_use]
    pub fn peek(&self) -> Option<Peek> {
        #[cfg(feature = "simulate")]
        if let Kind::Simulated(socket) = &self.kind {
            return socket.peek();
        }
        if let Kind::Tls(tls) = &self.kind {
            return tls.peek();
        }
        let mut byte = [0];
        // The event may be stale, if the last read took exactly everything. The attempt then clears it.
        let peeked = self.attempt(Interest::READABLE, byte.len(), |socket| {
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
        if let Kind::Simulated(socket) = &self.kind {
            return match socket.peek() {
                Some(peek) => Poll::Ready(peek),
                None => socket.poll_readable(cx).map(|()| Peek::End),
            };
        }
        if let Kind::Tls(tls) = &self.kind {
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
    pub fn poll_gone(&self, cx: &mut Context<'_>, half_close: bool) -> Poll<()> {
        #[cfg(feature = "simulate")]
        if let Kind::Simulated(socket) = &self.kind {
            return socket.poll_gone(cx, half_close);
        }
        if let Kind::Tls(tls) = &self.kind {
            return tls.poll_gone(cx, half_close);
        }
        if half_close && self.has_told(Interest::PRIORITY) {
            // Only a reset can follow the end, and it wakes no task.
            return if self.has_told(Interest::ERROR) { Poll::Ready(()) } else { Poll::Pending };
        }
        loop {
            let here = match self.unread.get() {
                // Only an event after the known bytes matters.
                true => self.has_told(Interest::READABLE).then_some(Peek::Data),
                false => self.peek(),
            };
            match here {
                None => {}
                Some(Peek::End) if half_close => return Poll::Pending,
                Some(Peek::End | Peek::Reset) => return Poll::Ready(()),
                Some(Peek::Data) => {
                    if self.has_told(Interest::PRIORITY) {
                        let is_over = !half_close || self.has_told(Interest::ERROR);
                        return if is_over { Poll::Ready(()) } else { Poll::Pending };
                    }
                    self.forget_readiness();
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
    fn has_told(&self, interest: Interest) -> bool {
        let seen = || {
            if interest.is_readable() {
                self.waiting.set(None);
            }
            Ok(())
        };
        match &self.kind {
            Kind::Tcp(stream) => stream.try_io(interest, seen).is_ok(),
            Kind::Unix(stream) => stream.try_io(interest, seen).is_ok(),
            Kind::Tls(_) => false,
            #[cfg(feature = "simulate")]
            Kind::Simulated(_) => false,
        }
    }

    /// Clears the readiness although bytes are unread, so that the next event can be awaited.
    fn forget_readiness(&self) {
        self.unread.set(true);
        self.waiting.set(None);
        let forget = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        let forgotten = match &self.kind {
            Kind::Tcp(stream) => stream.try_io(Interest::READABLE, forget),
            Kind::Unix(stream) => stream.try_io(Interest::READABLE, forget),
            Kind::Tls(_) => return,
            #[cfg(feature = "simulate")]
            Kind::Simulated(_) => return,
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
