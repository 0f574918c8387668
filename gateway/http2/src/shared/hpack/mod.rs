//! Header compression (RFC 7541) of one connection: a decoder, an encoder, and their tables.

mod decoder;
mod encoder;
mod huffman;
mod integer;
mod malformed;
mod table;

pub(crate) use self::decoder::HpackDecoder;
pub(crate) use self::encoder::HpackEncoder;
