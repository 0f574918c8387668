//! Reads `rewrite`.

use crate::model::{At, HostRewrite, Match, PathMatch, PathRewrite, Rewrite, Spanned};
use crate::problem::Problem;
use crate::reader::{Field, Fields, Reader};
use crate::scalar::{ScalarError, host, path, pattern, replacement};
use crate::spec::REWRITE;
use crate::tree::{Node, shown};

/// A reference to a capture group of the route's own pattern.
#[derive(Debug)]
pub(super) struct GroupUse {
    group: String,
    at: At,
    /// Whether messages may show the name. A variable may hold a secret.
    open: bool,
}

pub(super) fn rewrite(reader: &mut Reader, field: Field<'_>, uses: &mut Vec<GroupUse>) -> Rewrite {
    let Some(fields) = reader.fields(field.node, &REWRITE) else { return Rewrite::default() };
    let mut out = Rewrite { path: path_rewrite(reader, &fields, uses), host: None };
    if let Some(field) = fields.get("host") {
        out.host = reader.field(field, |text| match text {
            "endpoint" => Ok(HostRewrite::Endpoint),
            text => host::authority(text).map(HostRewrite::To),
        });
    }
    out
}

/// Reads `path`, `prefix`, or `regex` with `replace`, of a rewrite or a redirect.
pub(super) fn path_rewrite(
    reader: &mut Reader,
    fields: &Fields<'_>,
    uses: &mut Vec<GroupUse>,
) -> Option<Spanned<PathRewrite>> {
    let pattern = regex(reader, fields);
    if let Some(field) = fields.get("path") {
        note_uses(field.node, uses);
        return reader.spanned(field, |text| match replacement::plain(text) {
            Some(text) => path::path(&text).map(PathRewrite::Full),
            None => {
                if !text.starts_with('/') {
                    return path::path(text).map(PathRewrite::Full);
                }
                replacement::in_path(text).map(|_| PathRewrite::Groups(text.to_owned()))
            }
        });
    }
    let Some(field) = fields.get("prefix") else { return pattern };
    reader.spanned(field, |text| {
        if text.ends_with("/*") {
            let fault = ScalarError::new("{} ends in `*`, which a prefix does not need");
            return Err(fault.suggest(format!("write `{}`", text.trim_end_matches('*'))));
        }
        if let Some(reference) = replacement::references(text).first() {
            let fault = ScalarError::new("{} has a capture group, but a prefix match has none");
            return Err(fault.part(reference.start, reference.length).help(DOLLAR));
        }
        path::path(&replacement::plain(text).unwrap_or_default()).map(PathRewrite::Prefix)
    })
}

const DOLLAR: &str = "capture groups are written `$1`, `$2` or `$name`; `$$` is a dollar sign";

/// Collects the references to capture groups in a text.
pub(super) fn note_uses(node: &Node, uses: &mut Vec<GroupUse>) {
    let Some(scalar) = node.scalar() else { return };
    let open = scalar.written.is_none();
    uses.extend(replacement::references(&scalar.text).into_iter().map(|reference| GroupUse {
        group: reference.group,
        at: node.part(reference.start, reference.length),
        open,
    }));
}

/// Reports references to capture groups that are missing in the pattern of any of the route's matches.
pub(super) fn check_uses(reader: &mut Reader, uses: &[GroupUse], matches: &[Match]) {
    if uses.is_empty() {
        return;
    }
    for one in matches {
        let Some(Spanned { value: PathMatch::Regex(text), at }) = &one.path else {
            let problem = Problem::error(uses[0].at, "this route matches no pattern with capture groups");
            let help = "match one, as in `{path: {regex: '/old/(.*)'}}` or `{path: {template: '/users/{id}'}}`; \
                        `$$` is a dollar sign";
            reader.problems.push(problem.help(help).related(one.at, "the match is here"));
            return;
        };
        let Ok(pattern) = pattern::regex(text, false) else { return };
        let missing = uses.iter().filter(|used| !pattern::has_group(&pattern, &used.group));
        let problems: Vec<_> =
            missing.map(|used| no_group(used).related(*at, "the pattern is here")).collect();
        if !problems.is_empty() {
            reader.problems.extend(problems);
            return;
        }
    }
}

fn no_group(used: &GroupUse) -> Problem {
    let group = &used.group;
    let name = if used.open { format!(" {}", shown(group)) } else { String::new() };
    let problem = Problem::error(used.at, format!("the pattern has no group{name}"));
    let digits = group.bytes().take_while(u8::is_ascii_digit).count();
    if used.open && digits > 0 && digits < group.len() {
        let (number, rest) = group.split_at(digits);
        return problem
            .help(format!("write `${{{number}}}{rest}` to end the group's number before `{rest}`"));
    }
    problem.help(DOLLAR)
}

fn regex(reader: &mut Reader, fields: &Fields<'_>) -> Option<Spanned<PathRewrite>> {
    let replace = fields.get("replace");
    let Some(field) = fields.get("regex") else {
        if let Some(replace) = replace {
            let problem = Problem::error(replace.at, "`replace` has no effect without `regex`");
            reader.problems.push(problem.help("add `regex`, or use `path` or `prefix` alone"));
        }
        return None;
    };
    let compiled = reader.field(field, |text| pattern::regex(text, false));
    let Some(replace) = replace else {
        if reader.complete {
            let problem = Problem::error(field.at, "`regex` needs `replace`");
            reader.problems.push(problem.expected("a text with capture groups such as `$1`"));
        }
        return None;
    };
    let text = reader.field(replace, |text| replacement::in_path(text).map(|_| text.to_owned()))?;
    let compiled = compiled?;
    let mut uses = Vec::new();
    note_uses(replace.node, &mut uses);
    let missing = uses.iter().find(|used| !pattern::has_group(&compiled, &used.group));
    reader.problems.extend(missing.map(no_group));
    let pattern = field.node.scalar()?.text.clone();
    Some(Spanned { value: PathRewrite::Regex { pattern, replace: text }, at: replace.node.at })
}
