//! Handles the head of a response to a request that the cache forwards and neither answers nor stores.
//!
//! The exchange calls [`head_arrives`] before it sends anything of the response. Invariant: a client that has got a part
//! of the response to an unsafe method gets nothing older from the store, however long the rest of the response takes.

use tollgate_cache::CacheStatus;
use tollgate_http::{RequestHead, ResponseHead};
use tollgate_policy::{CacheIntent, Context};
use tollgate_route::PathRules;

use super::admission::insert_status;
use super::invalidate;

/// Removes what the response makes out of date, and adds to its head why the request was forwarded.
pub(crate) fn head_arrives(
    context: &Context,
    request: &RequestHead,
    response: &ResponseHead,
    paths: &PathRules,
    head: &mut Vec<u8>,
) {
    let Some(used) = &context.cache else { return };
    // For any other request, the tap of its fetch does this.
    let Some(forward) = used.forwarded else { return };
    if used.intent == CacheIntent::Invalidate {
        invalidate::remove_outdated(used, &context.cache_key, request, response, paths);
    }
    if used.cache.rules.status {
        insert_status(head, &CacheStatus { forward: Some(forward), ..CacheStatus::default() });
    }
}
