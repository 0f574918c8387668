//! Lets the policies of a request change the head of its final response.
//!
//! The exchange calls this for an endpoint's response, and `respond` for a response of the gateway itself.

use tollgate_http::{Method, RequestHead, Version};
use tollgate_policy::{BodyKind, Context, Transform};

/// The author of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Author {
    Gateway,
    Endpoint,
    /// The gateway, from a file.
    File,
}

/// Lets the policies of a request change the head of its final response. `slot` receives a transform of the
/// body, if a policy has one; `None`: the body stays as it is.
#[inline(never)]
pub(crate) fn apply(
    context: &mut Context,
    request: &RequestHead,
    status: u16,
    author: Author,
    head: &mut Vec<u8>,
    slot: Option<&mut Option<Box<dyn Transform>>>,
) {
    if !context.responds() {
        return;
    }
    // A client of HTTP/1.0 needs the length before the body, so its body cannot be transformed.
    let bodiless = request.method == Method::Head || matches!(status, 100..200 | 204 | 304);
    let body = match author {
        Author::Gateway => BodyKind::Fixed,
        _ if bodiless => BodyKind::Absent,
        _ if slot.is_none() || request.version == Version::Http10 => BodyKind::Fixed,
        Author::Endpoint | Author::File => BodyKind::Transformable,
    };
    let slot = slot.filter(|_| body == BodyKind::Transformable);
    let transform = context.respond(head, body, request.version == Version::Http11);
    if let Some(slot) = slot {
        *slot = transform;
    }
}
