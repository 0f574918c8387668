//! What an exchange needs, borrowed from its worker for its time.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use tollgate_http::h1::BodyReader;
use tollgate_http::{RequestHead, ResponseHead};
use tollgate_policy::Context;

use crate::backlog::Backlog;
use crate::forward::{FallingBack, Page};
use crate::grpc::Grpc;
use crate::ledger::Ledger;
use crate::pace::Paces;
use crate::websocket::Frames;
use crate::worker::Worker;

/// A buffer that grew past this is given back.
const KEEP_BYTES: usize = 16 * 1024;

/// The heads, buffers and books of one exchange. Used again and again, so that a request allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub request: RequestHead,
    pub response: ResponseHead,
    /// The path in normal form, where it is not so already; see [`crate::decide`].
    pub path: Vec<u8>,
    /// The path that goes upstream, where it is another one.
    pub rewritten: Vec<u8>,
    /// Bytes from the client that nobody has used yet: a part of a head, of a body, or the next request.
    pub inbox: Vec<u8>,
    /// Reads the rest of a body that is not wanted: see [`crate::pass_over`]. In a box: few requests have one.
    pub unread: Option<Box<BodyReader>>,
    /// A response head of which only a part has come.
    pub partial: Vec<u8>,
    /// The line that gives the client its sticky cookie; empty: it gets none.
    pub set_cookie: Vec<u8>,
    /// What the policies that the request has met want yet. In a box: a request that has met none pays for a null pointer.
    pub met: Option<Box<Context>>,
    /// Of a gRPC call. Only what may be one looks at it or sets it: see [`ClientStream::may_be_grpc`].
    ///
    /// [`ClientStream::may_be_grpc`]: crate::client_side::ClientStream::may_be_grpc
    pub grpc: Option<Grpc>,
    /// Where the frames of a WebSocket stand that came right behind the head of the 101.
    pub early_frames: Frames,
    /// How slow the client may be in the present exchange. Here, since an exchange is moved and this is not.
    pub paces: Paces,
    /// What takes the place of an error. In a box: a request without one pays for a null pointer.
    pub fallback: Option<Box<FallingBack>>,
    pub to_client: Backlog,
    pub to_upstream: Backlog,
    pub ledger: Ledger,
}

impl Scratch {
    /// The page that is asked for in the place of an error.
    #[inline]
    pub fn page(&self) -> Option<&Page> {
        self.fallback.as_ref().and_then(|falling| falling.page())
    }

    /// Makes it ready for the next request of the same connection.
    pub fn next_request(&mut self) {
        self.request.clear();
        self.response.clear();
        self.path.clear();
        self.rewritten.clear();
        self.partial.clear();
        self.set_cookie.clear();
        self.met = None;
        self.unread = None;
        self.fallback = None;
        self.to_upstream.clear();
        self.to_client.clear();
    }
}

/// A scratch on loan. Whatever way the exchange ends, also by a panic or by the end of its task, the books are
/// closed and the scratch goes back.
#[derive(Debug)]
pub(crate) struct Loan {
    worker: Rc<Worker>,
    scratch: Option<Box<Scratch>>,
}

impl Loan {
    pub fn new(worker: &Rc<Worker>) -> Self {
        let kept = worker.scratches.take();
        Self { worker: worker.clone(), scratch: Some(kept.unwrap_or_default()) }
    }
}

impl Deref for Loan {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        self.scratch.as_deref().expect("a loan has its scratch until it is dropped")
    }
}

impl DerefMut for Loan {
    fn deref_mut(&mut self) -> &mut Scratch {
        self.scratch.as_deref_mut().expect("a loan has its scratch until it is dropped")
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let Some(mut scratch) = self.scratch.take() else { return };
        crate::ledger::close_abandoned(&self.worker, &mut scratch);
        scratch.next_request();
        scratch.inbox.clear();
        for buffer in [&mut scratch.inbox, &mut scratch.partial, &mut scratch.path, &mut scratch.rewritten] {
            buffer.shrink_to(KEEP_BYTES);
        }
        scratch.request.shrink_to(KEEP_BYTES);
        scratch.response.shrink_to(KEEP_BYTES);
        if !std::thread::panicking() && self.worker.scratches.put(scratch) {
            self.worker.tidy_later();
        }
    }
}
