//! The content codings in which the gateway sends bodies: compressed responses, stored forms of them, and files that were
//! compressed in advance.

/// A content coding (RFC 9110, 8.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentCoding {
    /// zstd (RFC 8878).
    Zstd,
    /// brotli (RFC 7932).
    Brotli,
    /// gzip (RFC 1952).
    Gzip,
}

impl ContentCoding {
    /// All codings, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Zstd, Self::Brotli, Self::Gzip];

    /// Returns the name in `Accept-Encoding` and `Content-Encoding`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }

    /// Returns the coding of this name; case is ignored. `x-gzip` is an alias of `gzip` (RFC 9110, 8.4.1.3).
    #[must_use]
    pub fn of(name: &[u8]) -> Option<Self> {
        if name.eq_ignore_ascii_case(b"x-gzip") {
            return Some(Self::Gzip);
        }
        Self::ALL.into_iter().find(|coding| name.eq_ignore_ascii_case(coding.name().as_bytes()))
    }
}
