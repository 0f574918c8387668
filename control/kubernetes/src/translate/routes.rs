//! Routes of all kinds: their attachment to listeners, their documents and their statuses.
//!
//! The translator calls [`RouteStates::update`] for the routes that a change concerns. It attaches each route first, then
//! collects its claims, and translates it once every route has claimed. A match that several routes claim goes to one of
//! them (`claims` of the crate).
//!
//! | Module | Contents |
//! |---|---|
//! | `route` | a route of any kind |
//! | `rule` | a rule of an HTTPRoute or a GRPCRoute, which `http` and `grpc` convert |
//! | `attachment` | the listeners and host names that a route serves |
//! | `requests` | the documents of HTTPRoutes and GRPCRoutes; `streams` has those of layer 4 |
//! | `state` | the contribution of each route to the result |
//! | `status` | the statuses |

mod attachment;
mod requests;
mod route;
mod rule;
mod state;
mod status;

use std::collections::HashSet;

pub use self::attachment::{AttachedRoute, Attachment, Attachments, Surroundings};
use self::requests::{RouteContext, Shortcomings, matches_at};
use self::route::{Route, Rules};
pub use self::rule::{Rule, every_request, matches, values};
pub use self::state::RouteStates;
use self::status::write_status;
use super::backends::Backends;
use super::claims::Taken;
use super::{Translation, reference, streams};

/// Returns the claims of a route on listeners, in its own order and each once.
fn claims(route: &Route<'_>, attached: &AttachedRoute<'_>) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    let mut add = |claim: String| {
        if seen.insert(claim.clone()) {
            all.push(claim);
        }
    };
    for ((listener, _), attachment) in &attached.attachments {
        match &route.rules {
            Rules::Requests(rules) => {
                let claims = rules.iter().flat_map(|rule| matches_at(listener, attachment, rule));
                claims.for_each(|(claim, _)| add(claim));
            }
            Rules::Streams(rules) if !rules.is_empty() => {
                streams::names_at(route.kind, listener, attachment)
                    .into_iter()
                    .for_each(|(claim, _)| add(claim));
            }
            Rules::Streams(_) => {}
        }
    }
    all
}

/// Translates a route that is attached.
fn translate<'a>(
    route: &Route<'a>,
    attached: AttachedRoute<'a>,
    surroundings: Surroundings<'_>,
    backends: &mut Backends<'a>,
    taken: &mut Taken<'_>,
    out: &mut Translation,
) {
    let owner = reference(route.kind, &route.meta.object_name());
    let shortcomings = match &route.rules {
        Rules::Streams(rules) => Shortcomings {
            unresolved: streams::translate(&owner, rules, &attached, backends, taken, out),
            unsupported: None,
        },
        Rules::Requests(rules) => {
            let Surroundings { parents, policies, .. } = surroundings;
            let context =
                RouteContext { owner: &owner, meta: route.meta, attached: &attached, parents, policies };
            requests::translate(rules, context, backends, taken, out)
        }
    };
    let Shortcomings { unresolved, unsupported } = shortcomings;
    write_status(route, surroundings.settings, attached, unresolved, unsupported, out);
}
