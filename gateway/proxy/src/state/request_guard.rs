//! The guard of a borrowed request state. A guard that is dropped closes the request's record, so every
//! request is recorded, even after a panic.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use crate::state::close_record::close_abandoned;
use crate::state::request_state::RequestState;
use crate::state::worker::Worker;

/// A buffer that grew larger is shrunk to this size when the request state is returned.
const KEEP_BYTES: usize = 16 * 1024;

/// A borrowed request state. However the exchange ends, also by a panic or the end of its task, dropping the
/// guard closes the record and returns the state.
#[derive(Debug)]
pub(crate) struct RequestStateGuard {
    worker: Rc<Worker>,
    state: Option<Box<RequestState>>,
}

impl RequestStateGuard {
    pub fn new(worker: &Rc<Worker>) -> Self {
        let kept = worker.request_states.take();
        Self { worker: worker.clone(), state: Some(kept.unwrap_or_default()) }
    }
}

impl Deref for RequestStateGuard {
    type Target = RequestState;

    fn deref(&self) -> &RequestState {
        self.state.as_deref().expect("a guard has its state until it is dropped")
    }
}

impl DerefMut for RequestStateGuard {
    fn deref_mut(&mut self) -> &mut RequestState {
        self.state.as_deref_mut().expect("a guard has its state until it is dropped")
    }
}

impl Drop for RequestStateGuard {
    fn drop(&mut self) {
        let Some(mut state) = self.state.take() else { return };
        close_abandoned(&self.worker, &mut state);
        state.next_request();
        state.inbox.clear();
        for buffer in [&mut state.inbox, &mut state.partial, &mut state.path, &mut state.rewritten] {
            buffer.shrink_to(KEEP_BYTES);
        }
        state.request.shrink_to(KEEP_BYTES);
        state.response.shrink_to(KEEP_BYTES);
        if !std::thread::panicking() && self.worker.request_states.put(state) {
            self.worker.shrink_later();
        }
    }
}
