//! `forward_auth` and `ext_authz`: a service decides whether a request may proceed.

use std::time::Duration;

use super::{IdentityHeaders, own_header};
use crate::model::PemFile;
use crate::scalar::{field as header, quantity};
use crate::section::{Field, Fields, Problem, Reader, ScalarError, Section, Shape, Text};
use crate::sections::texts::HEADER_NAME;

/// The URL of a service.
pub(crate) static URL: Text = Text {
    expected: "a URL such as `http://auth.internal:9000/verify`",
    pattern: Some("^https?://"),
    loose: false,
};
/// The CA of a service.
pub(crate) static CA: Text =
    Text { expected: "the path of a file such as `/etc/tollgate/ca.pem`", pattern: Some("."), loose: false };
/// Maximum bytes of a body that a service receives.
const BODY_MAX: u64 = 16 << 20;
const BODY_LIMIT: Shape = Shape::Size { min: 1, max: BODY_MAX, off: true };
const BODY_SHAPE: Shape = Shape::AnyOf(&[BODY_LIMIT, Shape::Section(BodyKeys::SPEC)]);
const BODY_OR_BYTES_SHAPE: Shape = Shape::AnyOf(&[BODY_LIMIT, Shape::Section(BodyOrBytesKeys::SPEC)]);
const BODY_ALSO: &[&str] =
    &["with_request_body", "forward_body", "forwardBody", "include_body", "request_body", "max_body_size"];

/// A service decides whether a request may proceed: a 2xx response admits it, any other response is sent to
/// the client.
#[derive(Clone, Debug, PartialEq, Section)]
#[section(name = "forward_auth_policy", noun = "`forward_auth`", check = check_forward_auth)]
pub struct ForwardAuth {
    /// URL of the service.
    #[key(text = URL, parse = url, required, decisive, also = ["uri", "address", "auth_request", "service", "endpoint"])]
    pub url: String,
    /// Maximum time for its answer; after it the request is rejected.
    #[key(time = "1ms"..="1m", default = "1s")]
    pub timeout: Duration,
    /// Request fields that it receives. Default: all except connection-specific ones.
    #[key(text = HEADER_NAME, each = header::name, also = ["authRequestHeaders", "auth_request_headers"])]
    pub request_headers: Option<Vec<String>>,
    /// Fields of its answer that are added to the upstream request. The gateway removes them from client
    /// requests.
    #[key(
        text = HEADER_NAME, each = own_header,
        also = ["authResponseHeaders", "upstream_headers", "copy_headers", "auth_response_headers"]
    )]
    pub response_headers: Vec<String>,
    /// Whether the service also receives the request's body, and its maximum size. The body is forwarded
    /// upstream unchanged.
    #[key(shape = BODY_SHAPE, read = body, default = off, also = BODY_ALSO)]
    pub body: Option<AuthBody>,
    /// The field of its answer that holds the consumer's name.
    #[key(text = HEADER_NAME, parse = header::name)]
    pub consumer: Option<String>,
    /// The field of its answer that holds the consumer's groups, separated by commas.
    #[key(text = HEADER_NAME, parse = header::name)]
    pub groups: Option<String>,
    /// Fields that tell the upstream which consumer it is.
    #[key(flatten)]
    pub identity: IdentityHeaders,
    /// A PEM file of CA certificates that verify the certificate of the URL. Default: the system's trust
    /// store.
    #[key(text = CA, also = ["cas", "ca_file", "trust"])]
    pub ca: Option<PemFile>,
}

/// A service that speaks Envoy's gRPC protocol (`envoy.service.auth.v3.Authorization`) decides whether a
/// request may proceed.
#[derive(Clone, Debug, PartialEq, Section)]
#[section(name = "ext_authz_policy", noun = "`ext_authz`", check = check_ext_authz)]
pub struct ExtAuthz {
    /// URL of the service, without the method; `http://` means HTTP/2 in plain text.
    #[key(
        text = URL, parse = base_url, required, decisive,
        also = ["grpc_service", "uri", "address", "service", "target_uri", "endpoint"]
    )]
    pub url: String,
    /// Maximum time for its answer.
    #[key(time = "1ms"..="1m", default = "1s")]
    pub timeout: Duration,
    /// Whether requests proceed if the service gives no answer, or none in time.
    #[key(default = off, also = ["failure_mode_allow"])]
    pub fail_open: bool,
    /// Fields that only the service may set. The gateway removes them from client requests.
    #[key(name = "reserved_headers", text = HEADER_NAME, each = own_header, what = "an entry of `reserved_headers`")]
    pub reserved: Vec<String>,
    /// Additional context that the service receives.
    #[key(expected = "a text", loose, pairs = (any_text, any_text), also = ["context_extensions"])]
    pub context: Vec<(String, String)>,
    /// Whether the service also receives the request's body, and its maximum size. The body is forwarded
    /// upstream unchanged.
    #[key(shape = BODY_OR_BYTES_SHAPE, read = body_or_bytes, default = off, also = BODY_ALSO)]
    pub body: Option<AuthBody>,
    /// The field of its answer that holds the consumer's name.
    #[key(text = HEADER_NAME, parse = header::name)]
    pub consumer: Option<String>,
    /// The field of its answer that holds the consumer's groups, separated by commas.
    #[key(text = HEADER_NAME, parse = header::name)]
    pub groups: Option<String>,
    /// Fields that tell the upstream which consumer it is.
    #[key(flatten)]
    pub identity: IdentityHeaders,
    /// A PEM file of CA certificates that verify the service's certificate. Default: the system's trust
    /// store.
    #[key(text = CA, also = ["cas", "ca_file", "trust"])]
    pub ca: Option<PemFile>,
}

/// `body` of an authorization service: how much of a request's body the service receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthBody {
    /// Maximum bytes of the body.
    pub max: usize,
    /// Whether a larger body is truncated for the service; otherwise the request is rejected. Default false.
    pub partial: bool,
    /// Whether `ext_authz` sends the body in `raw_body` even if it is text. Default false.
    pub as_bytes: bool,
}

/// The request's body, for the service.
#[derive(Clone, Debug, Section)]
#[section(name = "forward_auth_body", noun = "`body`")]
struct BodyKeys {
    /// Maximum bytes of the body that are read for the service.
    #[key(
        size = 1..=BODY_MAX, required,
        also = ["max_request_bytes", "max_body_size", "max_size", "size", "limit"]
    )]
    max: usize,
    /// Whether the service gets the beginning of a larger body; otherwise such a request is rejected (413).
    #[key(default = off, also = ["allow_partial_message", "allow_partial"])]
    partial: bool,
}

/// The request's body, for the service.
#[derive(Clone, Debug, Section)]
#[section(name = "ext_authz_body", noun = "`body`")]
struct BodyOrBytesKeys {
    /// How much of the body it receives.
    #[key(flatten, required)]
    body: BodyKeys,
    /// Whether the body is always sent in `raw_body`. By default a UTF-8 body is in `body`, and any other in
    /// `raw_body`.
    #[key(default = off, also = ["pack_as_bytes"])]
    as_bytes: bool,
}

fn body(reader: &mut Reader, field: Field<'_>) -> Option<AuthBody> {
    if field.is_mapping() {
        let BodyKeys { max, partial } = reader.section(field)?;
        return Some(AuthBody { max, partial, as_bytes: false });
    }
    short_body(reader, field)
}

fn body_or_bytes(reader: &mut Reader, field: Field<'_>) -> Option<AuthBody> {
    if field.is_mapping() {
        let BodyOrBytesKeys { body: BodyKeys { max, partial }, as_bytes } = reader.section(field)?;
        return Some(AuthBody { max, partial, as_bytes });
    }
    short_body(reader, field)
}

/// Reads a size, or `off`.
fn short_body(reader: &mut Reader, field: Field<'_>) -> Option<AuthBody> {
    if field.is_off() {
        return None;
    }
    let max = reader.field(field, |text| quantity::size(text, 1, BODY_MAX))?;
    Some(AuthBody { max: usize::try_from(max).ok()?, partial: false, as_bytes: false })
}

fn check_forward_auth(reader: &mut Reader, fields: &Fields<'_>, policy: &mut ForwardAuth) {
    check_groups(reader, fields, policy.consumer.as_deref());
}

fn check_ext_authz(reader: &mut Reader, fields: &Fields<'_>, policy: &mut ExtAuthz) {
    check_groups(reader, fields, policy.consumer.as_deref());
}

fn check_groups(reader: &mut Reader, fields: &Fields<'_>, consumer: Option<&str>) {
    if let Some(field) = fields.get("groups").filter(|_| consumer.is_none()) {
        let problem = Problem::error(field.at, "`groups` needs `consumer`");
        reader.problems.push(problem.help("groups belong to a consumer"));
    }
}

fn any_text(text: &str) -> Result<String, ScalarError> {
    Ok(text.to_owned())
}

/// Parses the URL of a service.
pub(crate) fn url(text: &str) -> Result<String, ScalarError> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let Some(rest) = rest else {
        return Err(ScalarError::new("{} is not an `http` or `https` URL"));
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let odd = |c: char| !c.is_ascii_graphic() || "\"<>\\^`{|}#".contains(c);
    if authority.is_empty() || authority.contains('@') || text.chars().any(odd) {
        return Err(ScalarError::new("{} is not a valid URL").help("`https://host:port/path`"));
    }
    // The client that requests the URL needs a path.
    Ok(if path.is_empty() { format!("{text}/") } else { text.to_owned() })
}

/// Parses a URL to which the method's path is appended.
fn base_url(text: &str) -> Result<String, ScalarError> {
    match text.contains('?') {
        true => {
            Err(ScalarError::new("{} has a query")
                .help("the method's path is added to it: `http://host:port`"))
        }
        false => url(text),
    }
}
