//! The request's body, for services that say whether it may go on.

use crate::{Request, Verdict};

/// The field that tells a service whether it got only the beginning of a body, as Envoy does.
pub(crate) const PARTIAL: &str = "x-envoy-auth-partial-body";

/// How much of a request's body a service gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthBody {
    /// Bytes of the body.
    pub max: usize,
    /// Whether the service gets the beginning of a larger body; else the request is refused (413).
    pub partial: bool,
    /// Whether `ext_authz` has it in `raw_body` even if it is text.
    pub as_bytes: bool,
}

impl AuthBody {
    /// Has the body read, and does this with it and with whether there is more of it. The body goes upstream all the same.
    pub(crate) fn read(
        self,
        request: &mut Request<'_>,
        then: impl FnOnce((&[u8], bool), &mut Request<'_>) -> Verdict + 'static,
    ) -> Verdict {
        if request.head.length.is_empty() {
            return then((b"", false), request);
        }
        let Self { max, partial, .. } = self;
        if !partial {
            return Verdict::Body(max, Box::new(move |body, request| then((body, false), request)));
        }
        Verdict::Begin(max, Box::new(move |body, whole, request| then((body, !whole), request)))
    }
}
