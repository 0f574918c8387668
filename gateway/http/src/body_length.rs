//! The length of a body, as a message declares it.
//!
//! It is a part of a request's model, which the codecs of all versions fill. [`h1`](crate::h1) decides which
//! declarations are accepted.

/// The end of a message's body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyLength {
    /// There is no body.
    #[default]
    None,
    /// The body has this many bytes.
    Exactly(u64),
    /// The last chunk ends the body.
    Chunked,
    /// The peer ends the body by closing its direction of the connection (HTTP/1 responses only), or of the
    /// stream (HTTP/2).
    UntilClose,
}

impl BodyLength {
    /// Whether the body has no bytes.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        matches!(self, Self::None | Self::Exactly(0))
    }
}

/// Returns the text of a length without leading zeros.
pub(crate) fn without_leading_zeros(text: &[u8]) -> &[u8] {
    let [b'0', _, ..] = text else { return text };
    let zeros = text.iter().take_while(|byte| **byte == b'0').count();
    // The last digit stays, even if it is a zero.
    let plain = &text[zeros.min(text.len().saturating_sub(1))..];
    if plain.first().is_some_and(u8::is_ascii_digit) { plain } else { text }
}
