//! A copy of a request, on its way to another upstream.

use std::any::Any;
use std::cell::Cell;
use std::fmt::{self, Debug};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tollgate_http::RequestHead;
use tollgate_observe::Reason;

use crate::Reserved;

/// A copy of a request that is to be sent to another upstream when the request's body has been read.
pub struct Shadow {
    /// The upstream, by name.
    pub upstream: Arc<str>,
    /// By what it is told from a request.
    pub marks: Arc<Marks>,
    /// Bytes of a body; a request with more is not copied.
    pub body: usize,
    /// How long it may take.
    pub timeout: Duration,
    /// Who wants to know what came of it.
    pub watch: Watch,
    /// Dropped when it has ended.
    pub place: Box<dyn Any>,
}

/// By what a copy is told from a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// A field that says so, with its value.
    pub header: Option<(String, String)>,
    /// The host that it is sent with; `None`: that of the request.
    pub host: Option<String>,
}

impl Marks {
    /// Makes of a copy what can be told from a request.
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

/// What came of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShadowEnd {
    /// It was answered, with this status.
    Answered(u16),
    /// It was not.
    Failed(Reason),
    /// It was not sent: the body was too long, or did not come whole.
    GivenUp,
}

type Heard = Box<dyn FnOnce(ShadowEnd, Option<u16>)>;

/// Waits for the ends of a request and of its copy, in whatever order they come.
#[derive(Clone)]
pub struct Watch(Rc<Watched>);

struct Watched {
    main: Cell<Option<u16>>,
    shadow: Cell<ShadowEnd>,
    heard: Cell<Option<Heard>>,
}

impl Watch {
    /// Tells `heard` when both have ended: what came of the copy, and the request's status, if the client got one.
    pub fn new(heard: impl FnOnce(ShadowEnd, Option<u16>) + 'static) -> Self {
        let (main, shadow) = (Cell::new(None), Cell::new(ShadowEnd::GivenUp));
        Self(Rc::new(Watched { main, shadow, heard: Cell::new(Some(Box::new(heard))) }))
    }

    /// The request has ended.
    pub fn main(&self, status: u16) {
        self.0.main.set(Some(status).filter(|status| *status > 0));
    }

    /// The copy has ended.
    pub fn shadow(&self, end: ShadowEnd) {
        self.0.shadow.set(end);
    }
}

/// Both have ended when neither has a hold of it any longer, so also when one of them is dropped.
impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(heard) = self.heard.take() {
            heard(self.shadow.get(), self.main.get());
        }
    }
}

impl Debug for Shadow {
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
        let heard = Rc::new(Cell::new(None));
        let told = heard.clone();
        let watch = Watch::new(move |end, status| told.set(Some((end, status))));
        let other = watch.clone();
        watch.main(200);
        drop(watch);
        assert_eq!(heard.get(), None);
        other.shadow(ShadowEnd::Answered(500));
        drop(other);
        assert_eq!(heard.get(), Some((ShadowEnd::Answered(500), Some(200))));
    }

    #[test]
    fn who_is_dropped_has_ended() {
        let heard = Rc::new(Cell::new(None));
        let told = heard.clone();
        drop(Watch::new(move |end, status| told.set(Some((end, status)))));
        assert_eq!(heard.get(), Some((ShadowEnd::GivenUp, None)));
    }
}
