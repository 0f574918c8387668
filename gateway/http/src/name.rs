//! Field names that the gateway knows.

use crate::chars::token_length;

macro_rules! names {
    ($($variant:ident = $text:literal,)+) => {
        /// A field name that the gateway knows, or [`Name::Other`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        #[allow(missing_docs, reason = "each variant is the name that it stands for")]
        pub enum Name {
            Other,
            /// A known name written with `_`, or other punctuation, for `-`. Origins that map all of it to one
            /// variable (CGI, WSGI, Rack) would take it for the real one, so it is never passed on.
            Alias,
            $($variant,)+
        }

        impl Name {
            /// The name in lower case; empty for [`Name::Other`] and [`Name::Alias`].
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    Self::Other | Self::Alias => "",
                    $(Self::$variant => $text,)+
                }
            }

            const fn known() -> &'static [(Name, &'static str)] {
                &[$((Self::$variant, $text)),+]
            }
        }
    };
}

names! {
    Host = "host",
    ContentLength = "content-length",
    TransferEncoding = "transfer-encoding",
    Connection = "connection",
    KeepAlive = "keep-alive",
    ProxyConnection = "proxy-connection",
    ProxyAuthenticate = "proxy-authenticate",
    ProxyAuthorization = "proxy-authorization",
    Te = "te",
    Trailer = "trailer",
    Upgrade = "upgrade",
    Expect = "expect",
    Via = "via",
    Forwarded = "forwarded",
    XForwardedFor = "x-forwarded-for",
    XForwardedHost = "x-forwarded-host",
    XForwardedProto = "x-forwarded-proto",
    XForwardedPort = "x-forwarded-port",
    XRealIp = "x-real-ip",
    Accept = "accept",
    Authorization = "authorization",
    CacheControl = "cache-control",
    ContentEncoding = "content-encoding",
    ContentType = "content-type",
    Cookie = "cookie",
    Date = "date",
    Location = "location",
    Referer = "referer",
    Server = "server",
    SetCookie = "set-cookie",
    UserAgent = "user-agent",
    XRequestId = "x-request-id",
}

/// How many names are known.
const KNOWN: usize = Name::known().len();
// A head keeps the names in it as bits of a word.
const _: () = assert!(KNOWN + 2 <= 64);

/// Candidates by length and first letter, from 1: most names are told apart by these two, so a look-up compares once.
const INDEX: [[u8; 32]; MAX_LENGTH + 1] = index();
/// The next candidate of the same length and first letter; 0 ends.
const CHAIN: [u8; KNOWN + 1] = chain();
/// The names as [`words`].
const WORDS: [[u64; 3]; KNOWN] = all_words();
/// Bytes of the longest name that [`words`] tells from every other.
const MAX_LENGTH: usize = 24;

const fn slot(text: &str) -> (usize, usize) {
    (text.len(), (text.as_bytes()[0] & 31) as usize)
}

const fn index() -> [[u8; 32]; MAX_LENGTH + 1] {
    let mut table = [[0; 32]; MAX_LENGTH + 1];
    let mut at = 0;
    while at < KNOWN {
        let (length, letter) = slot(Name::known()[at].1);
        table[length][letter] = at as u8 + 1;
        at += 1;
    }
    table
}

const fn chain() -> [u8; KNOWN + 1] {
    let mut heads = [[0; 32]; MAX_LENGTH + 1];
    let mut table = [0; KNOWN + 1];
    let mut at = 0;
    while at < KNOWN {
        let (length, letter) = slot(Name::known()[at].1);
        table[at + 1] = heads[length][letter];
        heads[length][letter] = at as u8 + 1;
        at += 1;
    }
    table
}

const fn all_words() -> [[u64; 3]; KNOWN] {
    let mut table = [[0; 3]; KNOWN];
    let mut at = 0;
    while at < KNOWN {
        table[at] = words(Name::known()[at].1.as_bytes());
        at += 1;
    }
    table
}

/// A token of at most 24 bytes in three words, with the bit set that upper-case letters lack; words may overlap.
/// Known names have only letters and `-`, and no other byte of a token becomes one of these by that bit: two tokens
/// of one length, of which one is known, have the same words only if they are the same but for case.
const fn words(token: &[u8]) -> [u64; 3] {
    const CASE: u64 = u64::from_le_bytes([0x20; 8]);
    let (first, middle, last) = match (token.first_chunk::<8>(), token.last_chunk::<8>()) {
        (Some(first), Some(last)) => {
            let middle = match token.split_at(8).1.first_chunk::<8>() {
                Some(middle) => u64::from_le_bytes(*middle),
                None => 0,
            };
            (u64::from_le_bytes(*first), middle, u64::from_le_bytes(*last))
        }
        _ => match (token.first_chunk::<4>(), token.last_chunk::<4>()) {
            (Some(first), Some(last)) => {
                (u32::from_le_bytes(*first) as u64, 0, u32::from_le_bytes(*last) as u64)
            }
            _ => match *token {
                [a, b, c] => (u32::from_le_bytes([a, b, c, 0]) as u64, 0, 0),
                [a, b] => (u16::from_le_bytes([a, b]) as u64, 0, 0),
                [a] => (a as u64, 0, 0),
                _ => (0, 0, 0),
            },
        },
    };
    [first | CASE, middle | CASE, last | CASE]
}

impl Name {
    /// The name that these bytes spell, in any case.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        if token_length(bytes) == bytes.len() { Self::of_token(bytes) } else { Self::Other }
    }

    /// The name that a token spells, in any case.
    pub(crate) fn of_token(token: &[u8]) -> Self {
        let (Some(row), Some(first)) = (INDEX.get(token.len()), token.first()) else { return Self::Other };
        let mut candidate = row[(first & 31) as usize] as usize;
        if candidate == 0 {
            return Self::Other;
        }
        let words = words(token);
        while candidate != 0 {
            let (name, text) = Self::known()[candidate - 1];
            if words == WORDS[candidate - 1] {
                return name;
            }
            if is_alias(token, text.as_bytes()) {
                return Self::Alias;
            }
            candidate = CHAIN[candidate] as usize;
        }
        Self::Other
    }

    /// Its bit in a set of names.
    pub(crate) const fn bit(self) -> u64 {
        1 << self as u8
    }

    /// Whether it concerns one connection only and never goes further (RFC 9110, 7.6.1).
    #[must_use]
    pub const fn is_hop_by_hop(self) -> bool {
        matches!(
            self,
            Self::Connection
                | Self::KeepAlive
                | Self::ProxyConnection
                | Self::Te
                | Self::TransferEncoding
                | Self::Upgrade
                | Self::Alias
        )
    }

    /// Whether it may not be a trailer field: framing, routing and identity (RFC 9110, 6.5.1).
    #[must_use]
    pub const fn is_barred_from_trailers(self) -> bool {
        !matches!(self, Self::Other)
    }
}

/// Whether a token of the same length spells the name with other punctuation for `-`.
fn is_alias(token: &[u8], text: &[u8]) -> bool {
    token.iter().zip(text).all(|(byte, known)| {
        byte.eq_ignore_ascii_case(known) || (*known == b'-' && !byte.is_ascii_alphanumeric())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_in_any_case() {
        for (name, text) in Name::known() {
            assert_eq!(Name::of(text.as_bytes()), *name);
            assert_eq!(Name::of(text.to_ascii_uppercase().as_bytes()), *name);
            for punctuation in ["_", ".", "~"] {
                let alias = text.replace('-', punctuation);
                if alias != *text {
                    assert_eq!(Name::of(alias.as_bytes()), Name::Alias, "{alias}");
                }
                let one = text.replacen('-', punctuation, 1).to_ascii_uppercase();
                if text.contains('-') {
                    assert_eq!(Name::of(one.as_bytes()), Name::Alias, "{one}");
                }
            }
        }
    }

    #[test]
    fn others_are_other() {
        let long = "a".repeat(100);
        for text in [
            "",
            "x",
            "hos",
            "hostt",
            "h_st",
            "x-forwarded-foo",
            "x_forwarded_foo",
            "content-lengtH2",
            "x_custom",
            "content\rlength",
            "\u{8}ost",
            "host ",
            "v\u{9}a",
            &long,
        ] {
            assert_eq!(Name::of(text.as_bytes()), Name::Other, "{text}");
        }
    }

    #[test]
    fn any_other_byte_makes_it_another_name() {
        for (name, text) in Name::known() {
            for at in 0..text.len() {
                for byte in 0..=255 {
                    let mut other = text.as_bytes().to_vec();
                    other[at] = byte;
                    let found = Name::of(&other);
                    assert_eq!(found == *name, other.eq_ignore_ascii_case(text.as_bytes()), "{other:?}");
                    assert!(matches!(found, Name::Other | Name::Alias) || found == *name, "{other:?}");
                }
            }
        }
    }
}
