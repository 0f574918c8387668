//! Header compression (RFC 7541).

mod decoder;
mod encoder;
mod huffman;
mod integer;
mod table;

pub(crate) use self::decoder::Decoder;
pub(crate) use self::encoder::Encoder;

/// Bytes that a dynamic table may hold, on either side: what a peer assumes that was told nothing (RFC 9113, 6.5.2).
pub(crate) const TABLE_SIZE: usize = 4096;

/// A block that is none: the tables of both sides are no longer the same, and the connection ends (RFC 7541, 2.3.3 and 9113, 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;
