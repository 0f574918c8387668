//! `decompression`: decodes request bodies before they go upstream, and response bodies for clients that do
//! not accept their coding.
//!
//! The policy installs a [`Decoder`] as a transform of the request or of the response, each within its
//! [`DecodeLimits`].

mod config;
mod decoder;

use std::sync::{Arc, LazyLock};

use tollgate_http::{FieldFinder, Version};
use tollgate_observe::Reason;

use self::decoder::Decoder;
pub use self::decoder::{Coding, DecodeLimits};
use crate::compression::{accepts, forbids_transform};
use crate::known_tags::KnownTags;
use crate::{BodyKind, Planned, Policy, PolicyStates, Request, Reserved, Response, Verdict};

pub(crate) use config::DecompressionSettings;

/// Selects the bodies to decode.
#[derive(Clone, Debug)]
pub struct DecompressionRules {
    /// The codings that are decoded.
    pub codings: Vec<Coding>,
    /// The limits for request bodies; `None`: request bodies are not decoded.
    pub requests: Option<DecodeLimits>,
    /// The limits for response bodies; `None`: response bodies are not decoded.
    pub responses: Option<DecodeLimits>,
}

impl Planned for DecompressionRules {
    fn kind(&self) -> &'static str {
        "decompression"
    }

    fn summary(&self) -> String {
        let names: Vec<_> = self.codings.iter().map(|coding| coding.as_str()).collect();
        let of = match (&self.requests, &self.responses) {
            (Some(_), Some(_)) => "requests and responses",
            (Some(_), None) => "requests",
            (None, _) => "responses",
        };
        format!("{} of {of}", names.join(", "))
    }

    fn activate(self: Arc<Self>, _: &str, _: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        let digests = Reserved::new(["Content-Digest", "Repr-Digest", "Digest", "Content-MD5"]);
        Arc::new(DecompressionState { rules: self, digests })
    }
}

/// Response fields that describe the encoded bytes. They are removed when a body is decoded.
static ENCODED_BODY_FIELDS: LazyLock<FieldFinder> = LazyLock::new(|| {
    FieldFinder::new([
        &b"content-encoding"[..],
        b"accept-ranges",
        b"content-digest",
        b"repr-digest",
        b"digest",
        b"content-md5",
    ])
});

#[derive(Debug)]
struct DecompressionState {
    rules: Arc<DecompressionRules>,
    /// Request fields that describe the encoded bytes.
    digests: Reserved,
}

impl Policy for DecompressionState {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        let kept = forbids_transform(request.head.head.all_by_text(b"cache-control"));
        if let Some(bounds) = self.rules.requests {
            let upgrades = request.head.upgrade.is_some() || request.head.extended;
            let values = request.head.head.all_by_text(b"content-encoding");
            let decoder = self.rules.coding(values).and_then(|coding| Decoder::new(coding, bounds));
            if let Some(decoder) = decoder.filter(|_| !kept && !upgrades && !request.head.length.is_empty()) {
                request.remove("Content-Encoding");
                request.remove_reserved(&self.digests);
                request.context.transform(Box::new(decoder));
            }
        }
        if let Some(bounds) = self.rules.responses {
            let lines = request.head.head.all_by_text(b"accept-encoding");
            let elements = lines.flat_map(|line| line.split(|byte| *byte == b','));
            let accepted: Vec<Vec<u8>> = match kept {
                // A client that forbids transformations is treated as accepting any coding.
                true => vec![b"*".to_vec()],
                false => elements.map(|element| element.trim_ascii().to_vec()).collect(),
            };
            let asked = AcceptedCodings {
                accepted,
                is_old: request.head.version == Version::Http10,
                known: KnownTags::of(request),
            };
            let rules = self.rules.clone();
            request.context.on_response(move |response| rules.decode(&asked, bounds, response));
        }
        Verdict::Continue
    }
}

/// The properties of a request on which the decoding of its response depends.
struct AcceptedCodings {
    /// The elements of `Accept-Encoding`.
    accepted: Vec<Vec<u8>>,
    /// Whether the client uses HTTP/1.0. It receives bodies unchanged.
    is_old: bool,
    known: KnownTags,
}

impl AcceptedCodings {
    fn accepts(&self, coding: Coding) -> bool {
        accepts(self.accepted.iter().map(Vec::as_slice), coding.as_str())
    }
}

impl DecompressionRules {
    /// Returns the coding of a body, if it is the only one and enabled.
    fn coding<'a>(&self, values: impl Iterator<Item = &'a [u8]>) -> Option<Coding> {
        let mut names = values.flat_map(|value| value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
        let coding = Coding::of(names.next()?)?;
        (names.next().is_none() && self.codings.contains(&coding)).then_some(coding)
    }

    fn decode(&self, asked: &AcceptedCodings, bounds: DecodeLimits, response: &mut Response<'_>) {
        let coding = self.coding(response.all("content-encoding"));
        // A 304 usually does not name the coding of its 200. It therefore counts as any coding, unless the
        // client's tags show otherwise.
        let is_unmodified = response.status() == 304;
        let may_be_any = is_unmodified && response.get("content-encoding").is_none();
        if coding.is_none() && !may_be_any
            || matches!(response.status(), 0..200 | 204 | 206)
            || response.get("content-range").is_some()
            || forbids_transform(response.all("cache-control"))
        {
            return;
        }
        // Added even if this client accepts the coding: a cache must not serve the encoded body to all
        // clients.
        response.vary("Accept-Encoding");
        let takes = match coding {
            Some(coding) => asked.accepts(coding),
            None => self.codings.iter().all(|coding| asked.accepts(*coding)),
        };
        if takes || asked.is_old {
            return;
        }
        match response.body {
            BodyKind::Fixed => {}
            BodyKind::Transformable => {
                let Some(decoder) = coding.and_then(|coding| Decoder::new(coding, bounds)) else { return };
                response.remove_all(&ENCODED_BODY_FIELDS);
                response.weaken_tag();
                response.transform(Box::new(decoder));
            }
            // The head describes the 200, or the response to GET (RFC 9110, 15.4.5 and 9.3.2).
            BodyKind::Absent => {
                let has_plain = || response.get("etag").is_some_and(|tag| asked.known.has_original(tag));
                if coding.is_none() && has_plain() {
                    return;
                }
                response.remove_all(&ENCODED_BODY_FIELDS);
                // The length of another representation must not be sent (RFC 9110, 8.6).
                response.remove_length();
                response.weaken_tag();
            }
        }
    }
}

impl DecodeLimits {
    /// Returns the limits for request bodies.
    #[must_use]
    pub const fn of_requests(most: u64, ratio: u64) -> Self {
        Self { max_bytes: most, ratio, too_large: Reason::BodyTooLarge, malformed: Reason::BadContentCoding }
    }

    /// Returns the limits for response bodies.
    #[must_use]
    pub const fn of_responses(most: u64, ratio: u64) -> Self {
        Self {
            max_bytes: most,
            ratio,
            too_large: Reason::ResponseBodyTooLarge,
            malformed: Reason::ResponseContentCoding,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::decoder::tests::encoded;
    use super::*;
    use crate::Context;
    use crate::testing::{Sent, fields_without_body};

    fn activate() -> Arc<dyn Policy> {
        let rules = DecompressionRules {
            codings: vec![Coding::Gzip, Coding::Brotli],
            requests: Some(DecodeLimits::of_requests(1000, 100)),
            responses: Some(DecodeLimits::of_responses(1000, 100)),
        };
        Arc::new(rules).activate("gateway/decompression", &Arc::default())
    }

    #[test]
    fn requests_that_are_decoded() {
        for (fields, decodes) in [
            ("Content-Encoding: gzip\r\nContent-Length: 5\r\n", true),
            ("Content-Encoding: X-GZIP\r\nTransfer-Encoding: chunked\r\n", true),
            ("Content-Encoding: gzip\r\n", false),
            ("Content-Encoding: zstd\r\nContent-Length: 5\r\n", false),
            ("Content-Encoding: gzip, br\r\nContent-Length: 5\r\n", false),
            ("Content-Encoding: gzip\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n", false),
            ("Content-Encoding: identity\r\nContent-Length: 5\r\n", false),
            ("Content-Length: 5\r\n", false),
            (
                "Content-Encoding: gzip\r\nCache-Control: max-age=0, No-Transform\r\nContent-Length: 5\r\n",
                false,
            ),
        ] {
            let mut context = Context::default();
            let fields = format!("{fields}Content_Digest: sha-256=:AA==:\r\n");
            let mut sent = Sent::with("POST / HTTP/1.1", &fields);
            let verdict = activate().request(&mut sent.request(&mut context));
            assert!(matches!(verdict, Verdict::Continue));
            assert_eq!(context.take_transform().is_some(), decodes, "{fields}");
            let has = |name: &str| sent.head.head.get_by_text(name.as_bytes()).is_some();
            assert_eq!((has("content-encoding") || has("content_digest"), has("content-encoding")), {
                (!decodes, !decodes && fields.contains("Content-Encoding"))
            });
        }
    }

    fn answered(accepts: &str, fields: &str) -> (String, Option<Vec<u8>>) {
        let mut context = Context::default();
        let mut sent = Sent::new(accepts);
        activate().request(&mut sent.request(&mut context));
        let mut head = format!("HTTP/1.1 200 OK\r\n{fields}\r\n").into_bytes();
        let body = context.respond(&mut head, BodyKind::Transformable, false).map(|mut transform| {
            let mut out = Vec::new();
            transform.push(&encoded(Coding::Gzip, b"hello"), &mut out).expect("it is good");
            transform.finish(&mut out).expect("it has ended");
            out
        });
        (String::from_utf8(head).expect("text"), body)
    }

    #[test]
    fn responses_that_are_decoded() {
        let coded = "Content-Encoding: gzip\r\nContent-Length: 9\r\nETag: \"a\"\r\nAccept-Ranges: bytes\r\n";
        for accepts in [
            "",
            "Accept-Encoding: br\r\n",
            "Accept-Encoding: gzip;q=0, *\r\n",
            "Accept-Encoding: identity\r\n",
        ] {
            let (head, body) = answered(accepts, coded);
            assert_eq!(
                head, "HTTP/1.1 200 OK\r\nVary: Accept-Encoding\r\nETag: W/\"a\"\r\n\r\n",
                "{accepts}"
            );
            assert_eq!(body.as_deref(), Some(&b"hello"[..]));
        }
        for accepts in [
            "Accept-Encoding: gzip\r\n",
            "Accept-Encoding: br, GZIP;q=0.1\r\n",
            "Accept-Encoding: *\r\n",
            "Cache-Control: no-transform\r\n",
        ] {
            let (head, body) = answered(accepts, coded);
            assert!(
                body.is_none() && head.contains("Content-Encoding: gzip\r\n") && head.contains("Vary: "),
                "{head}"
            );
        }
        for fields in [
            "Content-Encoding: zstd\r\n",
            "Content-Encoding: gzip\r\nCache-Control: no-transform\r\n",
            "Content-Encoding: gzip\r\nContent-Range: bytes 0-1/2\r\n",
            "Content-Length: 5\r\n",
        ] {
            assert_eq!(answered("", fields), (format!("HTTP/1.1 200 OK\r\n{fields}\r\n"), None));
        }
    }

    /// Returns the fields of a response head without a body, after the policy has processed it.
    fn changed_fields(line: &str, accepts: &str, status: u16, fields: &str) -> String {
        let mut context = Context::default();
        let mut sent = Sent::with(line, accepts);
        activate().request(&mut sent.request(&mut context));
        fields_without_body(context, line, status, fields)
    }

    const VARY: &str = "Vary: Accept-Encoding\r\n";

    #[test]
    fn a_304_and_a_head_response_have_the_fields_of_a_200() {
        let (strong, weak) = ("ETag: \"a\"\r\n", "ETag: W/\"a\"\r\n");
        let (get, head) = ("GET / HTTP/1.1", "HEAD / HTTP/1.1");
        let coded = format!("Content-Encoding: gzip\r\n{strong}");
        for (line, accepts, status, fields, becomes) in [
            (get, "", 304, strong, format!("{VARY}{weak}")),
            (get, "Accept-Encoding: gzip\r\n", 304, strong, format!("{VARY}{weak}")),
            (get, "Accept-Encoding: gzip, br\r\n", 304, strong, format!("{strong}{VARY}")),
            (get, "Cache-Control: no-transform\r\n", 304, strong, format!("{strong}{VARY}")),
            ("GET / HTTP/1.0", "", 304, strong, format!("{strong}{VARY}")),
            (get, "If-None-Match: \"a\"\r\n", 304, strong, format!("{strong}{VARY}")),
            (get, "If-None-Match: W/\"a\"\r\n", 304, strong, format!("{VARY}{weak}")),
            (get, "If-None-Match: \"a\"\r\n", 304, &coded, format!("{VARY}{weak}")),
            (get, "Accept-Encoding: gzip\r\n", 304, &coded, format!("{coded}{VARY}")),
            (get, "", 304, "Content-Encoding: zstd\r\n", "Content-Encoding: zstd\r\n".to_owned()),
            (get, "", 304, "Cache-Control: no-transform\r\n", "Cache-Control: no-transform\r\n".to_owned()),
            (head, "", 200, &format!("Content-Length: 9\r\n{coded}"), format!("{VARY}{weak}")),
            (head, "Accept-Encoding: gzip\r\n", 200, &coded, format!("{coded}{VARY}")),
            (head, "", 200, strong, strong.to_owned()),
            // A response of the gateway itself, whose body does not change.
            (get, "", 200, &coded, format!("{coded}{VARY}")),
        ] {
            assert_eq!(
                changed_fields(line, accepts, status, fields),
                becomes,
                "{line}, {accepts}: {status} {fields}"
            );
        }
    }
}
