//! Reads `grpc` of a match: a service and a method, which form a path.

use crate::model::{PathMatch, Spanned};
use crate::problem::Problem;
use crate::reader::{Field, Reader};
use crate::scalar::{ScalarError, pattern};
use crate::spec::{GRPC, GRPC_NAME};
use crate::tree::NodeKind;

/// The required name of a service or method.
enum GrpcName {
    Exact(String),
    Regex(String),
}

/// Reads the path of the calls.
pub(super) fn call(reader: &mut Reader, field: Field<'_>) -> Option<Spanned<PathMatch>> {
    let at = field.node.at;
    if !matches!(field.node.kind, NodeKind::Map(_)) {
        return reader.spanned(field, short);
    }
    let fields = reader.fields(field.node, &GRPC)?;
    if fields.get("service").is_none() && fields.get("method").is_none() {
        let problem = Problem::error(at, "`grpc` names neither a service nor a method");
        reader.problems.push(problem.help("remove it to match every call"));
        return None;
    }
    let service = fields.get("service").map(|field| name(reader, field, service));
    let method = fields.get("method").map(|field| name(reader, field, method));
    let value = match (service, method) {
        (Some(None), _) | (_, Some(None)) => return None,
        (Some(Some(GrpcName::Exact(service))), Some(Some(GrpcName::Exact(method)))) => {
            PathMatch::Exact(format!("/{service}/{method}"))
        }
        (Some(Some(GrpcName::Exact(service))), None) => PathMatch::Prefix(format!("/{service}")),
        (service, method) => {
            let part = |name: Option<Option<GrpcName>>| match name.flatten() {
                None => "[^/]+".to_owned(),
                // The name has letters, digits, `_` and `.`; only `.` has a meaning in a pattern.
                Some(GrpcName::Exact(name)) => name.replace('.', r"\."),
                Some(GrpcName::Regex(regex)) => format!("(?:{regex})"),
            };
            let regex = format!("/{}/{}", part(service), part(method));
            if pattern::regex(&regex, true).is_err() {
                let problem = Problem::error(at, "the two patterns cannot be combined");
                reader.problems.push(problem.help("write `path: {regex: ...}` and `method: POST`"));
                return None;
            }
            PathMatch::Regex(regex)
        }
    };
    Some(Spanned { value, at })
}

/// Parses `SERVICE` or `SERVICE/METHOD`.
fn short(text: &str) -> Result<PathMatch, ScalarError> {
    if let Some(rest) = text.strip_prefix('/') {
        let rest = rest.trim_end_matches("/*");
        return Err(ScalarError::new("{} begins with `/`").suggest(format!("write `{rest}`")));
    }
    match text.split_once('/') {
        None => service(text).map(|service| PathMatch::Prefix(format!("/{service}"))),
        Some((name, "*")) => Err(ScalarError::new("{} has a `*`, which a service does not need")
            .suggest(format!("write `{name}`"))),
        Some((name, rpc)) => {
            let (name, rpc) = (service(name)?, method(rpc)?);
            Ok(PathMatch::Exact(format!("/{name}/{rpc}")))
        }
    }
}

fn name(
    reader: &mut Reader,
    field: Field<'_>,
    exact: impl Fn(&str) -> Result<String, ScalarError>,
) -> Option<GrpcName> {
    if !matches!(field.node.kind, NodeKind::Map(_)) {
        return reader.field(field, exact).map(GrpcName::Exact);
    }
    let fields = reader.fields(field.node, &GRPC_NAME)?;
    if let Some(field) = fields.get("exact") {
        return reader.field(field, exact).map(GrpcName::Exact);
    }
    let field = fields.get("regex")?;
    reader.field(field, |text| pattern::regex(text, true).map(|_| GrpcName::Regex(text.to_owned())))
}

fn service(text: &str) -> Result<String, ScalarError> {
    identifier(text, '.', "a service has a package and a name: `shop.Orders`")
}

fn method(text: &str) -> Result<String, ScalarError> {
    identifier(text, '_', "a method's name is letters, digits and `_`")
}

/// Checks a name of letters, digits, `_` and one additional character.
fn identifier(text: &str, more: char, help: &'static str) -> Result<String, ScalarError> {
    let odd = |c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == more);
    if let Some(odd) = text.chars().position(odd) {
        return Err(ScalarError::new("{} has a character that no such name has").part(odd, 1).help(help));
    }
    let starts = |part: &str| part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    match text.split('.').all(starts) {
        true => Ok(text.to_owned()),
        false => Err(ScalarError::new("{} is not a valid name").help(help)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_form() {
        assert_eq!(short("shop.Orders").ok(), Some(PathMatch::Prefix("/shop.Orders".into())));
        assert_eq!(short("shop.Orders/Place").ok(), Some(PathMatch::Exact("/shop.Orders/Place".into())));
        for text in ["", "/a", "a/*", "a//b", "a/", "a b", "a/b/c", ".a", "a..b", "1a", "a/b.c", "a*"] {
            assert!(short(text).is_err(), "{text}");
        }
    }
}
