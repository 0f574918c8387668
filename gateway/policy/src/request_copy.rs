//! A copy of a request for another upstream.
//!
//! `mirror` registers a [`RequestCopy`] in the request's context. The proxy sends it when the request's body
//! is complete, and reports the ends of both to its [`CopyWatch`].

use std::any::Any;
use std::cell::Cell;
use std::fmt::{self, Debug};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tollgate_http::RequestHead;
use tollgate_observe::Reason;

use crate::Reserved;

/// A copy of a request, which is sent to another upstream when the request's body has been read.
pub struct RequestCopy {
    /// The upstream, by name.
    pub upstream: Arc<str>,
    /// The changes that mark it as a copy.
    pub marks: Arc<CopyMarks>,
    /// The maximum size of a body in bytes; a request with a larger body is not copied.
    pub body: usize,
    /// The time limit of the copy.
    pub timeout: Duration,
    /// Receives the result of the copy.
    pub watch: CopyWatch,
    /// A guard that is dropped at the end of the copy.
    pub place: Box<dyn Any>,
}

/// The changes that mark a request as a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyMarks {
    /// A field with its value, which is set on the copy.
    pub header: Option<(String, String)>,
    /// The host to send; `None`: the host of the request.
    pub host: Option<String>,
}

impl CopyMarks {
    /// Marks a head as the head of a copy.
    pub fn apply(&self, head: &mut RequestHead) {
        if let Some((name, value)) = &self.header {
            let own = Reserved::new([name.as_str()]);
            head.remove_where(|name| own.has(name));
            head.append(name.as_bytes(), value.as_bytes());
        }
        if let Some(host) = &self.host {
            head.set_host(host.as_bytes());
        }
    }
}

/// The result of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyResult {
    /// The upstream responded with this status.
    Answered(u16),
    /// The upstream did not respond.
    Failed(Reason),
    /// The copy was not sent: the body was too long or incomplete.
    Abandoned,
}

type OnCopyEnd = Box<dyn FnOnce(CopyResult, Option<u16>)>;

/// Waits for the ends of a request and of its copy, in either order.
#[derive(Clone)]
pub struct CopyWatch(Rc<CopyWatchState>);

struct CopyWatchState {
    main: Cell<Option<u16>>,
    shadow: Cell<CopyResult>,
    on_end: Cell<Option<OnCopyEnd>>,
}

impl CopyWatch {
    /// Calls `on_end` at the end of both, with the result of the copy, and the request's status if the client
    /// got one.
    pub fn new(on_end: impl FnOnce(CopyResult, Option<u16>) + 'static) -> Self {
        let (main, shadow) = (Cell::new(None), Cell::new(CopyResult::Abandoned));
        Self(Rc::new(CopyWatchState { main, shadow, on_end: Cell::new(Some(Box::new(on_end))) }))
    }

    /// Records the end of the request; status 0: the client got none.
    pub fn main(&self, status: u16) {
        self.0.main.set(Some(status).filter(|status| *status > 0));
    }

    /// Records the end of the copy.
    pub fn shadow(&self, end: CopyResult) {
        self.0.shadow.set(end);
    }
}

/// Both are over when the last handle is dropped. This includes a request or copy that is dropped early.
impl Drop for CopyWatchState {
    fn drop(&mut self) {
        if let Some(on_end) = self.on_end.take() {
            on_end(self.shadow.get(), self.main.get());
        }
    }
}

impl Debug for RequestCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shadow")
            .field("upstream", &self.upstream)
            .field("body", &self.body)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_awaited() {
        let ended = Rc::new(Cell::new(None));
        let result = ended.clone();
        let watch = CopyWatch::new(move |end, status| result.set(Some((end, status))));
        let other = watch.clone();
        watch.main(200);
        drop(watch);
        assert_eq!(ended.get(), None);
        other.shadow(CopyResult::Answered(500));
        drop(other);
        assert_eq!(ended.get(), Some((CopyResult::Answered(500), Some(200))));
    }

    #[test]
    fn a_dropped_copy_has_ended() {
        let ended = Rc::new(Cell::new(None));
        let result = ended.clone();
        drop(CopyWatch::new(move |end, status| result.set(Some((end, status)))));
        assert_eq!(ended.get(), Some((CopyResult::Abandoned, None)));
    }
}
