//! The keys that authentication policies share: the places of a credential, whether a request needs one, and the
//! fields that tell the upstream which consumer it is.

use tollgate_config::section::{
    Field, Fields, HEADER_NAME, Problem, Reader, ScalarError, Section, Shape, Text, header,
};

use crate::texts::{cookie, own_header};
use crate::{CredentialSource, Identity};

/// The name of a query parameter.
pub(crate) static PARAMETER: Text = Text {
    expected: "the name of a parameter such as `api_key`",
    pattern: Some("^[A-Za-z0-9._~-]+$"),
    loose: false,
};
/// The places where a credential may be.
pub(crate) const PLACES: Shape = Shape::OneOrMany(PLACE);
const PLACE: &Shape = &Shape::Section(CredentialPlace::SPEC);

/// The settings that all authentication policies share.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
pub(crate) struct Admission {
    /// Whether a request without such a credential passes, without a consumer. An invalid credential is still
    /// rejected (401).
    #[key(default = off)]
    pub optional: bool,
    #[key(flatten)]
    pub identity: IdentityHeaders,
}

/// The fields that tell the upstream which consumer sent a request.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
pub(crate) struct IdentityHeaders {
    /// The field that tells the upstream the consumer's name. The gateway removes this field from client requests.
    #[key(text = HEADER_NAME, off, parse = own_header, default = "X-Consumer-Name", also = ["user_header", "name_header"])]
    consumer_header: Option<String>,
    /// The field that tells the upstream the consumer's groups, separated by commas. The gateway removes this field
    /// from client requests.
    #[key(text = HEADER_NAME, off, parse = own_header, default = "X-Consumer-Groups")]
    groups_header: Option<String>,
}

impl IdentityHeaders {
    pub fn compile(&self) -> Identity {
        Identity::new(self.consumer_header.clone(), self.groups_header.clone())
    }
}

/// A place in a request where a credential may be.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(
    noun = "an entry of `from`", exactly_one = ["header", "cookie", "query"], makes = CredentialSource, by = place,
)]
struct CredentialPlace {
    /// A field.
    #[key(text = HEADER_NAME, parse = own_header, also = ["name", "field"])]
    header: Option<String>,
    /// The text before the credential in the field, case-insensitive. A field without it holds no credential. In
    /// `jwt`, the default for `Authorization` is `Bearer`.
    #[key(
        expected = "the text before the credential, such as `Bearer`", pattern = "^[!-~]+( [!-~]+)* ?$",
        parse = prefix, also = ["value_prefix", "scheme"],
    )]
    prefix: Option<String>,
    /// A cookie.
    #[key(expected = "the name of a cookie such as `token`", pattern = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", parse = cookie)]
    cookie: Option<String>,
    /// A parameter of the query.
    #[key(text = PARAMETER, parse = parameter, also = ["param", "parameter", "arg"])]
    query: Option<String>,
}

fn place(reader: &mut Reader, fields: &Fields<'_>, keys: CredentialPlace) -> Option<CredentialSource> {
    let CredentialPlace { header, prefix, cookie, query } = keys;
    if fields.get("header").is_some() {
        // A prefix with a mistake is reported, and the place is left out.
        let complete = fields.get("prefix").is_none() || prefix.is_some();
        return header.filter(|_| complete).map(|name| CredentialSource::Header { name, prefix });
    }
    if let Some(field) = fields.get("prefix") {
        reader.problems.push(Problem::error(field.at, "`prefix` goes with `header`"));
    }
    cookie.map(CredentialSource::Cookie).or(query.map(CredentialSource::Query))
}

/// Reads the places of `from`.
pub(crate) fn places(reader: &mut Reader, field: Field<'_>) -> Option<Vec<CredentialSource>> {
    let items = reader.bounded_items(field.node, "`from`");
    let mut out: Vec<CredentialSource> = Vec::new();
    for item in items {
        let Some(place) = CredentialSource::read_section(reader, item) else { continue };
        if out.iter().any(|known| is_same(known, &place)) {
            let problem = Problem::error(item.at, "this place is listed twice");
            reader.problems.push(problem.help("one field cannot have two prefixes"));
            continue;
        }
        out.push(place);
    }
    if items.is_empty() {
        reader.missing(field.node.at, "`from` is an empty list".to_owned(), &field.key.shape);
    }
    Some(out)
}

/// Reports keys that name a place next to `from`.
pub(crate) fn check_places(reader: &mut Reader, fields: &Fields<'_>, others: &[&str]) {
    let Some(field) = fields.get("from") else { return };
    for name in others {
        if let Some(other) = fields.get(name) {
            let problem = Problem::error(other.at, format!("`{name}` and `from` exclude each other"));
            reader.problems.push(problem.related(field.at, "`from` is here"));
        }
    }
}

/// Compares two places; names of fields are case-insensitive.
fn is_same(one: &CredentialSource, two: &CredentialSource) -> bool {
    match (one, two) {
        (CredentialSource::Header { name: one, .. }, CredentialSource::Header { name: two, .. }) => {
            one.eq_ignore_ascii_case(two)
        }
        _ => one == two,
    }
}

/// Parses the text before a credential. Trailing blanks are dropped, as YAML drops them from unquoted text.
fn prefix(text: &str) -> Result<String, ScalarError> {
    let text = text.trim_end();
    let plain = |c: char| c.is_ascii_graphic() || c == ' ';
    match !text.is_empty() && !text.starts_with(' ') && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => Err(ScalarError::new("{} is not a valid prefix of a credential")
            .help("printable ASCII, such as `Bearer`")),
    }
}

/// Parses the name of a query parameter.
pub(crate) fn parameter(text: &str) -> Result<String, ScalarError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte);
    match !text.is_empty() && text.bytes().all(plain) && header::is_token(text) {
        true => Ok(text.to_owned()),
        false => {
            Err(ScalarError::new("{} is not the name of a parameter")
                .help("letters, digits, `.`, `_`, `~`, `-`"))
        }
    }
}
