//! The only error of HPACK.

/// Error: a block is invalid. The tables of the two sides may differ from here on, so the connection ends
/// (RFC 7541, 2.3.3 and 9113, 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MalformedBlock;
