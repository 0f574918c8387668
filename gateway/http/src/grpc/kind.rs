//! Recognises gRPC requests by their content type. The proxy decides by the [`GrpcKind`] whether a stream is
//! a gRPC call, and whether it translates gRPC-Web.

/// The kind of a gRPC request, by its `content-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrpcKind {
    /// `application/grpc`, with or without a format such as `+proto`.
    Native,
    /// `application/grpc-web`: the trailers are the last part of the body.
    Web,
    /// `application/grpc-web-text`: the same in base64.
    WebText,
}

impl GrpcKind {
    /// The kind that a content type denotes; `None` if it is not gRPC.
    #[must_use]
    pub fn of(content_type: &[u8]) -> Option<Self> {
        split(content_type).map(|(kind, _)| kind)
    }

    /// The start of the content type.
    const fn prefix(self) -> &'static [u8] {
        match self {
            Self::Native => b"application/grpc",
            Self::Web => b"application/grpc-web",
            Self::WebText => b"application/grpc-web-text",
        }
    }

    /// Translates a gRPC content type to this kind, with the same format; `None` if it is not gRPC.
    #[must_use]
    pub fn translated(self, content_type: &[u8]) -> Option<Vec<u8>> {
        let (_, format) = split(content_type)?;
        Some([self.prefix(), format].concat())
    }
}

/// The kind, and the remainder of the content type: a format or a parameter, if any.
fn split(content_type: &[u8]) -> Option<(GrpcKind, &[u8])> {
    // The longest first, because each is a prefix of the one before it.
    [GrpcKind::WebText, GrpcKind::Web, GrpcKind::Native].into_iter().find_map(|kind| {
        let (prefix, rest) = content_type.split_at_checked(kind.prefix().len())?;
        let ends = matches!(rest.first(), None | Some(b'+' | b';' | b' ' | b'\t'));
        (prefix.eq_ignore_ascii_case(kind.prefix()) && ends).then_some((kind, rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_by_content_type() {
        for (text, kind) in [
            ("application/grpc", Some(GrpcKind::Native)),
            ("application/grpc+proto", Some(GrpcKind::Native)),
            ("Application/gRPC; charset=utf-8", Some(GrpcKind::Native)),
            ("application/grpc-web", Some(GrpcKind::Web)),
            ("application/grpc-web+json", Some(GrpcKind::Web)),
            ("application/grpc-web-text+proto", Some(GrpcKind::WebText)),
            ("application/grpc-web-text", Some(GrpcKind::WebText)),
            ("application/grpcx", None),
            ("application/grpc-webx", None),
            ("application/grp", None),
            ("application/json", None),
            ("", None),
        ] {
            assert_eq!(GrpcKind::of(text.as_bytes()), kind, "{text}");
        }
    }

    #[test]
    fn the_format_is_kept() {
        let native = |text: &str| GrpcKind::Native.translated(text.as_bytes());
        assert_eq!(
            native("application/grpc-web-text+proto").as_deref(),
            Some(&b"application/grpc+proto"[..])
        );
        assert_eq!(native("application/grpc-web").as_deref(), Some(&b"application/grpc"[..]));
        assert_eq!(native("text/html"), None);
        let text = GrpcKind::WebText.translated(b"application/grpc+json");
        assert_eq!(text.as_deref(), Some(&b"application/grpc-web-text+json"[..]));
    }
}
