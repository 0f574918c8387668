//! The reading side of a fetch that another request leads.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tollgate_http::Head;

use super::Store;
use super::fill::{Fill, FillShared, FillState, Phase, Reader};
use super::stored::Stored;
use crate::StoredHead;

/// How the response of the leader begins for a follower.
#[derive(Debug)]
pub enum Start {
    /// It is stored already.
    Stored(Arc<Stored>),
    /// Its head, and the length of its body, if known. Read the body by [`Follower::poll_chunk`].
    Streaming(Arc<StoredHead>, Option<u64>),
    /// The leader is gone; this request leads now.
    Lead(Fill),
    /// The response is not for this request: fetch by [`Store::begin_alone`].
    Fetch,
    /// The response is for requests with other values of the fields that its `Vary` names: [begin](Store::begin) again, now
    /// that these are known.
    OtherVariant,
    /// The leader got no response, so this request would get none either.
    Failed,
}

/// The next part of the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// Data, not empty.
    Data(Bytes),
    /// The body is complete.
    End,
    /// The leader did not get the whole body: cut the response.
    Cut,
}

/// The reading side of a fetch that another request leads. Dropped, it leaves the fetch.
#[derive(Debug)]
pub struct Follower {
    store: Arc<Store>,
    shared: Arc<FillShared>,
    /// Its place among the readers; `None` once it has left.
    id: Option<usize>,
}

impl Follower {
    pub(super) fn new(store: Arc<Store>, shared: Arc<FillShared>, id: usize) -> Self {
        Self { store, shared, id: Some(id) }
    }

    /// Waits for the head. `request` is the follower's own: a response that `Vary` does not allow for it is
    /// [`Start::OtherVariant`], and one that each request must validate for itself is [`Start::Fetch`]. Only after
    /// [`Start::Streaming`] may the follower be used further.
    pub fn poll_start(&mut self, cx: &mut Context<'_>, request: &Head) -> Poll<Start> {
        let Some(id) = self.id else { return Poll::Ready(Start::Fetch) };
        let fits = |head: &StoredHead| head.freshness().can_be_shared() && head.is_selected_by(request);
        let mut state = self.shared.lock();
        let start = match &state.phase {
            Phase::Waiting => {
                wait(&mut state, id, cx);
                return Poll::Pending;
            }
            Phase::Streaming(head) | Phase::Complete(head) if fits(head) => {
                return Poll::Ready(Start::Streaming(head.clone(), state.declared));
            }
            Phase::Stored(stored) if fits(stored.head()) => Start::Stored(stored.clone()),
            Phase::Streaming(head) | Phase::Complete(head) if !head.is_selected_by(request) => {
                Start::OtherVariant
            }
            Phase::Stored(stored) if !stored.head().is_selected_by(request) => Start::OtherVariant,
            Phase::Streaming(_) | Phase::Complete(_) | Phase::Stored(_) | Phase::Refused | Phase::Cut => {
                Start::Fetch
            }
            Phase::Failed => Start::Failed,
            Phase::Vacant => {
                // Under the same lock, so that only one follower becomes the leader.
                state.phase = Phase::Waiting;
                state.readers[id] = None;
                self.id = None;
                drop(state);
                return Poll::Ready(Start::Lead(Fill::new(self.store.clone(), self.shared.clone())));
            }
        };
        drop(state);
        self.leave();
        Poll::Ready(start)
    }

    /// Waits for the next part of the body.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Chunk> {
        let Some(id) = self.id else { return Poll::Ready(Chunk::Cut) };
        let mut state = self.shared.lock();
        state.publish();
        let offset = state.readers[id].as_ref().map_or(state.length, |reader| reader.offset);
        let data = match &state.phase {
            // The follower reads a stream, which cannot continue from disk.
            Phase::Stored(stored) if stored.disk_body().is_some() => return Poll::Ready(Chunk::Cut),
            Phase::Stored(stored) => stored.body().piece(offset).map(|(piece, start)| piece.slice(start..)),
            _ => state.piece(offset),
        };
        let Some(data) = data else {
            return match state.phase {
                Phase::Streaming(_) => {
                    wait(&mut state, id, cx);
                    Poll::Pending
                }
                Phase::Complete(_) | Phase::Stored(_) => Poll::Ready(Chunk::End),
                _ => Poll::Ready(Chunk::Cut),
            };
        };
        state.readers[id] = Some(Reader { offset: offset + data.len() as u64, waker: None });
        let writer = state.after_read();
        drop(state);
        writer.into_iter().for_each(Waker::wake);
        Poll::Ready(Chunk::Data(data))
    }

    /// Gives up its place.
    fn leave(&mut self) {
        let Some(id) = self.id.take() else { return };
        let mut state = self.shared.lock();
        state.readers[id] = None;
        let writer = state.after_read();
        let is_vacant = matches!(state.phase, Phase::Vacant);
        drop(state);
        writer.into_iter().for_each(Waker::wake);
        // This follower may have been woken to take the lead.
        if is_vacant {
            self.shared.pass_on(&self.store);
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Registers a follower to be woken at the next change.
fn wait(state: &mut FillState, id: usize, cx: &Context<'_>) {
    if let Some(reader) = &mut state.readers[id] {
        match &mut reader.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => reader.waker = Some(cx.waker().clone()),
        }
    }
}
