//! `compression`: bodies of responses become smaller for clients that say they take it (RFC 9110, 8.4 and 12.5.3).

mod encoder;
mod negotiate;

use std::sync::{Arc, LazyLock};

use tollgate_http::LineNames;

use self::encoder::Encoder;
pub use self::encoder::Encoding;
use self::negotiate::negotiate;
pub(crate) use self::negotiate::{accepts, forbids_transform};
use crate::{BodyKind, Planned, Policy, Request, Response, Shared, Verdict};

/// Which responses become smaller, and how.
#[derive(Clone, Debug)]
pub struct CompressionRules {
    /// Encodings, the one that is liked best first.
    pub encodings: Vec<Encoding>,
    /// Content types, in lower case: `text/html`, `text/*`, `*+json`.
    pub types: Vec<String>,
    /// Bodies that are known to be shorter stay as they are, in bytes.
    pub min_length: u64,
}

impl Planned for CompressionRules {
    fn kind(&self) -> &'static str {
        "compression"
    }

    fn summary(&self) -> String {
        let names: Vec<_> = self.encodings.iter().map(|encoding| encoding.as_str()).collect();
        names.join(", ")
    }

    fn live(self: Arc<Self>, _: &str, _: &Arc<Shared>) -> Arc<dyn Policy> {
        Arc::new(Compression(self))
    }
}

/// What says something of the bytes as they are: a digest is one of them (RFC 9530).
static BOUND: LazyLock<LineNames> = LazyLock::new(|| {
    LineNames::new([
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
            .filter(|_| !forbids_transform(request.head.head.all_by_text(b"cache-control")));
        let rules = self.0.clone();
        if encoding.is_some() {
            request.context.on_response(move |response| rules.compress(encoding, response));
        } else {
            // Caches are told all the same.
            request.context.on_head(move |response| rules.compress(None, response));
        }
        Verdict::Continue
    }
}

impl CompressionRules {
    fn compress(&self, encoding: Option<Encoding>, response: &mut Response<'_>) {
        if !self.takes(response) {
            return;
        }
        // Also where this client takes none: a cache must not give the plain one to all, nor the other way round.
        response.vary("Accept-Encoding");
        let Some(encoder) = encoding.filter(|_| response.body == BodyKind::Free).and_then(Encoder::new)
        else {
            return;
        };
        response.set("Content-Encoding", encoder.encoding().as_str().as_bytes());
        response.remove("Accept-Ranges");
        // Other bytes than those that the tag stands for, with the same meaning (RFC 9110, 8.8.1).
        let strong = response.get("etag").filter(|tag| tag.starts_with(b"\""));
        if let Some(weak) = strong.map(|tag| [b"W/", tag].concat()) {
            response.set("ETag", &weak);
        }
        response.transform(Box::new(encoder));
    }

    /// Whether it is one that may become smaller.
    fn takes(&self, response: &Response<'_>) -> bool {
        let length = || std::str::from_utf8(response.get("content-length")?).ok()?.parse::<u64>().ok();
        // What rules most of them out comes first: each question is a look at all lines.
        !matches!(response.status(), 0..200 | 204 | 206 | 304)
            && length().is_none_or(|length| length >= self.min_length)
            && response.get("content-type").is_some_and(|value| self.has_type(value))
            && !response.has_any(&BOUND)
            && !forbids_transform(response.all("cache-control"))
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
    use crate::testing::Sent;

    fn rules() -> CompressionRules {
        CompressionRules {
            encodings: vec![Encoding::Gzip],
            types: ["text/*", "application/json", "*+json"].map(str::to_owned).to_vec(),
            min_length: 100,
        }
    }

    fn compressed(status: u16, fields: &str) -> (bool, String) {
        let mut head = format!("HTTP/1.1 {status} X\r\n{fields}\r\n").into_bytes();
        let mut response = Response::new(&mut head, BodyKind::Free);
        rules().compress(Some(Encoding::Gzip), &mut response);
        let transforms = response.into_transform(false).is_some();
        (transforms, String::from_utf8(head).expect("text"))
    }

    #[test]
    fn what_is_compressed() {
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
    fn what_stays_as_it_is() {
        for (status, fields) in [
            (200, ""),
            (200, "Content-Type: image/png\r\n"),
            (200, "Content-Type: text/plain\r\nContent-Length: 99\r\n"),
            (200, "Content-Type: text/plain\r\nContent-Encoding: br\r\n"),
            (200, "Content-Type: text/plain\r\nCache-Control: public, No-Transform\r\n"),
            (200, "Content-Type: text/plain\r\nRepr-Digest: sha-256=:AA==:\r\n"),
            (206, "Content-Type: text/plain\r\nContent-Range: bytes 0-1/2\r\n"),
            (304, "Content-Type: text/plain\r\n"),
        ] {
            let (transforms, head) = compressed(status, fields);
            assert!(!transforms && head == format!("HTTP/1.1 {status} X\r\n{fields}\r\n"), "{head}");
        }
    }

    #[test]
    fn a_client_that_forbids_it_gets_it_as_it_is() {
        for (fields, becomes) in [("", true), ("Cache-Control: max-age=0, No-Transform\r\n", false)] {
            let mut sent = Sent::new(&format!("Accept-Encoding: gzip\r\n{fields}"));
            let mut context = Context::default();
            let policy = Arc::new(rules()).live("gateway/compression", &Arc::default());
            policy.request(&mut sent.request(&mut context));
            let mut head = b"HTTP/1.1 200 OK\r\nContent-Type: text/css\r\n\r\n".to_vec();
            assert_eq!(context.respond(&mut head, BodyKind::Free, false).is_some(), becomes, "{fields}");
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
}
