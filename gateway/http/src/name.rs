//! Field names that the gateway knows.

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
    ClientCert = "client-cert",
    ClientCertChain = "client-cert-chain",
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
/// The names in words.
const WORDS: [Words; KNOWN] = per_name(false);
/// The bits that an upper-case letter of the name lacks.
const CASE: [Words; KNOWN] = per_name(true);
/// Bytes that [`Words`] hold: more than the longest name has.
const MAX_LENGTH: usize = 24;

/// The bits of the first so many bytes.
const MASKS: [Words; MAX_LENGTH + 1] = masks();

/// A name in words, filled up with zeros.
type Words = [u64; 3];

const fn masks() -> [Words; MAX_LENGTH + 1] {
    let mut table = [[0; 3]; MAX_LENGTH + 1];
    let mut length = 1;
    while length <= MAX_LENGTH {
        table[length] = table[length - 1];
        let last = length - 1;
        table[length][last / 8] |= 0xff << (last % 8 * 8);
        length += 1;
    }
    table
}

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

const fn per_name(case: bool) -> [Words; KNOWN] {
    let mut table = [[0; 3]; KNOWN];
    let mut at = 0;
    while at < KNOWN {
        let text = Name::known()[at].1.as_bytes();
        let mut index = 0;
        while index < text.len() {
            let byte = match (case, text[index].is_ascii_lowercase()) {
                (false, _) => text[index],
                (true, letter) => (letter as u8) << 5,
            };
            table[at][index / 8] |= (byte as u64) << (index % 8 * 8);
            index += 1;
        }
        at += 1;
    }
    table
}

impl Name {
    /// The name that these bytes spell, in any case.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self::look_up(bytes, || alone_in_words(bytes))
    }

    /// Whether its value says who somebody is, so that nobody on the way may keep it in a table (RFC 7541, 7.1.3).
    #[must_use]
    pub const fn is_credential(self) -> bool {
        matches!(self, Self::Authorization | Self::Cookie | Self::ProxyAuthorization)
    }

    /// The name that so many first bytes of the text spell. Reads whole words where what follows the name lets it.
    #[inline]
    pub(crate) fn of_first(text: &[u8], length: usize) -> Self {
        let Some(block) = text.first_chunk::<MAX_LENGTH>() else { return Self::of(&text[..length]) };
        Self::look_up(&text[..length], || {
            let (words, masks) = (in_words(block), MASKS[length]);
            std::array::from_fn(|at| words[at] & masks[at])
        })
    }

    /// `words` holds the bytes; asked only if a known name is as long.
    #[inline(always)]
    fn look_up(bytes: &[u8], words: impl FnOnce() -> Words) -> Self {
        let (Some(row), Some(first)) = (INDEX.get(bytes.len()), bytes.first()) else { return Self::Other };
        let mut candidate = row[(first & 31) as usize] as usize;
        if candidate == 0 {
            return Self::Other;
        }
        let words = words();
        while candidate != 0 {
            let (name, text) = Self::known()[candidate - 1];
            let (case, known) = (&CASE[candidate - 1], &WORDS[candidate - 1]);
            if words[0] | case[0] == known[0]
                && words[1] | case[1] == known[1]
                && words[2] | case[2] == known[2]
            {
                return name;
            }
            if is_alias(bytes, text.as_bytes()) {
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

/// A set of names, to be asked of a head at once: see [`Head::has_any`](crate::Head::has_any).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names(pub(crate) u64);

impl Names {
    /// These.
    #[must_use]
    pub const fn of(names: &[Name]) -> Self {
        let (mut set, mut at) = (0, 0);
        while at < names.len() {
            set |= names[at].bit();
            at += 1;
        }
        Self(set)
    }
}

fn in_words(bytes: &[u8; MAX_LENGTH]) -> Words {
    let (words, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|at| u64::from_le_bytes(words[at]))
}

/// The same of up to so many bytes behind which nothing may be read: the last whole word holds what is left of them at
/// its end.
#[inline]
fn alone_in_words(bytes: &[u8]) -> Words {
    let first = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    let last = || bytes.last_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    match bytes.len() {
        length @ 17.. => [first(0), first(8), last() >> ((MAX_LENGTH - length) * 8)],
        length @ 9.. => [first(0), last() >> ((16 - length) * 8), 0],
        8 => [first(0), 0, 0],
        length @ 4.. => {
            let half = |part: Option<&[u8; 4]>| part.map_or(0, |half| u64::from(u32::from_le_bytes(*half)));
            [half(bytes.first_chunk()) | half(bytes.last_chunk()) << ((length - 4) * 8), 0, 0]
        }
        _ => [bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)), 0, 0],
    }
}

/// Whether a name of the same length spells the name with other punctuation for `-`.
fn is_alias(bytes: &[u8], text: &[u8]) -> bool {
    bytes.iter().zip(text).all(|(byte, known)| {
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
                    let line = [&other, &b": value, and what is behind it"[..]].concat();
                    assert_eq!(Name::of_first(&line, other.len()), found, "{other:?}");
                    assert_eq!(Name::of_first(&line[..other.len() + 2], other.len()), found, "{other:?}");
                    assert!(matches!(found, Name::Other | Name::Alias) || found == *name, "{other:?}");
                }
            }
        }
    }
}
