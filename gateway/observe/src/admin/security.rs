//! Header fields on every answer of the admin listener that restrict what browsers do with it.

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{HeaderValue, Response};

/// The policy of an answer that loads nothing.
const POLICY: &str = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Default fields, for answers that do not set them.
const FIELDS: [(HeaderName, &str); 6] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    // No page of another origin may embed an answer.
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    // Every answer describes one moment only.
    (CACHE_CONTROL, "no-store"),
];

/// Adds the missing fields.
pub(super) fn secured<B>(mut response: Response<B>) -> Response<B> {
    let headers = response.headers_mut();
    for (name, value) in FIELDS {
        if !headers.contains_key(&name) {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
    response
}
