//! `compression`: compresses response bodies for clients that accept an encoding (RFC 9110, 8.4 and 12.5.3).
//!
//! The policy installs an [`Encoder`] as the transform of a response. It also changes 304s and responses to
//! HEAD, so that their tags match the compressed body and caches stay consistent.

mod config;
mod encoder;
mod negotiate;

use std::sync::{Arc, LazyLock};

use tollgate_http::{FieldFinder, Method, Version};

use self::encoder::Encoder;
pub use self::encoder::{CompressionLevels, Encoding};
use self::negotiate::negotiate;
pub(crate) use self::negotiate::{accepts, forbids_transform};
use crate::known_tags::KnownTags;
use crate::{BodyKind, Planned, Policy, PolicyStates, Request, Response, Verdict};

pub(crate) use config::CompressionSettings;

/// Selects the responses to compress, and the encodings.
#[derive(Clone, Debug)]
pub struct CompressionRules {
    /// The encodings, the preferred one first.
    pub encodings: Vec<Encoding>,
    /// Content types, in lower case: `text/html`, `text/*`, `*+json`.
    pub types: Vec<String>,
    /// The minimum length of a body in bytes, if its length is known.
    pub min_length: u64,
    /// The compression level of each encoding.
    pub levels: CompressionLevels,
}

impl Planned for CompressionRules {
    fn kind(&self) -> &'static str {
        "compression"
    }

    fn summary(&self) -> String {
        let names: Vec<_> = self.encodings.iter().map(|encoding| encoding.as_str()).collect();
        names.join(", ")
    }

    fn activate(self: Arc<Self>, _: &str, _: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        Arc::new(Compression(self))
    }
}

/// Fields that describe the exact bytes of a body, such as digests (RFC 9530). They rule out compression.
static BODY_DEPENDENT_FIELDS: LazyLock<FieldFinder> = LazyLock::new(|| {
    FieldFinder::new([
        &b"content-encoding"[..],
        b"content-range",
        b"content-digest",
        b"repr-digest",
        b"digest",
        b"content-md5",
    ])
});

#[derive(Debug)]
struct Compression(Arc<CompressionRules>);

impl Policy for Compression {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        let lines = request.head.head.all_by_text(b"accept-encoding");
        let accepted = lines.flat_map(|line| line.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
        let encoding = negotiate(accepted, &self.0.encodings)
            .filter(|_| !forbids_transform(request.head.head.all_by_text(b"cache-control")))
            // An HTTP/1.0 client needs the length in advance.
            .filter(|_| request.head.version != Version::Http10);
        let known = KnownTags::of(request);
        let rules = self.0.clone();
        if encoding.is_some() && request.head.method != Method::Head {
            request.context.on_response(move |response| rules.compress(encoding, &known, response));
        } else {
            // The body stays as it is, but caches need the fields all the same.
            request.context.on_head(move |response| rules.compress(encoding, &known, response));
        }
        Verdict::Continue
    }
}

impl CompressionRules {
    /// Compresses a response if the rules allow it. `encoding`: the encoding negotiated with the client.
    fn compress(&self, encoding: Option<Encoding>, known: &KnownTags, response: &mut Response<'_>) {
        let is_unmodified = response.status() == 304;
        let takes = if is_unmodified { self.may_have_taken(response) } else { self.takes(response) };
        if !takes {
            return;
        }
        // Added even if this client accepts no encoding: a cache must not serve one variant to all clients.
        response.vary("Accept-Encoding");
        if response.body == BodyKind::Absent {
            // The tag must be the tag of the 200, or of the response to GET (RFC 9110, 15.4.5 and 9.3.2).
            // With a strong tag, a cache would not find its entry, or would take it for the endpoint's bytes
            // and insert byte ranges into it.
            let has_plain =
                || response.get("etag").is_some_and(|tag| is_unmodified && known.has_original(tag));
            if encoding.is_some() && !has_plain() {
                response.remove("Accept-Ranges");
                // The length of another representation must not be sent (RFC 9110, 8.6).
                response.remove_length();
                response.weaken_tag();
            }
            return;
        }
        let Some(encoder) = encoding
            .filter(|_| response.body == BodyKind::Transformable)
            .and_then(|encoding| Encoder::new(encoding, self.levels))
        else {
            return;
        };
        response.set("Content-Encoding", encoder.encoding().as_str().as_bytes());
        response.remove("Accept-Ranges");
        response.weaken_tag();
        response.transform(Box::new(encoder));
    }

    /// Whether the 200 that this 304 confirms may have been [compressed](Self::takes). A 304 usually has no
    /// `Content-Type`, and its length is often wrong. A 304 therefore counts as compressible unless it
    /// declares another type, and the client's own tags then correct a wrong guess. If they do not, a cache
    /// performs one lookup more than necessary.
    fn may_have_taken(&self, response: &Response<'_>) -> bool {
        response.get("content-type").is_none_or(|value| self.has_type(value)) && Self::leaves_free(response)
    }

    /// Whether a response may be compressed.
    fn takes(&self, response: &Response<'_>) -> bool {
        let length = || std::str::from_utf8(response.get("content-length")?).ok()?.parse::<u64>().ok();
        // The cheapest and most selective checks come first: each look-up scans all lines.
        !matches!(response.status(), 0..200 | 204 | 206 | 304)
            && length().is_none_or(|length| length >= self.min_length)
            && response.get("content-type").is_some_and(|value| self.has_type(value))
            && Self::leaves_free(response)
    }

    /// Whether no field of the response forbids a change of its bytes.
    fn leaves_free(response: &Response<'_>) -> bool {
        !response.has_any(&BODY_DEPENDENT_FIELDS) && !forbids_transform(response.all("cache-control"))
    }

    fn has_type(&self, value: &[u8]) -> bool {
        let name = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        let is = |part: Option<&[u8]>, own: &str| {
            part.is_some_and(|part| part.eq_ignore_ascii_case(own.as_bytes()))
        };
        self.types.iter().any(|own| match (own.strip_suffix('*'), own.strip_prefix('*')) {
            (Some(begin), _) => is(name.get(..begin.len()), begin),
            (None, Some(end)) => is(name.len().checked_sub(end.len()).map(|at| &name[at..]), end),
            (None, None) => is(Some(name), own),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Context;
    use crate::testing::{Sent, fields_without_body};

    fn rules() -> CompressionRules {
        CompressionRules {
            encodings: vec![Encoding::Gzip],
            types: ["text/*", "application/json", "*+json"].map(str::to_owned).to_vec(),
            min_length: 100,
            levels: CompressionLevels::default(),
        }
    }

    fn compressed(status: u16, fields: &str) -> (bool, String) {
        let mut head = format!("HTTP/1.1 {status} X\r\n{fields}\r\n").into_bytes();
        let mut response = Response::new(&mut head, BodyKind::Transformable);
        let mut context = Context::default();
        let known = KnownTags::of(&Sent::new("").request(&mut context));
        rules().compress(Some(Encoding::Gzip), &known, &mut response);
        let transforms = response.into_transform(false).is_some();
        (transforms, String::from_utf8(head).expect("text"))
    }

    #[test]
    fn compressed_responses() {
        for fields in [
            "Content-Type: text/html; charset=utf-8\r\n",
            "content-type: Application/JSON\r\nContent-Length: 100\r\n",
            "Content-Type: application/problem+json\r\n",
        ] {
            let (transforms, head) = compressed(200, fields);
            assert!(transforms && head.contains("\r\nContent-Encoding: gzip\r\n"), "{head}");
            assert!(head.contains("Vary: Accept-Encoding\r\n") && !head.contains("Content-Length"), "{head}");
        }
        assert!(compressed(404, "Content-Type: text/plain\r\n").0);
    }

    #[test]
    fn uncompressed_responses() {
        for (status, fields) in [
            (200, ""),
            (200, "Content-Type: image/png\r\n"),
            (200, "Content-Type: text/plain\r\nContent-Length: 99\r\n"),
            (200, "Content-Type: text/plain\r\nContent-Encoding: br\r\n"),
            (200, "Content-Type: text/plain\r\nCache-Control: public, No-Transform\r\n"),
            (200, "Content-Type: text/plain\r\nRepr-Digest: sha-256=:AA==:\r\n"),
            (206, "Content-Type: text/plain\r\nContent-Range: bytes 0-1/2\r\n"),
            (304, "Content-Type: image/png\r\nETag: \"a\"\r\n"),
            (304, "Content-Encoding: br\r\nETag: \"a\"\r\n"),
            (304, "Cache-Control: no-transform\r\nETag: \"a\"\r\n"),
        ] {
            let (transforms, head) = compressed(status, fields);
            assert!(!transforms && head == format!("HTTP/1.1 {status} X\r\n{fields}\r\n"), "{head}");
        }
    }

    /// Returns the context after the policy has seen a request. `accepts` is the value of `Accept-Encoding`,
    /// optionally followed by further lines.
    fn asked(line: &str, accepts: &str) -> Context {
        let mut sent = Sent::with(line, &format!("Accept-Encoding: {accepts}"));
        let mut context = Context::default();
        let policy = Arc::new(rules()).activate("gateway/compression", &Arc::default());
        policy.request(&mut sent.request(&mut context));
        context
    }

    #[test]
    fn a_client_that_forbids_it_gets_it_as_it_is() {
        for (fields, becomes) in [("", true), ("Cache-Control: max-age=0, No-Transform\r\n", false)] {
            let mut context = asked("GET / HTTP/1.1", &format!("gzip\r\n{fields}"));
            let mut head = b"HTTP/1.1 200 OK\r\nContent-Type: text/css\r\n\r\n".to_vec();
            assert_eq!(
                context.respond(&mut head, BodyKind::Transformable, false).is_some(),
                becomes,
                "{fields}"
            );
            let head = String::from_utf8(head).expect("text");
            assert!(head.contains("Vary: ") && head.contains("Content-Encoding") == becomes, "{head}");
        }
    }

    #[test]
    fn a_tag_becomes_weak() {
        for (tag, becomes) in [("\"a\"", "W/\"a\""), ("W/\"a\"", "W/\"a\"")] {
            let (_, head) = compressed(200, &format!("Content-Type: text/css\r\nETag: {tag}\r\n"));
            assert!(head.contains(&format!("\r\nETag: {becomes}\r\n")), "{head}");
        }
    }

    /// Returns the fields of a response head without a body, after the policy has processed it.
    fn changed_fields(line: &str, accepts: &str, status: u16, fields: &str) -> String {
        fields_without_body(asked(line, &format!("{accepts}\r\n")), line, status, fields)
    }

    const STRONG: &str = "ETag: \"a\"\r\n";
    const WEAK: &str = "ETag: W/\"a\"\r\n";
    const VARY: &str = "Vary: Accept-Encoding\r\n";

    #[test]
    fn a_304_has_the_fields_of_its_200() {
        let get = "GET / HTTP/1.1";
        for (line, accepts, fields, becomes) in [
            (get, "gzip", STRONG, format!("{VARY}{WEAK}")),
            (get, "gzip", WEAK, format!("{WEAK}{VARY}")),
            (get, "gzip", "", VARY.to_owned()),
            (get, "gzip", &format!("{VARY}{STRONG}"), format!("{VARY}{WEAK}")),
            (get, "gzip", &format!("Vary: *\r\n{STRONG}"), format!("Vary: *\r\n{WEAK}")),
            (
                get,
                "gzip",
                &format!("Content-Type: text/css\r\nContent-Length: 0\r\n{STRONG}"),
                format!("Content-Type: text/css\r\n{VARY}{WEAK}"),
            ),
            // The client holds the representation as the endpoint sent it.
            (get, "br", STRONG, format!("{STRONG}{VARY}")),
            ("GET / HTTP/1.0", "gzip", STRONG, format!("{STRONG}{VARY}")),
            ("HEAD / HTTP/1.1", "gzip", STRONG, format!("{VARY}{WEAK}")),
            // The client states which of the two representations it holds.
            (get, "gzip\r\nIf-None-Match: \"b\", \"a\"", STRONG, format!("{STRONG}{VARY}")),
            (get, "gzip\r\nIf-None-Match: W/\"a\"", STRONG, format!("{VARY}{WEAK}")),
        ] {
            assert_eq!(changed_fields(line, accepts, 304, fields), becomes, "{line}, {accepts}: {fields}");
        }
    }

    #[test]
    fn an_answer_to_head_has_the_tag_of_what_a_get_gets_and_no_other_length() {
        let text = format!("Content-Type: text/css\r\nContent-Length: 100\r\n{STRONG}");
        let short = text.replace("100", "99");
        for (line, accepts, fields, becomes) in [
            ("HEAD / HTTP/1.1", "gzip", &text, format!("Content-Type: text/css\r\n{VARY}{WEAK}")),
            ("HEAD / HTTP/1.1", "br", &text, format!("{text}{VARY}")),
            ("HEAD / HTTP/1.0", "gzip", &text, format!("{text}{VARY}")),
            ("HEAD / HTTP/1.1", "gzip", &short, short.clone()),
            // A response of the gateway itself, whose body does not change.
            ("GET / HTTP/1.1", "gzip", &text, format!("{text}{VARY}")),
        ] {
            assert_eq!(changed_fields(line, accepts, 200, fields), becomes, "{line}, {accepts}: {fields}");
        }
    }

    #[test]
    fn only_compressed_bodies_are_transformed() {
        for (line, accepts, leaves) in [
            ("GET / HTTP/1.1", "gzip", false),
            ("GET / HTTP/1.1", "br", true),
            ("GET / HTTP/1.0", "gzip", true),
            ("HEAD / HTTP/1.1", "gzip", true),
        ] {
            let context = asked(line, &format!("{accepts}\r\n"));
            assert_eq!(context.leaves_bodies(), leaves, "{line}, {accepts}");
        }
    }
}
