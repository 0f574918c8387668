//! Lets the policies of a request change the head of its final response.
//!
//! The exchange calls [`apply`] for an endpoint's response, `respond` for a response of the gateway itself, and the cache
//! [`apply_stored`] for a stored response.

use tollgate_http::{ContentCoding, Method, RequestHead, Version};
use tollgate_policy::{BodyKind, Context, StoredBody, Transform};

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
    let stored = None;
    change(context, request, (status, author, stored), head, slot);
}

/// The same for a response from the store. `stored`: set if its whole body is sent as it is stored. Returns the coding of the
/// compressed form of the body that is sent in place of it.
pub(crate) fn apply_stored(
    context: &mut Context,
    request: &RequestHead,
    status: u16,
    stored: Option<StoredBody<'_>>,
    head: &mut Vec<u8>,
    slot: Option<&mut Option<Box<dyn Transform>>>,
) -> Option<ContentCoding> {
    change(context, request, (status, Author::Endpoint, stored), head, slot)
}

fn change(
    context: &mut Context,
    request: &RequestHead,
    (status, author, stored): (u16, Author, Option<StoredBody<'_>>),
    head: &mut Vec<u8>,
    slot: Option<&mut Option<Box<dyn Transform>>>,
) -> Option<ContentCoding> {
    if !context.responds() {
        return None;
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
    let (transform, form) = context.respond_stored(head, body, request.version == Version::Http11, stored);
    if let Some(slot) = slot {
        *slot = transform;
    }
    form
}
