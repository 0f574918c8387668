//! The facts that the trace of a layer 4 stream shows in addition to its line in the log.
//!
//! A [`StreamRecord`](crate::state::stream_record) keeps the [`StreamRemarks`] while a client follows, and hands the
//! [`StreamFacts`] to the [followers](crate::state::followers) at the end.

use std::rc::Rc;
use std::time::Instant;

use tollgate_observe::Reason;
use tollgate_plan::Stream;
use tollgate_upstream::Pool;

/// The facts of a finished stream.
#[derive(Debug)]
pub(crate) struct StreamFacts<'a> {
    /// The stream that took the connection.
    pub stream: Option<&'a Stream>,
    /// Whether a ClientHello was read, and TLS passed through.
    pub is_passed: bool,
    /// Whether an endpoint was picked.
    pub has_endpoint: bool,
    /// `None`: no client followed when it began.
    pub remarks: Option<&'a StreamRemarks>,
}

/// The parts of a trace that are kept while a stream lasts.
#[derive(Debug, Default)]
pub(crate) struct StreamRemarks {
    /// When the stream was known: after the ClientHello, if it depends on that.
    pub chosen: Option<Instant>,
    /// The attempts before the last one, all of which failed.
    pub earlier: Vec<FailedConnect>,
    /// When the last attempt began.
    pub began: Option<Instant>,
    /// When it had a connection.
    pub connected: Option<Instant>,
}

/// An attempt that another one followed.
#[derive(Debug)]
pub(crate) struct FailedConnect {
    pub endpoint: Rc<Pool>,
    pub reason: Reason,
    pub began: Option<Instant>,
    pub ended: Instant,
}
