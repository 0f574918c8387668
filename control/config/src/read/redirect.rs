//! Reads `redirect`.

use super::rewrite::{self, GroupUse};
use crate::model::Redirect;
use crate::problem::Problem;
use crate::reader::{Field, Reader};
use crate::scalar::{ScalarError, host, replacement};
use crate::spec::REDIRECT;
use crate::tree::{NodeKind, Scalar};

/// Statuses that clients follow automatically (RFC 9110, section 15.4).
const STATUSES: [u16; 5] = [301, 302, 303, 307, 308];

pub(super) fn redirect(reader: &mut Reader, field: Field<'_>, uses: &mut Vec<GroupUse>) -> Option<Redirect> {
    let mut out = Redirect { status: 302, to: None, scheme: None, host: None, port: None, path: None };
    if !matches!(field.node.kind, NodeKind::Map(_)) {
        out.to = Some(reader.spanned(field, location)?);
        rewrite::note_uses(field.node, uses);
        return Some(out);
    }
    let fields = reader.fields(field.node, &REDIRECT)?;
    reader.number_into(fields.get("status"), &mut out.status);
    if let (false, Some(status)) = (STATUSES.contains(&out.status), fields.get("status"))
        && let Some(scalar) = status.node.scalar()
    {
        let message = format!("{} is not the status of a redirect", scalar.shown());
        reader.problems.push(Problem::error(status.node.at, message).expected("301, 302, 303, 307 or 308"));
    }
    if let Some(field) = fields.get("to") {
        out.to = reader.spanned(field, location);
        rewrite::note_uses(field.node, uses);
        for name in ["scheme", "host", "port", "replace"] {
            if let Some(part) = fields.get(name) {
                let problem = Problem::error(part.at, format!("`{name}` and `to` exclude each other"));
                reader.problems.push(problem.related(field.at, "`to` is a complete `Location`"));
            }
        }
        return Some(out);
    }
    out.scheme = reader.word(fields.get("scheme")).map(str::to_owned);
    out.host = fields.get("host").and_then(|field| reader.field(field, host::literal));
    out.port = reader.number(fields.get("port")).flatten().and_then(|port| u16::try_from(port).ok());
    out.path = rewrite::path_rewrite(reader, &fields, uses);
    let changes = ["scheme", "host", "port", "path", "prefix", "regex", "replace"];
    if let NodeKind::Map(entries) = &field.node.kind
        && !entries.iter().any(|entry| entry.key == "to" || changes.contains(&entry.key.as_str()))
    {
        reader.problems.push(
            Problem::error(field.node.at, "this redirect changes nothing: a client would loop")
                .expected("`to`, or some of `scheme`, `host`, `port`, `path`, `prefix` and `regex`"),
        );
    }
    Some(out)
}

fn location(text: &str) -> Result<String, ScalarError> {
    let bare = Scalar { text: text.to_owned(), quoted: false, written: None };
    if bare.number().is_some() {
        let fault = ScalarError::new("{} is a status, not a location");
        return Err(fault.suggest(format!("write `redirect: {{status: {text}, to: ...}}`")));
    }
    if let Some(odd) = text.chars().position(|c| c.is_whitespace() || c.is_control() || !c.is_ascii()) {
        let fault = ScalarError::new("{} has a character that is not allowed in URLs").part(odd, 1);
        return Err(fault.help("encode each byte as `%` and two hexadecimal digits"));
    }
    let absolute = text.split_once("://").is_some_and(|(scheme, rest)| {
        let scheme_ok = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
        scheme_ok
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
            && !rest.is_empty()
    });
    if !absolute && !text.starts_with('/') {
        let fault = ScalarError::new("{} is neither a URL nor a path");
        return Err(fault.suggest(format!("write `https://{text}` or `/{text}`")));
    }
    replacement::in_location(text)?;
    Ok(text.to_owned())
}
