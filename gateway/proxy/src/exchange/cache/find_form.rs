//! Finds a stored compressed form that answers a request as it is.
//!
//! The policy layer calls [`finds_form`] for a request whose response `compression` is to compress, before it decides how the
//! request goes on. With such a form no body has to be changed, so the request takes the way of requests whose bodies stay as
//! they are: the hit allocates nothing, and no compressor runs. [`serve`](super::serve) takes over what was found.

use std::sync::Arc;

use tollgate_cache::{Allowances, Lookup, Moment, Reuse, Stored, reuse};
use tollgate_http::{ContentCoding, RequestHead};
use tollgate_policy::{CacheIntent, Context};

use super::admission::is_for_endpoint;
use super::{control_of, name_upstream};
use crate::exchange::forward_target::RoutedRequest;
use crate::state::active::ActivePlan;

/// Returns whether a fresh response answers the request in the coding that its client gets, without a change of its body.
/// Keeps it in the context for [`serve`](super::serve).
pub(crate) fn finds_form(
    context: &mut Context,
    request: &RequestHead,
    active: &ActivePlan,
    routed: RoutedRequest,
) -> bool {
    if context.cache.is_none() {
        return false;
    }
    let Some(coding) = context.only_coding() else { return false };
    let length = context.cache_key.len();
    name_upstream(context, active, routed);
    let found = find(context, request, coding);
    // `serve` names it again.
    context.cache_key.truncate(length);
    let is_found = found.is_some();
    if let Some(used) = &mut context.cache {
        used.found = found;
    }
    is_found
}

fn find(context: &Context, request: &RequestHead, coding: ContentCoding) -> Option<(Arc<Stored>, Moment)> {
    let used = context.cache.as_ref()?;
    let CacheIntent::Lookup { is_identified, .. } = used.intent else { return None };
    let cache = &used.cache;
    let control = control_of(cache, request);
    if cache.rules.slice.is_some() || control.no_store || is_for_endpoint(&request.head) {
        return None;
    }
    let now = Moment::from(tollgate_net::wall_clock());
    let Lookup::Hit(stored) = cache.store.look_again(&context.cache_key, &request.head, now) else {
        return None;
    };
    let may_be_used = !is_identified || stored.head().freshness().is_open();
    let is_fresh = || reuse(&stored, &control, &Allowances::default(), now) == Reuse::Fresh;
    (stored.form(coding).is_some() && may_be_used && is_fresh()).then_some((stored, now))
}
