//! Reads `fallback` of a route.

use super::{UpstreamReference, respond, target};
use crate::model::{Action, Fallback, Replacement, Target, TargetKind};
use crate::problem::Problem;
use crate::reader::{Field, Fields, Reader, one_or_many};
use crate::scalar::{ScalarError, status};
use crate::spec::{FALLBACK, Shape};
use crate::tree::{Node, shown};

/// Placeholder for the error's status in a page's path.
const STATUS: &str = "{status}";

/// Reads the fallbacks of a route whose action is `action`.
pub(super) fn fallbacks(
    reader: &mut Reader,
    field: Field<'_>,
    action: &Action,
    references: &mut Vec<UpstreamReference>,
) -> Vec<Fallback> {
    let items = one_or_many(field.node);
    if items.is_empty() {
        reader.missing(field.node.at, "`fallback` is an empty list".to_owned(), &field.key.shape);
    }
    let mut out: Vec<Fallback> = Vec::new();
    for item in items {
        if let Some(fallback) = fallback(reader, item, references) {
            loops(reader, &fallback, action, &out);
            covered(reader, &fallback, &out);
            out.push(fallback);
        }
    }
    out
}

fn fallback(reader: &mut Reader, node: &Node, references: &mut Vec<UpstreamReference>) -> Option<Fallback> {
    let fields = reader.fields(node, &FALLBACK)?;
    let on = match fields.get("on") {
        Some(field) => on(reader, field),
        None => vec![502, 503, 504],
    };
    let instead = instead(reader, &fields, references)?;
    Some(Fallback { on, instead, at: node.at })
}

fn instead(
    reader: &mut Reader,
    fields: &Fields<'_>,
    references: &mut Vec<UpstreamReference>,
) -> Option<Replacement> {
    let mut given = None;
    reader.optional_into(fields.get("status"), &mut given);
    let path = fields.get("path");
    if let Some(field) = fields.get("respond") {
        for (key, help) in
            [("path", "a page at a path needs `to`"), ("status", "`respond` has its own `status`")]
        {
            if let Some(field) = fields.get(key) {
                let problem = Problem::error(field.at, format!("`{key}` conflicts with `respond`"));
                reader.problems.push(problem.help(help));
            }
        }
        let (respond, status) = respond::page(reader, field)?;
        return Some(Replacement::Respond { respond, status });
    }
    let to = target::target(reader, fields.get("to")?, references);
    let Some(field) = path else {
        if let Some(field) = fields.get("status") {
            let problem = Problem::error(field.at, "`status` needs `path`");
            reader.problems.push(
                problem
                    .help("without `path` the request itself goes there, and its answer has its own status"),
            );
        }
        return to.map(Replacement::Request);
    };
    if let (Some(204 | 205 | 304), Some(field)) = (given, fields.get("status")) {
        let problem = Problem::error(field.node.at, "an answer with this status has no body");
        reader.problems.push(problem.help("a page is a body: use another status, or `respond`"));
    }
    let path = reader.field(field, page_path);
    Some(Replacement::Page { to: to?, path: path?, status: given })
}

/// Reads the statuses of errors. Statuses below 400 are rejected.
fn on(reader: &mut Reader, field: Field<'_>) -> Vec<u16> {
    let mut out = Vec::new();
    let one = if let Shape::OneOrMany(one) = field.key.shape { one } else { &field.key.shape };
    let items = reader.bounded_items(field.node, "`on`");
    if items.is_empty() {
        let problem = Problem::error(field.node.at, "`on` is an empty list").expected(one.expected());
        reader.problems.push(problem);
    }
    for item in items {
        let range = reader.parsed(item, "a status", one, |text| match status::range(text)? {
            (first, _) if first < 400 => Err(ScalarError::new("{} is not an error status")
                .help("a fallback takes the place of errors: 400 to 599")),
            range => Ok(range),
        });
        out.extend(range.into_iter().flat_map(|(first, last)| first..=last));
    }
    out.sort_unstable();
    out.dedup();
    out
}

fn page_path(text: &str) -> Result<String, ScalarError> {
    if !text.starts_with('/') {
        return Err(ScalarError::new("{} is not a path").help("the upstream is named by `to`"));
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) || text.contains('#') {
        return Err(ScalarError::new("{} has a byte that no path has").help("write it percent-encoded"));
    }
    let plain = text.replace(STATUS, "");
    if plain.contains(['{', '}']) {
        return Err(
            ScalarError::new("{} has an unknown placeholder").help("the only placeholder is `{status}`")
        );
    }
    Ok(text.to_owned())
}

/// Reports a fallback to an upstream that the request was already sent to.
fn loops(reader: &mut Reader, fallback: &Fallback, action: &Action, before: &[Fallback]) {
    let Replacement::Request(to) = &fallback.instead else { return };
    if let Action::Forward(targets) = action
        && let [only, rest @ ..] = targets.as_slice()
        && rest.iter().chain([only]).all(|target| target.to == to.to)
    {
        let problem = Problem::error(to.at, format!("this fallback leads back to {}", name(to)));
        reader.problems.push(
            problem
                .help("name another upstream: the request has already failed there")
                .related(only.at, "the route's own target"),
        );
    }
    let earlier = before.iter().find_map(|earlier| match &earlier.instead {
        Replacement::Request(first) if first.to == to.to => Some(first),
        _ => None,
    });
    if let Some(first) = earlier {
        let problem = Problem::error(to.at, format!("the fallbacks lead to {} twice", name(to)));
        reader.problems.push(
            problem
                .help("a failed fallback continues with the next one: write all statuses in one `on`")
                .related(first.at, "the first time"),
        );
    }
}

/// Warns of a fallback that is never reached, because an earlier fixed response, which cannot fail, handles
/// all of its statuses.
fn covered(reader: &mut Reader, fallback: &Fallback, before: &[Fallback]) {
    let fixed = |earlier: &&Fallback| matches!(earlier.instead, Replacement::Respond { .. });
    let covers = |earlier: &&Fallback| fallback.on.iter().all(|status| earlier.on.contains(status));
    if fallback.on.is_empty() {
        return;
    }
    if let Some(earlier) = before.iter().filter(fixed).find(covers) {
        let problem = Problem::warning(fallback.at, "this fallback is never reached");
        reader.problems.push(
            problem
                .help("the first matching fallback is used: put this one before the other")
                .related(earlier.at, "this one handles all of its statuses"),
        );
    }
}

fn name(target: &Target) -> String {
    match &target.to {
        TargetKind::Upstream(name) => shown(name),
        TargetKind::Endpoint(_) => "the same endpoint".to_owned(),
    }
}
