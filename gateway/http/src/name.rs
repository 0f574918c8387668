//! Field names that the gateway knows, and a look-up that compares whole words.
//!
//! The parsers call [`Name::of`] once for each field and store the result in [`Field::id`](crate::Field::id),
//! so later code compares numbers instead of text. A look-up selects candidates by length and first letter,
//! and compares them as three 64-bit words. Invariant: a known name in any case maps to its variant. A
//! spelling with other punctuation for `-` maps to [`Name::AmbiguousSpelling`], because some origins cannot
//! tell it from the known name.

macro_rules! names {
    ($($variant:ident = $text:literal,)+) => {
        /// A field name that the gateway knows, or [`Name::Other`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        #[allow(missing_docs, reason = "each variant is the name that it stands for")]
        pub enum Name {
            Other,
            /// A known name with `_` or other punctuation in place of `-`. Origins that map both to one
            /// variable (CGI, WSGI, Rack) would mistake it for the real name, so it is never forwarded.
            AmbiguousSpelling,
            /// A name that begins with `X-Forwarded-` and has no variant of its own: `X-Forwarded-Prefix`,
            /// `-Ssl`, `-Server`.
            XForwardedOther,
            /// Another name that services trust a proxy to set: see the table `PROXY_CLAIMS`.
            ProxyClaim,
            $($variant,)+
        }

        impl Name {
            /// The name in lower case; empty for variants that stand for several names.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    Self::Other | Self::AmbiguousSpelling | Self::XForwardedOther | Self::ProxyClaim => "",
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

/// Names that services trust a proxy to set, about the client or the path of the request. Names with a
/// variant of their own and the names of a [family](family_of) are not listed here. The sources are the
/// manuals of nginx, HAProxy, Envoy, Traefik, IIS and its ARR, of Cloudflare, Fastly, Fly, Azure, AWS and
/// Google Cloud, Alibaba and Tencent Cloud, Imperva, Sucuri and Vercel, and of Rails, Django, Symfony,
/// Spring, Zend, ASP.NET, gunicorn and WebLogic. `docs/forwarded.md` lists them.
const PROXY_CLAIMS: [&str; 68] = [
    // The client's address.
    "forwarded-for",
    "client-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-originating-ip",
    "x-proxyuser-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "cf-pseudo-ipv4",
    "fastly-client-ip",
    "fly-client-ip",
    "do-connecting-ip",
    "x-azure-clientip",
    "x-azure-socketip",
    "x-appengine-user-ip",
    "x-appengine-remote-addr",
    "remote-addr",
    "x-original-forwarded-for",
    "x-original-remote-addr",
    "x-original-for",
    "proxy-client-ip",
    "wl-proxy-client-ip",
    "x-ms-forwarded-client-ip",
    "x-vercel-forwarded-for",
    "incap-client-ip",
    "x-sucuri-clientip",
    "ali-cdn-real-ip",
    "cdn-src-ip",
    "x-cdn-src-ip",
    "eo-connecting-ip",
    "eo-client-ip",
    // The original request and its path through proxies.
    "x-original-url",
    "x-original-uri",
    "x-original-path",
    "x-original-host",
    "x-original-method",
    "x-original-proto",
    "x-original-scheme",
    "x-original-port",
    "x-rewrite-url",
    "x-host",
    "x-http-host-override",
    "x-scheme",
    "x-url-scheme",
    "x-script-name",
    "x-original-prefix",
    "x-waws-unencoded-url",
    "disguised-host",
    // gunicorn and uWSGI take the application's prefix and path from these.
    "script-name",
    "path-info",
    // Rack::Sendfile lets a proxy name the files that it serves (CVE-2025-61780).
    "x-sendfile-type",
    "x-accel-mapping",
    "cf-visitor",
    "front-end-https",
    "fastly-ssl",
    "x-appengine-https",
    "x-arr-ssl",
    "wl-proxy-ssl",
    // The client's identity.
    "remote-user",
    "x-arr-clientcert",
    "x-client-cert",
    "x-client-verify",
    "x-client-dn",
    "ssl-client-cert",
    "ssl-client-verify",
    "wl-proxy-client-cert",
    // CGI turns it into HTTP_PROXY, which HTTP clients use as their proxy (CVE-2016-5385, "httpoxy").
    "proxy",
];

/// Number of names in the tables. The claims come first, so that known names precede them in a chain.
const ENTRY_COUNT: usize = PROXY_CLAIMS.len() + Name::known().len();
/// Ends a chain of candidates if the name may belong to a [family](family_of).
const FAMILY: u8 = u8::MAX;
const _: () = assert!(ENTRY_COUNT < FAMILY as usize);
// A head keeps the set of its names as bits of a word.
const _: () = assert!(Name::known().len() + 4 <= 64);

const fn entry(at: usize) -> (Name, &'static str) {
    if at < PROXY_CLAIMS.len() {
        (Name::ProxyClaim, PROXY_CLAIMS[at])
    } else {
        Name::known()[at - PROXY_CLAIMS.len()]
    }
}

const ALL: [(Name, &str); ENTRY_COUNT] = {
    let mut all = [(Name::Other, ""); ENTRY_COUNT];
    let mut at = 0;
    while at < ENTRY_COUNT {
        all[at] = entry(at);
        at += 1;
    }
    all
};

/// The end of a chain of candidates. Names of most families begin with `x-` and have seven bytes or more;
/// one begins with `cloudfront-`.
const fn chain_end(length: usize, letter: usize) -> u8 {
    let (x, c) = ((b'x' & 31) as usize, (b'c' & 31) as usize);
    if letter == x && length >= 7 || letter == c && length > 11 { FAMILY } else { 0 }
}

/// Finds the family of a name by its prefix. Not inlined, because few names get here.
#[inline(never)]
fn family_of(bytes: &[u8]) -> Name {
    const CLAIM: Name = Name::ProxyClaim;
    let families: &[(&str, Name)] = match bytes.get(2).map(u8::to_ascii_lowercase) {
        Some(b'f') => &[("x-forwarded-", Name::XForwardedOther), ("x-forwarded", Name::XForwardedOther)],
        Some(b'e') => &[("x-envoy-", CLAIM)],
        Some(b's') => &[("x-ssl-", CLAIM)],
        Some(b'r') => &[("x-remote-", CLAIM)],
        Some(b'w') => &[("x-webauth-", CLAIM)],
        Some(b'a') => &[("x-amzn-mtls-", CLAIM), ("x-amzn-oidc-", CLAIM), ("x-auth-request-", CLAIM)],
        Some(b'm') => &[("x-ms-client-principal", CLAIM)],
        Some(b'g') => &[("x-goog-authenticated-user-", CLAIM)],
        Some(b'o') => &[("cloudfront-", CLAIM)],
        _ => &[],
    };
    for (prefix, name) in families {
        let Some(begin) = bytes.get(..prefix.len()) else { continue };
        // This prefix is a whole name.
        if prefix.ends_with('d') && bytes.len() > prefix.len() {
            continue;
        }
        if begin.eq_ignore_ascii_case(prefix.as_bytes()) {
            return *name;
        }
        if is_ambiguous_spelling(begin, prefix.as_bytes()) {
            return Name::AmbiguousSpelling;
        }
    }
    Name::Other
}

/// The first candidate by length and first letter, counted from 1. These two tell most names apart, so a
/// look-up usually compares once.
const INDEX: [[u8; 32]; NAME_MAX_BYTES + 1] = index();
/// The next candidate with the same length and first letter; 0 or [`FAMILY`] ends the chain.
const CHAIN: [u8; ENTRY_COUNT + 1] = chain();
/// The names as words.
const WORDS: [Words; ENTRY_COUNT] = per_name(false);
/// For each name, the bit in which its letters differ between lower and upper case.
const CASE: [Words; ENTRY_COUNT] = per_name(true);
/// Bytes in [`Words`]. No known name is longer.
const NAME_MAX_BYTES: usize = 24;

/// Masks that select the first bytes, by their number.
const MASKS: [Words; NAME_MAX_BYTES + 1] = masks();

/// A name as words, padded with zeros.
type Words = [u64; 3];

const fn masks() -> [Words; NAME_MAX_BYTES + 1] {
    let mut table = [[0; 3]; NAME_MAX_BYTES + 1];
    let mut length = 1;
    while length <= NAME_MAX_BYTES {
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

const fn index() -> [[u8; 32]; NAME_MAX_BYTES + 1] {
    let mut table = ends();
    let mut at = 0;
    while at < ENTRY_COUNT {
        let (length, letter) = slot(ALL[at].1);
        table[length][letter] = at as u8 + 1;
        at += 1;
    }
    table
}

const fn ends() -> [[u8; 32]; NAME_MAX_BYTES + 1] {
    let mut table = [[0; 32]; NAME_MAX_BYTES + 1];
    let mut length = 0;
    while length <= NAME_MAX_BYTES {
        let mut letter = 0;
        while letter < 32 {
            table[length][letter] = chain_end(length, letter);
            letter += 1;
        }
        length += 1;
    }
    table
}

const fn chain() -> [u8; ENTRY_COUNT + 1] {
    let mut heads = ends();
    let mut table = [0; ENTRY_COUNT + 1];
    let mut at = 0;
    while at < ENTRY_COUNT {
        let (length, letter) = slot(ALL[at].1);
        table[at + 1] = heads[length][letter];
        heads[length][letter] = at as u8 + 1;
        at += 1;
    }
    table
}

const fn per_name(case: bool) -> [Words; ENTRY_COUNT] {
    let mut table = [[0; 3]; ENTRY_COUNT];
    let mut at = 0;
    while at < ENTRY_COUNT {
        let text = ALL[at].1.as_bytes();
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
    /// Looks up a name, in any case.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self::look_up(bytes, || short_in_words(bytes))
    }

    /// Whether the value is a credential, which intermediaries must not keep in a table (RFC 7541, 7.1.3).
    #[must_use]
    pub const fn is_credential(self) -> bool {
        matches!(self, Self::Authorization | Self::Cookie | Self::ProxyAuthorization)
    }

    /// Looks up the name in the first `length` bytes of `text`. Reads whole words if enough bytes follow the
    /// name.
    #[inline]
    pub(crate) fn of_first(text: &[u8], length: usize) -> Self {
        let Some(block) = text.first_chunk::<NAME_MAX_BYTES>() else { return Self::of(&text[..length]) };
        Self::look_up(&text[..length], || {
            let (words, masks) = (in_words(block), MASKS[length]);
            std::array::from_fn(|at| words[at] & masks[at])
        })
    }

    /// Looks up a name. Calls `words` for its bytes as words only if there is a candidate with the same
    /// length and first letter.
    #[inline(always)]
    fn look_up(bytes: &[u8], words: impl FnOnce() -> Words) -> Self {
        let (Some(row), Some(first)) = (INDEX.get(bytes.len()), bytes.first()) else {
            return Self::of_long(bytes);
        };
        let mut candidate = row[(first & 31) as usize] as usize;
        if candidate == 0 {
            return Self::Other;
        }
        let words = words();
        while let Some((name, text)) = ALL.get(candidate.wrapping_sub(1)) {
            let (case, known) = (&CASE[candidate - 1], &WORDS[candidate - 1]);
            if words[0] | case[0] == known[0]
                && words[1] | case[1] == known[1]
                && words[2] | case[2] == known[2]
            {
                return *name;
            }
            if is_ambiguous_spelling(bytes, text.as_bytes()) {
                return Self::AmbiguousSpelling;
            }
            candidate = CHAIN[candidate] as usize;
        }
        if candidate == FAMILY as usize { family_of(bytes) } else { Self::Other }
    }

    /// Looks up a name that is empty, or longer than every name in the tables.
    #[cold]
    fn of_long(bytes: &[u8]) -> Self {
        match bytes.first() {
            Some(b'x' | b'X' | b'c' | b'C') => family_of(bytes),
            _ => Self::Other,
        }
    }

    /// Whether the variant stands for several names, so that fields must be compared by their text.
    #[must_use]
    pub const fn is_group(self) -> bool {
        matches!(self, Self::Other | Self::AmbiguousSpelling | Self::XForwardedOther | Self::ProxyClaim)
    }

    /// Whether `Connection` may nominate it (RFC 9110, 7.6.1), because the gateway neither reads nor writes
    /// it.
    #[must_use]
    pub const fn can_be_nominated(self) -> bool {
        matches!(self, Self::Other | Self::XForwardedOther | Self::ProxyClaim)
    }

    /// The bit of the name in a set.
    pub(crate) const fn bit(self) -> u64 {
        1 << self as u8
    }

    /// Whether it applies to one connection only and is never forwarded (RFC 9110, 7.6.1).
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
                | Self::AmbiguousSpelling
        )
    }

    /// Whether it may not be a trailer field, as it affects framing, routing or identity (RFC 9110, 6.5.1).
    #[must_use]
    pub const fn is_forbidden_in_trailers(self) -> bool {
        !matches!(self, Self::Other)
    }
}

/// A set of names for one query of a head: see [`Head::has_any`](crate::Head::has_any).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameSet(pub(crate) u64);

impl NameSet {
    /// Creates a set of these names.
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

fn in_words(bytes: &[u8; NAME_MAX_BYTES]) -> Words {
    let (words, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|at| u64::from_le_bytes(words[at]))
}

/// Converts up to 24 bytes to words without reading past their end. The last word is read so that it ends
/// with the name.
#[inline]
fn short_in_words(bytes: &[u8]) -> Words {
    let first = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    let last = || bytes.last_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    match bytes.len() {
        length @ 17.. => [first(0), first(8), last() >> ((NAME_MAX_BYTES - length) * 8)],
        length @ 9.. => [first(0), last() >> ((16 - length) * 8), 0],
        8 => [first(0), 0, 0],
        length @ 4.. => {
            let half = |part: Option<&[u8; 4]>| part.map_or(0, |half| u64::from(u32::from_le_bytes(*half)));
            [half(bytes.first_chunk()) | half(bytes.last_chunk()) << ((length - 4) * 8), 0, 0]
        }
        _ => [bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)), 0, 0],
    }
}

/// Whether `bytes` spells a known name of the same length with other punctuation in place of `-`.
fn is_ambiguous_spelling(bytes: &[u8], text: &[u8]) -> bool {
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
                    assert_eq!(Name::of(alias.as_bytes()), Name::AmbiguousSpelling, "{alias}");
                }
                let one = text.replacen('-', punctuation, 1).to_ascii_uppercase();
                if text.contains('-') {
                    assert_eq!(Name::of(one.as_bytes()), Name::AmbiguousSpelling, "{one}");
                }
            }
        }
    }

    #[test]
    fn unknown_names_are_other() {
        let long = "a".repeat(100);
        for text in [
            "",
            "x",
            "hos",
            "hostt",
            "h_st",
            "x-forward",
            "x-forwardedfor",
            "x-env-oy",
            "x-original",
            "x-http-method-override",
            "x-amzn-trace-id",
            "cloud-front",
            "content-security-policy-report-only",
            "x-a-very-long-name-that-is-no-claim",
            "forwarded-foo",
            "client-id",
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
    fn fields_that_services_trust_are_known() {
        let others = [
            "X-Forwarded-Prefix",
            "x-forwarded-ssl",
            "x-forwarded-server",
            "x-forwarded-scheme",
            "X-FORWARDED-CLIENT-CERT",
            "x-forwarded-a-name-that-is-in-no-table",
            "x-forwarded",
            "x-forwarded-",
        ];
        for name in others {
            assert_eq!(Name::of(name.as_bytes()), Name::XForwardedOther, "{name}");
        }
        let claims = [
            "x-envoy-external-address",
            "x-envoy-internal",
            "X-Envoy-Downstream-Service-Cluster",
            "x-ssl-client-cert",
            "x-remote-user",
            "x-webauth-user",
            "x-auth-request-email",
            "x-amzn-oidc-identity",
            "x-amzn-mtls-clientcert-serial-number",
            "x-ms-client-principal-name",
            "x-goog-authenticated-user-email",
            "CloudFront-Forwarded-Proto",
            "CloudFront-Viewer-TLS",
            "CloudFront-Is-X",
        ];
        for name in claims.into_iter().chain(PROXY_CLAIMS) {
            assert_eq!(Name::of(name.as_bytes()), Name::ProxyClaim, "{name}");
            assert_eq!(Name::of(name.to_ascii_uppercase().as_bytes()), Name::ProxyClaim, "{name}");
            let line = format!("{name}: a value, and what is behind it");
            assert_eq!(Name::of_first(line.as_bytes(), name.len()), Name::ProxyClaim, "{name}");
        }
        for name in claims.into_iter().chain(others).chain(PROXY_CLAIMS).filter(|name| name.contains('-')) {
            let alias = name.replacen('-', "_", 1);
            assert_eq!(Name::of(alias.as_bytes()), Name::AmbiguousSpelling, "{alias}");
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
                    let is_other =
                        matches!(found, Name::Other | Name::AmbiguousSpelling | Name::XForwardedOther);
                    assert!(is_other || found == *name, "{other:?}");
                }
            }
        }
    }
}
