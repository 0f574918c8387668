//! The slot through which a connection borrows a reusable future for its exchanges.

use crate::state::client::Client;
use crate::state::future_pool::FutureSlot;

/// The state of a connection when a run of exchanges on it ends.
#[derive(Debug)]
pub(crate) enum AfterExchanges {
    /// It has no more input now.
    Idle(Box<Client>),
    /// It is closed.
    Closed,
    /// It speaks HTTP/2; the bytes are what was read of it. Boxed, so that the usual variants stay small.
    Http2(Box<(Box<Client>, Vec<u8>)>),
}

/// The slot through which a connection borrows a reusable future for its exchanges.
pub(crate) type ExchangeSlot = FutureSlot<Box<Client>, AfterExchanges>;
