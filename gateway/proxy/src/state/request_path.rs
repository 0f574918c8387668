//! The path of a request in its forms, and the view of a request that the router gets.
//!
//! Routing, policies and the choice of an endpoint use the [normal path](normal_path); an endpoint gets the
//! [upstream path](upstream_path).

use tollgate_http::RequestHead;
use tollgate_route::Request;

use crate::state::request_state::RequestState;

/// Returns the normal path: `changed`, or the request's own path if that is empty.
pub(crate) fn normal_path<'a>(request: &'a RequestHead, changed: &'a [u8]) -> &'a [u8] {
    if changed.is_empty() { request.slice(request.path) } else { changed }
}

/// Returns the path that goes upstream, without its query.
#[inline]
pub(crate) fn upstream_path(state: &RequestState) -> &[u8] {
    let RequestState { request, path, rewritten, .. } = state;
    if rewritten.is_empty() { normal_path(request, path) } else { rewritten }
}

/// The view of a request that the router gets.
pub(crate) struct Routed<'a> {
    pub request: &'a RequestHead,
    pub path: &'a [u8],
}

impl Request for Routed<'_> {
    fn method(&self) -> &[u8] {
        self.request.slice(self.request.method_text)
    }

    fn host(&self) -> &[u8] {
        self.request.slice(self.request.host)
    }

    fn path(&self) -> &[u8] {
        self.path
    }

    fn query(&self) -> Option<&[u8]> {
        self.request.query.map(|query| self.request.slice(query))
    }

    fn header(&self, lower_case_name: &str) -> Option<&[u8]> {
        self.request.head.get_by_text(lower_case_name.as_bytes())
    }
}
