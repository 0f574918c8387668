//! The state of connections and sessions of layer 4, which the configuration calls streams.
//!
//! [`states`] counts them for their limits, [`record`] closes each of them for statistics and the log, and [`facts`] is the
//! part of it that traces show.

pub(crate) mod facts;
pub(crate) mod record;
pub(crate) mod states;
