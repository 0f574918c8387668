//! The scope and the effect of a purge, for the store in memory and for the disk tier.

/// The responses that a purge matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purge<'a> {
    /// The responses with this key.
    Key(&'a [u8]),
    /// The responses whose keys begin with these bytes.
    Prefix(&'a [u8]),
    /// The responses with one of these tags.
    Tags(&'a [&'a [u8]]),
    /// All responses.
    All,
}

/// The effect of a purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurgeMode {
    /// The responses are removed.
    Remove,
    /// They are kept but stale, so that they can be validated, or served while they are refreshed.
    MarkStale,
}
