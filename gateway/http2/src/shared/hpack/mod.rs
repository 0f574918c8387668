//! Header compression (RFC 7541) of one connection: a decoder, an encoder, and their tables.

mod decoder;
mod encoder;
mod huffman;
mod integer;
mod table;

pub(crate) use self::decoder::HpackDecoder;
pub(crate) use self::encoder::HpackEncoder;

/// Largest size of a dynamic table in bytes, in either direction: the default that holds without a setting
/// (RFC 9113, 6.5.2).
pub(crate) const TABLE_MAX_BYTES: usize = 4096;

/// Error: a block is invalid. The tables of the two sides may differ from here on, so the connection ends
/// (RFC 7541, 2.3.3 and 9113, 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MalformedBlock;
