//! `grpc` of a match: a service and a method, which form a path.

use crate::position::Spanned;
use crate::scalar::pattern;
use crate::section::{Field, Problem, Reader, ScalarError, Section, Shape, Text};

use super::path_match::PathMatch;

/// The pattern of a service with its package.
macro_rules! service {
    () => {
        "[A-Za-z_][0-9A-Za-z_.]*"
    };
}

/// The pattern of a method.
macro_rules! method {
    () => {
        "[A-Za-z_][0-9A-Za-z_]*"
    };
}

static CALL: Text = Text {
    expected: "a service such as `shop.Orders`, or a method of it such as `shop.Orders/Place`",
    pattern: Some(concat!("^", service!(), "(/", method!(), ")?$")),
    loose: false,
};
static SERVICE: Text = Text {
    expected: "a name such as `shop.Orders`",
    pattern: Some(concat!("^", service!(), "$")),
    loose: false,
};
static RPC: Text =
    Text { expected: "a method such as `Place`", pattern: Some(concat!("^", method!(), "$")), loose: false };
static NAME_REGEX: Text =
    Text { expected: "a regular expression such as `shop\\..*`", pattern: Some("."), loose: true };
/// The short form, or a mapping.
pub(crate) const GRPC_SHAPE: Shape = Shape::AnyOf(&[Shape::Text(&CALL), Shape::Section(GrpcKeys::SPEC)]);

/// Condition on gRPC calls. The short form is `SERVICE` or `SERVICE/METHOD`.
#[derive(Clone, Debug, Section)]
#[section(name = "grpc", noun = "a gRPC match")]
struct GrpcKeys {
    /// The service with its package, such as `shop.Orders`. Default: any.
    #[key(shape = Shape::AnyOf(&[Shape::Text(&SERVICE), Shape::Section(NameKeys::SPEC)]), read = service_name)]
    service: Option<GrpcName>,
    /// The method, such as `Place`. Default: any.
    #[key(shape = Shape::AnyOf(&[Shape::Text(&RPC), Shape::Section(NameKeys::SPEC)]), read = method_name)]
    method: Option<GrpcName>,
}

/// Condition on the name of a service or method. The short form is the exact name.
#[derive(Clone, Debug, Section)]
#[section(name = "grpc_name", noun = "a gRPC name", exactly_one = ["exact", "regex"])]
struct NameKeys {
    /// Exactly this.
    #[key(text = SERVICE, read = as_service_or_method)]
    exact: (),
    /// A regular expression that the whole name must match.
    #[key(text = NAME_REGEX, parse = pattern::whole)]
    regex: Option<String>,
}

/// The required name of a service or method.
#[derive(Clone, Debug)]
enum GrpcName {
    Exact(String),
    Regex(String),
}

/// Reads the path of the calls.
pub(crate) fn grpc_match(reader: &mut Reader, field: Field<'_>) -> Option<Spanned<PathMatch>> {
    let at = field.node.at;
    if !field.is_mapping() {
        return reader.spanned(field, short);
    }
    let fields = reader.fields_of(field, GrpcKeys::SPEC)?;
    let GrpcKeys { service, method } = GrpcKeys::read_keys(reader, &fields)?;
    let (has_service, has_method) = (fields.get("service").is_some(), fields.get("method").is_some());
    if !has_service && !has_method {
        let problem = Problem::error(at, "`grpc` names neither a service nor a method");
        reader.problems.push(problem.help("remove it to match every call"));
        return None;
    }
    if has_service != service.is_some() || has_method != method.is_some() {
        return None;
    }
    let value = match (service, method) {
        (Some(GrpcName::Exact(service)), Some(GrpcName::Exact(method))) => {
            PathMatch::Exact(format!("/{service}/{method}"))
        }
        (Some(GrpcName::Exact(service)), None) => PathMatch::Prefix(format!("/{service}")),
        (service, method) => {
            let part = |name: Option<GrpcName>| match name {
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

fn service_name(reader: &mut Reader, field: Field<'_>) -> Option<GrpcName> {
    name(reader, field, service)
}

fn method_name(reader: &mut Reader, field: Field<'_>) -> Option<GrpcName> {
    name(reader, field, method)
}

fn name(
    reader: &mut Reader,
    field: Field<'_>,
    exact: impl Fn(&str) -> Result<String, ScalarError>,
) -> Option<GrpcName> {
    if !field.is_mapping() {
        return reader.field(field, exact).map(GrpcName::Exact);
    }
    let fields = reader.fields_of(field, NameKeys::SPEC)?;
    let NameKeys { exact: (), regex } = NameKeys::read_keys(reader, &fields)?;
    match fields.get("exact") {
        Some(field) => reader.field(field, exact).map(GrpcName::Exact),
        None => regex.map(GrpcName::Regex),
    }
}

/// Skips a key that [`name`] reads, because its parser differs between services and methods.
fn as_service_or_method(_: &mut Reader, _: Field<'_>) -> Option<()> {
    Some(())
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
