//! Sends the request's body to authorization services.

mod keys;

use crate::{Request, Verdict};

pub(crate) use keys::{AuthBodyOrBytesSettings, AuthBodySettings, check_groups};

/// The field that tells a service whether it received only the start of a body; Envoy uses the same name.
pub(crate) const PARTIAL: &str = "x-envoy-auth-partial-body";

/// The part of a request's body that an authorization service receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthBody {
    /// The maximum number of bytes.
    pub max: usize,
    /// Whether the service receives the start of a larger body; otherwise the request is refused (413).
    pub partial: bool,
    /// Whether `ext_authz` sends the body in `raw_body` even if it is text.
    pub as_bytes: bool,
}

impl AuthBody {
    /// Reads the body and calls `then` with it; the flag says whether the body continues. The body is still
    /// sent upstream.
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
        Verdict::BodyStart(max, Box::new(move |body, whole, request| then((body, !whole), request)))
    }
}
