//! `rewrite`.

use crate::model::{HostRewrite, PathRewrite, Rewrite, Spanned};
use crate::problem::Problem;
use crate::reader::{Field, Fields, Reader};
use crate::scalar::{Fault, host, path, pattern, quantity};
use crate::spec::REWRITE;
use crate::tree::shown;

pub(super) fn rewrite(reader: &mut Reader, field: Field<'_>) -> Rewrite {
    let Some(fields) = reader.fields(field.node, &REWRITE) else { return Rewrite::default() };
    let mut out = Rewrite { path: full_or_prefix(reader, &fields), host: None };
    if let Some(pattern) = regex(reader, &fields) {
        out.path = Some(pattern);
    }
    if let Some(field) = fields.get("host") {
        out.host = reader.field(field, |text| match text {
            "endpoint" => Ok(HostRewrite::Endpoint),
            text => authority(text).map(HostRewrite::To),
        });
    }
    out
}

/// `path` or `prefix` of a rewrite or a redirect.
pub(super) fn full_or_prefix(reader: &mut Reader, fields: &Fields<'_>) -> Option<Spanned<PathRewrite>> {
    if let Some(field) = fields.get("path") {
        return reader.spanned(field, |text| path::path(text).map(PathRewrite::Full));
    }
    let field = fields.get("prefix")?;
    reader.spanned(field, |text| {
        if text.ends_with("/*") {
            let fault = Fault::new("{} ends in `*`, which a prefix does without");
            return Err(fault.suggest(format!("write `{}`", text.trim_end_matches('*'))));
        }
        path::path(text).map(PathRewrite::Prefix)
    })
}

fn regex(reader: &mut Reader, fields: &Fields<'_>) -> Option<Spanned<PathRewrite>> {
    let replace = fields.get("replace");
    let Some(field) = fields.get("regex") else {
        if let Some(replace) = replace {
            let problem = Problem::error(replace.at, "`replace` does nothing without `regex`");
            reader.problems.push(problem.help("add `regex`, or use `path` or `prefix` alone"));
        }
        return None;
    };
    let compiled = reader.field(field, |text| pattern::regex(text, false));
    let Some(replace) = replace else {
        if reader.complete {
            let problem = Problem::error(field.at, "`regex` has no `replace` beside it");
            reader.problems.push(problem.expected("a text in which `$1` stands for a group"));
        }
        return None;
    };
    let text = reader.field(replace, |text| {
        match text.chars().position(|c| c.is_control() || c == '?' || c == '#') {
            Some(odd) => {
                let fault = Fault::new("{} has a character that no path has").part(odd, 1);
                Err(fault.help("the query is kept as it is, and cannot be rewritten"))
            }
            None => Ok(text.to_owned()),
        }
    })?;
    let compiled = compiled?;
    if let Some(group) = pattern::missing_group(&compiled, &text) {
        let open = replace.node.scalar().is_some_and(|scalar| scalar.written.is_none());
        let name = if open { format!(" {}", shown(&group)) } else { String::new() };
        let problem = Problem::error(replace.node.at, format!("the pattern has no group{name}"));
        let digits = group.bytes().take_while(u8::is_ascii_digit).count();
        reader.problems.push(if open && digits > 0 && digits < group.len() {
            let (number, rest) = group.split_at(digits);
            problem.help(format!("write `${{{number}}}{rest}` to end the group's number before `{rest}`"))
        } else {
            problem.help("groups are `$1`, `$2` and so on; `$$` is a dollar sign")
        });
    }
    let pattern = field.node.scalar()?.text.clone();
    Some(Spanned { value: PathRewrite::Regex { pattern, replace: text }, at: field.node.at })
}

/// `host` or `host:port`.
pub(super) fn authority(text: &str) -> Result<String, Fault> {
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !text.ends_with(']') => (name, Some(port)),
        _ => (text, None),
    };
    let name = host::literal(name)?;
    match port {
        None => Ok(name),
        Some(port) => {
            let number =
                quantity::count(port, 1, 65_535).map_err(|_| Fault::new("{} has no port from 1 to 65535"))?;
            Ok(format!("{name}:{number}"))
        }
    }
}
