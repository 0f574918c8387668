//! Reads `routes`.

use crate::model::{Action, Identity, Route, Spanned};
use crate::problem::Problem;
use crate::read::Draft;
use crate::reader::{Field, Fields, Reader};
use crate::section::Section;
use crate::sections::route::{RouteConditions, RouteKeys};
use crate::sections::{RouteLimitKeys, RouteTimeoutKeys};
use crate::tree::{Node, NodeKind, Scalar};

pub(super) fn routes(reader: &mut Reader, field: Field<'_>, draft: &mut Draft) {
    let NodeKind::List(items) = &field.node.kind else {
        let problem = format!("`routes` cannot be {}", field.node.noun());
        reader.problems.push(
            Problem::error(field.node.at, problem)
                .expected("a list of routes")
                .help("start each route with `- `: `- match: /v1/*`"),
        );
        return;
    };
    draft.config.routes.reserve(items.len());
    for item in items {
        route(reader, item, draft);
    }
}

/// Reads one item of `routes`.
pub(crate) fn route(reader: &mut Reader, node: &Node, draft: &mut Draft) {
    let Some(fields) = reader.fields(node, RouteKeys::SPEC) else { return };
    let Some(keys) = RouteKeys::read_keys(reader, &fields) else { return };
    draft.references.append(&mut reader.references);
    let RouteConditions { name, matches, are_reliable } = keys.conditions;
    note_name(reader, &fields, name.as_ref(), draft);
    let RouteTimeoutKeys { exchange: timeouts, stay } = keys.timeouts;
    let RouteLimitKeys { body: body_limit, rates } = keys.limits;
    let per_try = keys.retry.as_ref().and_then(|retry| retry.per_try);
    draft.per_try_timeouts.extend(super::per_try_timeout(&fields, per_try, timeouts.total));
    let action = match (keys.to, keys.redirect, keys.respond, keys.files) {
        (Some(targets), ..) => Action::Forward(targets),
        (None, Some(redirect), ..) => Action::Redirect(redirect.value),
        (None, None, Some(respond), _) => Action::Respond(respond),
        (None, None, None, Some(files)) => Action::Files(Box::new(files)),
        // A placeholder after a reported error, so that this route's match can still be compared with others.
        (None, None, None, None) => Action::Forward(Vec::new()),
    };
    // A list of matches becomes several routes that are otherwise equal.
    for mut matches in matches {
        if keys.grpc_web && matches.grpc {
            // A page of another origin sends a CORS preflight before the call. Policy `cors` can answer it
            // only if it reaches this route.
            matches.methods.push("OPTIONS".to_owned());
        }
        if !are_reliable {
            draft.unreliable_routes.insert(draft.config.routes.len());
        }
        draft.config.routes.push(Route {
            identity: Identity::new(),
            name: name.clone(),
            at: node.at,
            listeners: keys.listeners.clone(),
            created: keys.created,
            enabled: keys.enabled,
            matches,
            action: action.clone(),
            rewrite: keys.rewrite.value.clone(),
            timeouts: timeouts.clone(),
            body_limit,
            rates,
            buffer: keys.buffer.clone(),
            upgrade: keys.upgrade.clone(),
            retry: keys.retry.clone(),
            priority: keys.priority,
            grpc_web: keys.grpc_web,
            policies: keys.policies.clone(),
            access_log: keys.access_log.clone(),
            fallback: keys.fallback.clone(),
            stay,
        });
    }
}

/// Adds the name to the names of all routes. Reports a name that another route has.
fn note_name(reader: &mut Reader, fields: &Fields<'_>, name: Option<&Spanned<String>>, draft: &mut Draft) {
    let Some(name) = name else { return };
    let Some(first) = draft.route_names.get(&name.value) else {
        draft.route_names.insert(name.value.clone(), name.at);
        return;
    };
    let field = fields.get("name");
    let shown = field.and_then(|field| field.node.scalar()).map(Scalar::shown).unwrap_or_default();
    let problem = Problem::error(name.at, format!("two routes are named {shown}"));
    reader.problems.push(problem.related(*first, "first written here"));
}
