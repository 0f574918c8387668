//! Rewrites path and query of a request before it goes upstream.

use tollgate_observe::Reason;
use tollgate_plan::{PathRewrite, Route};

use crate::state::request_path::normal_path;
use crate::state::request_state::RequestState;

/// Rewrites the path as the route demands, into `state.rewritten`, and sets its query parameters.
///
/// # Errors
/// If the captured groups result in a path that would be refused in a request.
pub(crate) fn rewrite(route: &Route, state: &mut RequestState) -> Result<(), Reason> {
    let Some(rewrite) = &route.rewrite.path else { return Ok(()) };
    let RequestState { request, path, rewritten, record, .. } = state;
    let path = normal_path(request, path);
    // `OPTIONS *` addresses the server as a whole (RFC 9110, 9.3.7): no path can replace it.
    if path == b"*" {
        return Ok(());
    }
    rewrite.apply(path, rewritten).map_err(|error| {
        record.remarks().detail = Some(error.as_str().into());
        Reason::BadPath
    })?;
    if let PathRewrite::Query(rewrite) = rewrite {
        let query = rewrite.query(path, request.query.map_or(b"", |query| request.slice(query)));
        request.set_query(Some(&query));
    }
    Ok(())
}
