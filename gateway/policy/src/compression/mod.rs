//! `compression`: compresses response bodies for clients that accept an encoding (RFC 9110, 8.4 and 12.5.3).
//!
//! The policy installs an [`Encoder`] as the transform of a response. It also changes 304s and responses to
//! HEAD, so that their tags match the compressed body and caches stay consistent. A hit of the policy `cache` is compressed
//! once: the [form](FormEncoder) that this makes of the stored body answers later hits.

mod config;
mod encoder;
mod negotiate;

use std::sync::{Arc, LazyLock};

use tollgate_http::{ContentCoding, FieldFinder, Method, Version};

pub use self::encoder::CompressionLevels;
use self::encoder::{Encoder, FormEncoder};
use self::negotiate::negotiate;
pub(crate) use self::negotiate::{accepts, forbids_transform};
use crate::context::Encode;
use crate::known_tags::KnownTags;
use crate::{BodyKind, HeadEdit, Planned, Policy, PolicyStates, Request, Response, Verdict};

pub(crate) use config::CompressionSettings;

/// Selects the responses to compress, and the encodings.
#[derive(Clone, Debug)]
pub struct CompressionRules {
    /// The encodings, the preferred one first.
    pub encodings: Vec<ContentCoding>,
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
        let names: Vec<_> = self.encodings.iter().map(|encoding| encoding.name()).collect();
        names.join(", ")
    }

    fn activate(self: Arc<Self>, _: &str, _: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        Arc::new(Compression::new(self))
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
struct Compression {
    rules: Arc<CompressionRules>,
    /// The changes of responses to clients that accept none of the encodings.
    plain: Arc<PlainResponses>,
    /// The changes of responses in each encoding, in the order of [`ContentCoding::ALL`]. All requests share them, so that a
    /// request allocates nothing.
    encoded: [Arc<EncodedResponses>; ContentCoding::ALL.len()],
}

impl Compression {
    fn new(rules: Arc<CompressionRules>) -> Self {
        let encoded =
            ContentCoding::ALL.map(|encoding| Arc::new(EncodedResponses { rules: rules.clone(), encoding }));
        Self { plain: Arc::new(PlainResponses(rules.clone())), encoded, rules }
    }
}

/// Changes responses to clients that accept no encoding and have no entity tags.
#[derive(Debug)]
struct PlainResponses(Arc<CompressionRules>);

impl HeadEdit for PlainResponses {
    fn edit(&self, response: &mut Response<'_>) {
        self.0.compress(None, &KnownTags::default(), response);
    }
}

/// Changes responses to clients that get this encoding and have no entity tags.
#[derive(Debug)]
struct EncodedResponses {
    rules: Arc<CompressionRules>,
    encoding: ContentCoding,
}

impl Encode for EncodedResponses {
    fn coding(&self) -> ContentCoding {
        self.encoding
    }

    fn encode(&self, response: &mut Response<'_>) {
        self.rules.compress(Some(self.encoding), &KnownTags::default(), response);
    }
}

/// The same, for responses that have no body.
impl HeadEdit for EncodedResponses {
    fn edit(&self, response: &mut Response<'_>) {
        self.encode(response);
    }
}

impl Policy for Compression {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        let lines = request.head.head.all_by_text(b"accept-encoding");
        let accepted = lines.flat_map(|line| line.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
        let encoding = negotiate(accepted, &self.rules.encodings)
            .filter(|_| !forbids_transform(request.head.head.all_by_text(b"cache-control")))
            // An HTTP/1.0 client needs the length in advance.
            .filter(|_| request.head.version != Version::Http10);
        let has_body = request.head.method != Method::Head;
        let context = &mut *request.context;
        // If the body stays as it is, caches need the fields all the same.
        if request.head.head.get_by_text(b"if-none-match").is_none() {
            match encoding.map(|encoding| self.encoded[encoding as usize].clone()) {
                Some(encoded) if has_body => context.encode(encoded),
                Some(encoded) => context.edit(encoded),
                None => context.edit(self.plain.clone()),
            }
            return Verdict::Continue;
        }
        let (known, rules) = (KnownTags::of(request), self.rules.clone());
        let context = &mut *request.context;
        match encoding {
            Some(_) if has_body => {
                context.on_response(move |response| rules.compress(encoding, &known, response));
            }
            _ => context.on_head(move |response| rules.compress(encoding, &known, response)),
        }
        Verdict::Continue
    }
}

impl CompressionRules {
    /// Compresses a response if the rules allow it. `encoding`: the encoding negotiated with the client.
    fn compress(&self, encoding: Option<ContentCoding>, known: &KnownTags, response: &mut Response<'_>) {
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
            if let Some(encoding) = encoding.filter(|_| !has_plain()) {
                response.remove("Accept-Ranges");
                // The length of another representation must not be sent (RFC 9110, 8.6).
                if is_unmodified || !response.use_form(encoding) {
                    response.remove_length();
                }
                response.weaken_tag();
            }
            return;
        }
        let Some(encoding) = encoding else { return };
        if !response.use_form(encoding) {
            let is_transformable = response.body == BodyKind::Transformable;
            let Some(encoder) = is_transformable.then(|| Encoder::new(encoding, self.levels)).flatten()
            else {
                return;
            };
            match response.begin_form(encoding) {
                Some(fill) => response.transform(Box::new(FormEncoder::new(encoder, fill))),
                None => response.transform(Box::new(encoder)),
            }
        }
        response.set("Content-Encoding", encoding.name().as_bytes());
        response.remove("Accept-Ranges");
        response.weaken_tag();
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
    use tollgate_cache::{Admission, Moment, Received, RequestControl, Store, StoreSettings, Stored, admit};
    use tollgate_http::h1::{Progress, ResponseParser};
    use tollgate_http::{HeadLimits, ResponseHead};

    use super::*;
    use crate::testing::{Sent, fields_without_body};
    use crate::{Context, StoredBody};

    fn rules() -> CompressionRules {
        CompressionRules {
            encodings: vec![ContentCoding::Gzip],
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
        rules().compress(Some(ContentCoding::Gzip), &known, &mut response);
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

    /// Stores a response with this body.
    fn stored(store: &Arc<Store>, body: &[u8]) -> Arc<Stored> {
        let text = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Type: text/css\r\n\r\n";
        let (mut response, limits) =
            (ResponseHead::default(), HeadLimits { line: 1024, head: 4096, fields: 32 });
        let parsed = ResponseParser::default().advance(text, Method::Get, &mut response, &limits);
        assert_eq!(parsed, Ok(Progress::Complete(text.len())));
        let now = Moment::from_seconds(1_000_000_000);
        let times = Received { requested: now, received: now };
        let (request, control) = (Sent::new("").head, RequestControl::default());
        let head = admit(&request, &control, &response, &Admission::default(), times).expect("storable");
        let mut fill = store.begin_alone(b"key");
        assert!(fill.start(head, None));
        fill.push(body);
        fill.finish().expect("stored")
    }

    /// Returns the changed head of a stored response, the transform of its body, and the form that takes its place.
    fn respond_stored(
        mut context: Context,
        store: &Arc<Store>,
        stored: &Arc<Stored>,
        body: BodyKind,
    ) -> (String, Option<Box<dyn crate::Transform>>, Option<ContentCoding>) {
        let mut head =
            b"HTTP/1.1 200 OK\r\nContent-Type: text/css\r\nETag: \"a\"\r\nAccept-Ranges: bytes\r\n\
            Content-Length: 5000\r\n\r\n"
                .to_vec();
        let source = Some(StoredBody { store, stored });
        let (transform, form) = context.respond_stored(&mut head, body, false, source);
        (String::from_utf8(head).expect("text"), transform, form)
    }

    #[test]
    fn a_stored_body_is_compressed_once() {
        let store = Store::new(StoreSettings::default());
        let body = b"text ".repeat(1000);
        let stored = stored(&store, &body);
        let asks = || asked("GET / HTTP/1.1", "gzip\r\n");
        assert_eq!(asks().only_coding(), Some(ContentCoding::Gzip));
        let (head, transform, form) = respond_stored(asks(), &store, &stored, BodyKind::Transformable);
        assert!(form.is_none() && !head.contains("Content-Length"), "{head}");
        let (mut transform, mut out) = (transform.expect("an encoder"), Vec::new());
        body.chunks(7).for_each(|piece| transform.push(piece, &mut out).expect("memory"));
        assert!(stored.form(ContentCoding::Gzip).is_none(), "not before the end");
        transform.finish(&mut out).expect("memory");
        assert_eq!(stored.form(ContentCoding::Gzip).map(|form| form.to_vec()), Some(out.clone()));
        // Even if the body must not change on its way.
        for kind in [BodyKind::Transformable, BodyKind::Fixed] {
            let (head, transform, form) = respond_stored(asks(), &store, &stored, kind);
            let fields = format!(
                "Content-Type: text/css\r\nVary: Accept-Encoding\r\nContent-Length: {}\r\nContent-Encoding: gzip\r\nETag: W/\"a\"\r\n",
                out.len()
            );
            assert_eq!(head, format!("HTTP/1.1 200 OK\r\n{fields}\r\n"));
            assert!(transform.is_none() && form == Some(ContentCoding::Gzip), "{kind:?}");
        }
        // A response to HEAD has the length.
        let head_only = asked("HEAD / HTTP/1.1", "gzip\r\n");
        assert_eq!(head_only.only_coding(), None);
        let (head, _, form) = respond_stored(head_only, &store, &stored, BodyKind::Absent);
        assert!(form.is_none() && head.contains(&format!("Content-Length: {}\r\n", out.len())), "{head}");
    }

    #[test]
    fn a_body_that_is_changed_before_has_no_form() {
        struct Upper;
        impl crate::Transform for Upper {
            fn push(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), tollgate_observe::Reason> {
                out.extend_from_slice(&data.to_ascii_uppercase());
                Ok(())
            }

            fn finish(&mut self, _: &mut Vec<u8>) -> Result<(), tollgate_observe::Reason> {
                Ok(())
            }
        }
        let store = Store::new(StoreSettings::default());
        let stored = stored(&store, &b"text ".repeat(1000));
        let mut fill = store.begin_form(&stored, ContentCoding::Gzip).expect("none yet");
        fill.push(b"form");
        fill.finish();
        let mut context = asked("GET / HTTP/1.1", "gzip\r\n");
        // A later policy acts on the response first.
        context.on_response(|response| response.transform(Box::new(Upper)));
        assert_eq!(context.only_coding(), None);
        let (head, transform, form) = respond_stored(context, &store, &stored, BodyKind::Transformable);
        assert!(form.is_none() && transform.is_some() && !head.contains("Content-Length"), "{head}");
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
