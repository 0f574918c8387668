//! `fallback` of a route: replacements for error responses.

use crate::position::At;
use crate::scalar::status;
use crate::section::{Field, Fields, Problem, Reader, ScalarError, Section, Text, one_or_many, shown};

use super::access_log::STATUS_RANGE;
use super::respond::{FixedResponse, Respond};
use super::target::{Target, TargetKind};
use super::texts::TARGET_TEXT;

/// Placeholder for the error's status in a page's path.
const STATUS: &str = "{status}";

/// A path that may contain `{status}` and a query.
static PAGE_PATH: Text = Text {
    expected: "a path such as `/50x.html` or `/errors/{status}.html`",
    pattern: Some(r"^/[!-~]*$"),
    loose: false,
};

/// A replacement for an error: for an endpoint's response, or for the gateway's own if no endpoint responded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// The error statuses that it replaces, 400 to 599, in order.
    pub on: Vec<u16>,
    /// The replacement.
    pub instead: Replacement,
    /// Source position of the fallback.
    pub at: At,
}

/// A replacement for an error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// The response of another upstream to the same request (`to`).
    Request(Target),
    /// A page fetched from another upstream (`to` and `path`).
    Page {
        /// The upstream or endpoint that has the page.
        to: Target,
        /// Path and query of the page; `{status}` is replaced by the status of the error.
        path: String,
        /// The status that the client gets; `None`: the status of the error.
        status: Option<u16>,
    },
    /// A fixed response (`respond`).
    Respond {
        /// Its fields and body.
        respond: Respond,
        /// The status that the client gets; `None`: the status of the error.
        status: Option<u16>,
    },
}

impl Replacement {
    /// Returns the target that the replacement is requested from, if any.
    #[must_use]
    pub fn target(&self) -> Option<&Target> {
        match self {
            Self::Request(to) | Self::Page { to, .. } => Some(to),
            Self::Respond { .. } => None,
        }
    }
}

/// A replacement for error responses. With `to` the request goes to another upstream; with `to` and `path` the
/// client gets a page from there; with `respond` it gets a fixed response.
#[derive(Clone, Debug, Section)]
#[section(
    name = "fallback", noun = "a fallback", exactly_one = ["to", "respond"], makes = Fallback, by = fallback
)]
struct FallbackKeys {
    /// Statuses of the replaced errors, an endpoint's or the gateway's own: 400 to 599, one or a list.
    #[key(
        text = STATUS_RANGE, list, read = statuses, default = "[502, 503, 504]",
        also = ["status", "statuses", "code", "codes", "when"]
    )]
    on: Vec<u16>,
    /// An upstream or an endpoint.
    #[key(text = TARGET_TEXT, also = ["upstream", "service", "backend", "target", "fallback"])]
    to: Option<Target>,
    /// Path of a page there, which replaces the error's body; `{status}` is the error's status.
    #[key(text = PAGE_PATH, parse = page_path, also = ["query", "uri", "url", "page"])]
    path: Option<String>,
    /// Status of the page. Default: the error's status.
    #[key(count = 200..=599, also = ["response_code", "rewrite_status"])]
    status: Option<u16>,
    /// A fixed response: a text, a status or a mapping. Its default status is the error's.
    #[key(also = ["body", "return", "response", "direct_response", "text", "html"])]
    respond: Option<FixedResponse>,
}

fn fallback(reader: &mut Reader, fields: &Fields<'_>, keys: FallbackKeys) -> Option<Fallback> {
    let FallbackKeys { on, to, path, status, respond } = keys;
    let instead = match fields.get("respond") {
        Some(_) => {
            only_of_pages(reader, fields);
            let FixedResponse { respond, status } = respond?;
            Replacement::Respond { respond, status }
        }
        None => from_upstream(reader, fields, to, path, status)?,
    };
    Some(Fallback { on, instead, at: fields.at })
}

/// Reports keys of a page next to `respond`.
fn only_of_pages(reader: &mut Reader, fields: &Fields<'_>) {
    for (key, help) in [("path", "a page at a path needs `to`"), ("status", "`respond` has its own `status`")]
    {
        if let Some(field) = fields.get(key) {
            let problem = Problem::error(field.at, format!("`{key}` conflicts with `respond`"));
            reader.problems.push(problem.help(help));
        }
    }
}

fn from_upstream(
    reader: &mut Reader,
    fields: &Fields<'_>,
    to: Option<Target>,
    path: Option<String>,
    status: Option<u16>,
) -> Option<Replacement> {
    fields.get("to")?;
    let status_field = fields.get("status");
    if fields.get("path").is_none() {
        if let Some(field) = status_field {
            let problem = Problem::error(field.at, "`status` needs `path`");
            reader.problems.push(
                problem
                    .help("without `path` the request itself goes there, and its answer has its own status"),
            );
        }
        return to.map(Replacement::Request);
    }
    if let (Some(204 | 205 | 304), Some(field)) = (status, status_field) {
        let problem = Problem::error(field.node.at, "an answer with this status has no body");
        reader.problems.push(problem.help("a page is a body: use another status, or `respond`"));
    }
    Some(Replacement::Page { to: to?, path: path?, status })
}

/// Reads the fallbacks of a route.
pub(crate) fn fallbacks(reader: &mut Reader, field: Field<'_>) -> Option<Vec<Fallback>> {
    let items = one_or_many(field.node);
    if items.is_empty() {
        reader.missing(field.node.at, "`fallback` is an empty list".to_owned(), &field.key.shape);
    }
    Some(items.iter().filter_map(|item| Fallback::read_section(reader, item)).collect())
}

/// Reports fallbacks that lead back to one of the route's own targets or to each other, and fallbacks that are
/// never reached.
pub(crate) fn check_fallbacks(reader: &mut Reader, fallbacks: &[Fallback], targets: &[Target]) {
    for (i, fallback) in fallbacks.iter().enumerate() {
        loops(reader, fallback, targets, &fallbacks[..i]);
        covered(reader, fallback, &fallbacks[..i]);
    }
}

/// Reads the statuses of errors. Statuses below 400 are rejected.
fn statuses(reader: &mut Reader, field: Field<'_>) -> Option<Vec<u16>> {
    let mut out = Vec::new();
    let one = field.key.shape.one();
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
    Some(out)
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
fn loops(reader: &mut Reader, fallback: &Fallback, targets: &[Target], before: &[Fallback]) {
    let Replacement::Request(to) = &fallback.instead else { return };
    if let [only, rest @ ..] = targets
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
        TargetKind::Respond(_) | TargetKind::Close => "the same response".to_owned(),
    }
}
