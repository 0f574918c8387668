//! Reads `routes`.

use super::policies;
use crate::model::{
    Action, Identity, Match, PathMatch, PathRewrite, Priority, Redirect, Respond, Rewrite, Route, Spanned,
};
use crate::problem::Problem;
use crate::read::Draft;
use crate::reader::{Field, Fields, Reader};
use crate::scalar::{ScalarError, field as header};
use crate::section::Value;
use crate::sections::fallback::{check_fallbacks, fallbacks};
use crate::sections::matching::matches;
use crate::sections::rewrite::{GroupUse, WithGroups, check_uses};
use crate::sections::target::targets;
use crate::sections::{Retry, RouteBuffer, RouteLimitKeys, RouteTimeoutKeys};
use crate::spec::{ROUTE, Shape};
use crate::tree::{Node, NodeKind, Scalar, shown};

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
    let start = reader.problems.len();
    let Some(fields) = reader.fields(node, &ROUTE) else { return };
    let name = fields.get("name").and_then(|field| name(reader, field, draft));
    let matches = match fields.get("match") {
        Some(field) => matches(reader, field).unwrap_or_default(),
        None => vec![Match { at: node.at, ..Match::default() }],
    };
    let sound = !reader.has_errors_since(start) && !node.holds_invalid();
    let rewrite = fields.get("rewrite").and_then(|field| WithGroups::<Rewrite>::read(reader, field));
    let WithGroups { value: rewrite, mut uses } = rewrite.unwrap_or_default();
    let timeouts = fields.get("timeouts").and_then(|field| reader.section::<RouteTimeoutKeys>(field));
    let RouteTimeoutKeys { exchange: timeouts, stay } = timeouts.unwrap_or_default();
    let limits = fields.get("limits").and_then(|field| reader.section::<RouteLimitKeys>(field));
    let RouteLimitKeys { body: body_limit, rates } = limits.unwrap_or_default();
    let buffer = fields.get("buffer").and_then(|field| RouteBuffer::read(reader, field)).unwrap_or_default();
    let upgrade = match fields.get("upgrade") {
        Some(field) => upgrade(reader, field),
        None => vec!["websocket".to_owned()],
    };
    let retry = fields.get("retry").map(|field| Retry::read(reader, field).unwrap_or_default());
    let per_try = retry.as_ref().and_then(|retry| retry.per_try);
    draft.per_try_timeouts.extend(super::per_try_timeout(&fields, per_try, timeouts.total));
    let priority = match reader.word(fields.get("priority")) {
        Some("low") => Priority::Low,
        Some("high") => Priority::High,
        _ => Priority::Normal,
    };
    let policies = policies::policies(reader, fields.get("policies"));
    let access_log = fields.get("access_log").map(|field| Value::read(reader, field).unwrap_or_default());
    let mut grpc_web = false;
    reader.switch(fields.get("grpc_web"), &mut grpc_web);
    // A placeholder after a reported error, so that this route's match can still be compared with others.
    let action = action(reader, &fields, &mut uses).unwrap_or_else(|| Action::Forward(Vec::new()));
    let fallback = fields.get("fallback").and_then(|field| fallbacks(reader, field)).unwrap_or_default();
    let targets = if let Action::Forward(targets) = &action { targets.as_slice() } else { &[] };
    check_fallbacks(reader, &fallback, targets);
    draft.references.append(&mut reader.references);
    if sound {
        check_uses(reader, &uses, &matches);
    }
    for path in [rewrite.path.as_ref(), path_of(&action)].into_iter().flatten() {
        prefix(reader, path, &matches);
    }
    if !matches!(action, Action::Forward(_)) {
        unused(reader, &fields);
    }
    // A list of matches becomes several routes that are otherwise equal.
    for mut matches in matches {
        if grpc_web && matches.grpc {
            // A page of another origin sends a CORS preflight before the call. Policy `cors` can answer it
            // only if it reaches this route.
            matches.methods.push("OPTIONS".to_owned());
        }
        if !sound {
            draft.unreliable_routes.insert(draft.config.routes.len());
        }
        draft.config.routes.push(Route {
            identity: Identity::new(),
            name: name.clone(),
            at: node.at,
            matches,
            action: action.clone(),
            rewrite: rewrite.clone(),
            timeouts: timeouts.clone(),
            body_limit,
            rates,
            buffer: buffer.clone(),
            upgrade: upgrade.clone(),
            retry: retry.clone(),
            priority,
            grpc_web,
            policies: policies.clone(),
            access_log: access_log.clone(),
            fallback: fallback.clone(),
            stay,
        });
    }
}

fn action(reader: &mut Reader, fields: &Fields<'_>, uses: &mut Vec<GroupUse>) -> Option<Action> {
    if let Some(field) = fields.get("to") {
        return targets(reader, field).map(Action::Forward);
    }
    if let Some(field) = fields.get("redirect") {
        let redirect = WithGroups::<Redirect>::read(reader, field)?;
        uses.extend(redirect.uses);
        return Some(Action::Redirect(redirect.value));
    }
    Respond::read(reader, fields.get("respond")?).map(Action::Respond)
}

fn path_of(action: &Action) -> Option<&Spanned<PathRewrite>> {
    match action {
        Action::Redirect(redirect) => redirect.path.as_ref(),
        Action::Forward(_) | Action::Respond(_) => None,
    }
}

/// Reports a rewrite of the prefix if the route does not match a prefix.
fn prefix(reader: &mut Reader, path: &Spanned<PathRewrite>, matches: &[Match]) {
    let PathRewrite::Prefix(_) = path.value else { return };
    let mut paths = matches.iter().filter_map(|matches| matches.path.as_ref());
    if let Some(whole) = paths.find(|path| !matches!(path.value, PathMatch::Prefix(_))) {
        reader.problems.push(
            Problem::error(path.at, "a prefix can be replaced only if the route matches a prefix")
                .help("end the route's path in `/*`, or rewrite the whole `path`")
                .related(whole.at, "this is not a prefix match"),
        );
    }
}

/// Warns of keys that only a forwarding route uses.
fn unused(reader: &mut Reader, fields: &Fields<'_>) {
    for name in ["rewrite", "timeouts", "buffer", "retry", "grpc_web", "upgrade", "fallback"] {
        if let Some(field) = fields.get(name)
            && !(name == "timeouts" && is_of_clients(field))
        {
            let problem = Problem::warning(field.at, format!("`{name}` has no effect here"));
            reader.problems.push(problem.help("it applies only with `to`: this route answers by itself"));
        }
    }
}

/// Returns whether these timeouts concern only client connections, which every route has.
fn is_of_clients(timeouts: Field<'_>) -> bool {
    match &timeouts.node.kind {
        NodeKind::Map(entries) => entries.iter().all(|entry| matches!(entry.key.as_str(), "idle" | "age")),
        _ => false,
    }
}

fn name(reader: &mut Reader, field: Field<'_>, draft: &mut Draft) -> Option<Spanned<String>> {
    let name = reader.spanned(field, policies::name)?;
    if let Some(first) = draft.route_names.get(&name.value) {
        let shown = field.node.scalar().map(Scalar::shown).unwrap_or_default();
        let problem = Problem::error(name.at, format!("two routes are named {shown}"));
        reader.problems.push(problem.related(*first, "first written here"));
    } else {
        draft.route_names.insert(name.value.clone(), name.at);
    }
    Some(name)
}

fn upgrade(reader: &mut Reader, field: Field<'_>) -> Vec<String> {
    if let Some(scalar) = field.node.scalar() {
        match scalar.switch() {
            Some(true) => return vec!["websocket".to_owned()],
            Some(false) => return Vec::new(),
            None => {}
        }
    }
    let shape: &Shape = &field.key.shape;
    let mut out: Vec<String> = Vec::new();
    for item in reader.bounded_items(field.node, "`upgrade`") {
        let protocol = reader.parsed(item, "a protocol", shape, |text| {
            // `protocol-name ["/" protocol-version]` (RFC 9110, section 7.8).
            if text.split('/').count() <= 2 && text.split('/').all(header::is_token) {
                return Ok(text.to_ascii_lowercase());
            }
            Err(ScalarError::new("{} is not a protocol").help("several protocols are a list"))
        });
        if let Some(protocol) = protocol.filter(|protocol| !out.contains(protocol)) {
            if protocol == "h2c" {
                let message = format!("{} would carry HTTP/2 past every rule of this gateway", shown("h2c"));
                let problem = Problem::error(item.at, message);
                reader.problems.push(problem.help("remove it; an `h2c://` target uses HTTP/2"));
            }
            out.push(protocol);
        }
    }
    out
}
