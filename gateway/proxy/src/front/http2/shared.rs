//! The state that all HTTP/2 client connections of a worker share.

use std::rc::Rc;

use tollgate_http2::MemoryTotals;

use super::connection_state::stream_limit::StreamLimit;
use super::request::StreamFutures;
use crate::front::scheduler::Scheduler;

/// The state that all HTTP/2 client connections of a worker share.
pub(crate) struct Http2Shared {
    /// The futures that serve streams.
    pub futures: Rc<StreamFutures>,
    /// The limit on streams of all connections.
    pub stream_limit: Rc<StreamLimit>,
    /// Decides which connection is processed next.
    pub scheduler: Rc<Scheduler>,
    /// Memory totals of all connections.
    pub totals: MemoryTotals,
}

impl Http2Shared {
    pub fn new() -> Self {
        Self {
            futures: Rc::new(StreamFutures::new()),
            stream_limit: Rc::default(),
            scheduler: Rc::default(),
            totals: MemoryTotals::default(),
        }
    }
}
