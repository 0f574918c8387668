//! Handles that replace the kernel's objects. They hold indices into the world and close their object when
//! dropped.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use super::world::{SimulatedEvent, TimerState, with, with_if_any};
use crate::Peek;

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct SimulatedSocket {
    connection: usize,
    side: usize,
}

impl SimulatedSocket {
    pub(super) fn new(connection: usize, side: usize) -> Self {
        Self { connection, side }
    }

    pub(super) fn index(&self) -> (usize, usize) {
        (self.connection, self.side)
    }

    /// Makes the group of the current task its owner.
    pub(crate) fn adopt(&self) {
        with(|world| world.connections[self.connection].ends[self.side].owner = world.tasks.current());
    }

    pub(crate) fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        with(|world| world.read(self.index(), cx, buffer))
    }

    pub(crate) fn poll_readable(&self, cx: &Context<'_>) -> Poll<()> {
        with(|world| world.poll_readable(self.index(), cx))
    }

    pub(crate) fn poll_peer_closed(&self, cx: &Context<'_>, half_close: bool) -> Poll<()> {
        with(|world| world.poll_peer_closed(self.index(), cx, half_close))
    }

    pub(crate) fn peek(&self) -> Option<Peek> {
        with(|world| world.peek(self.index()))
    }

    pub(crate) fn write(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        with(|world| world.write(self.index(), pieces))
    }

    pub(crate) fn poll_write(&self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        with(|world| world.poll_write(self.index(), cx, bytes))
    }

    pub(crate) fn shutdown(&self) -> io::Result<()> {
        with(|world| world.shutdown(self.index()))
    }

    /// Sends a short response and closes.
    pub(crate) fn reject(self, answer: &[u8]) {
        let _ = self.write(&[IoSlice::new(answer)]);
        let _ = self.shutdown();
        with(|world| world.discard(self.index(), 4096));
    }

    pub(crate) fn reset_on_close(&self) {
        with(|world| world.reset_on_close(self.index()));
    }
}

impl Drop for SimulatedSocket {
    fn drop(&mut self) {
        with_if_any(|world| world.close(self.index()));
    }
}

/// A listening socket.
#[derive(Debug)]
pub(crate) struct SimulatedListener {
    address: SocketAddr,
    index: usize,
}

impl SimulatedListener {
    pub(super) fn new(address: SocketAddr, backlog: usize) -> Self {
        Self { address, index: with(|world| world.listen(address, backlog)) }
    }

    /// Makes the group of the current task its owner.
    pub(crate) fn adopt(&self) {
        with(|world| world.adopt(self.address, self.index));
    }

    pub(crate) fn poll_accept(&self, cx: &Context<'_>) -> Poll<(SimulatedSocket, SocketAddr)> {
        with(|world| match world.accept(self.address, self.index) {
            Some(accepted) => Poll::Ready(accepted),
            None => {
                world.await_connection(self.address, self.index, cx);
                Poll::Pending
            }
        })
    }

    pub(crate) fn accept_queued(&self) -> io::Result<(SimulatedSocket, SocketAddr)> {
        with(|world| world.accept(self.address, self.index)).ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }
}

impl Drop for SimulatedListener {
    fn drop(&mut self) {
        with_if_any(|world| world.stop_listening(self.address, self.index));
    }
}

/// A timer.
#[derive(Debug)]
pub(crate) struct SimulatedTimer(usize);

impl SimulatedTimer {
    pub(crate) fn new() -> Self {
        with(|world| {
            world.timers.push(TimerState::default());
            Self(world.timers.len() - 1)
        })
    }

    pub(crate) fn set(&self, after: Duration) {
        with(|world| {
            let at = world.now + after;
            let state = &mut world.timers[self.0];
            state.setting += 1;
            state.fired = false;
            let setting = state.setting;
            world.schedule(at, SimulatedEvent::Fire(self.0, setting));
        });
    }

    pub(crate) fn poll_fired(&self, cx: &Context<'_>) -> Poll<()> {
        with(|world| {
            let state = &mut world.timers[self.0];
            if std::mem::take(&mut state.fired) {
                return Poll::Ready(());
            }
            state.waker = Some(cx.waker().clone());
            Poll::Pending
        })
    }
}
