//! `respond`: a fixed response, for the requests of a route or in place of errors.

use serde_json::Value as Json;

use crate::scalar::{field as header, quantity};
use crate::section::{
    Field, Fields, Node, NodeKind, Problem, Reader, Scalar, ScalarError, Section, Shape, Text, Value,
    one_or_many, shown,
};

use super::condition::VALUE;
use super::texts::{BODY, HEADER_NAME};

/// Maximum bytes of a body in a configuration. A larger one belongs on a file server.
const BODY_MAX: usize = 1 << 20;

/// Not loose: an unquoted number is a status.
static SHORT_BODY: Text = Text { expected: "a text", pattern: None, loose: false };
static CONTENT_TYPE: Text =
    Text { expected: "a media type such as `application/json`", pattern: Some("/"), loose: false };
static HEADER_VALUE: Shape = Shape::Text(&VALUE);
static HEADER_VALUES: Shape = Shape::OneOrMany(&HEADER_VALUE);

/// A fixed response. `respond: 204`, `respond: "text"`, or a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Respond {
    /// Status, 200 to 599. Default 200.
    pub status: u16,
    /// Header fields, in order. If there is a body, the reader ensures that `Content-Type` is among them
    /// (`text/plain; charset=utf-8`, or `application/json` for `json:`). Fields that frame the message are
    /// never among them.
    pub headers: Vec<(String, String)>,
    /// Body.
    pub body: Vec<u8>,
}

/// A fixed response that may leave its status to the error that it replaces.
#[derive(Clone, Debug)]
pub(crate) struct FixedResponse {
    /// The response, with status 200 if none is given.
    pub respond: Respond,
    /// The status, if one is given.
    pub status: Option<u16>,
}

/// A fixed response.
#[derive(Clone, Debug, Section)]
#[section(
    name = "respond", noun = "a response", at_most_one = ["body", "json"], own_forms, makes = FixedResponse,
    by = response
)]
struct RespondKeys {
    /// 200 to 599.
    #[key(count = 200..=599, default = 200, absent = None, also = ["code"])]
    status: Option<u16>,
    /// Header fields: a text or a list of texts each.
    #[key(shape = Shape::MapOf(&HEADER_VALUES), read = headers, also = ["header"])]
    headers: Vec<(String, String)>,
    /// The body.
    #[key(text = BODY, parse = body, also = ["text"])]
    body: Option<Vec<u8>>,
    /// A body of JSON, written as YAML.
    #[key(shape = Shape::Anything, read = json_body)]
    json: Option<Json>,
    /// The `Content-Type`.
    #[key(text = CONTENT_TYPE, parse = content_type, also = ["type"])]
    content_type: Option<String>,
}

fn response(reader: &mut Reader, fields: &Fields<'_>, keys: RespondKeys) -> Option<FixedResponse> {
    let RespondKeys { status, headers, body, json, content_type } = keys;
    let mut out = FixedResponse::new(status);
    out.respond.headers = headers;
    if let Some(field) = fields.get("content_type") {
        if out.respond.has_content_type() {
            let message = "`content_type` and a `Content-Type` header exclude each other";
            reader.problems.push(Problem::error(field.at, message));
        }
        out.respond.headers.extend(content_type.map(|value| ("Content-Type".to_owned(), value)));
    }
    if let Some(json) = json {
        out.respond.body = json.to_string().into_bytes();
        if !out.respond.has_content_type() {
            out.respond.headers.push(("Content-Type".to_owned(), "application/json".to_owned()));
        }
    } else if let Some(body) = body {
        out.respond.body = body;
    }
    if let Some(field) = fields.get("json").or_else(|| fields.get("body")) {
        check_body(reader, field, &out.respond);
    }
    Some(out)
}

/// Reports a body that the status excludes, or that is too large.
fn check_body(reader: &mut Reader, field: Field<'_>, respond: &Respond) {
    // RFC 9110, sections 15.3.5, 15.3.6 and 15.4.5.
    if matches!(respond.status, 204 | 205 | 304) && !respond.body.is_empty() {
        let problem =
            Problem::error(field.at, format!("a response of status {} has no body", respond.status));
        reader.problems.push(problem.help("remove the body, or use another status"));
    }
    if respond.body.len() > BODY_MAX {
        reader.problems.push(Problem::error(field.at, "this body is larger than 1 MiB"));
    }
}

impl FixedResponse {
    fn new(status: Option<u16>) -> Self {
        let respond = Respond { status: status.unwrap_or(200), headers: Vec::new(), body: Vec::new() };
        Self { respond, status }
    }
}

impl Respond {
    fn has_content_type(&self) -> bool {
        self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
    }
}

/// A status, a text or a mapping.
impl Value for FixedResponse {
    const SHAPE: Shape = Shape::AnyOf(&[
        Shape::Count { min: 200, max: 599, off: false },
        Shape::Text(&SHORT_BODY),
        Shape::Section(Self::SPEC),
    ]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        let mut out = if field.is_mapping() {
            reader.section::<Self>(field)?
        } else if field.node.scalar().is_some_and(|scalar| scalar.number().is_some()) {
            let status = reader.field(field, |text| quantity::count(text, 200, 599))?;
            Self::new(u16::try_from(status).ok())
        } else {
            let mut out = Self::new(None);
            out.respond.body = reader.field(field, body)?;
            out
        };
        if !out.respond.has_content_type() && !out.respond.body.is_empty() {
            out.respond.headers.push(("Content-Type".to_owned(), "text/plain; charset=utf-8".to_owned()));
        }
        Some(out)
    }
}

impl Value for Respond {
    const SHAPE: Shape = FixedResponse::SHAPE;

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        FixedResponse::read(reader, field).map(|fixed| fixed.respond)
    }
}

fn body(text: &str) -> Result<Vec<u8>, ScalarError> {
    if text.len() > BODY_MAX {
        Err(ScalarError::new("{} is larger than 1 MiB"))
    } else {
        Ok(text.as_bytes().to_vec())
    }
}

fn headers(reader: &mut Reader, field: Field<'_>) -> Option<Vec<(String, String)>> {
    let NodeKind::Map(entries) = &field.node.kind else {
        reader.mismatch(field.node, "`headers`", field.key.shape.expected());
        return None;
    };
    let mut out = Vec::new();
    let one = if let Shape::MapOf(Shape::OneOrMany(one)) = &field.key.shape { one } else { &field.key.shape };
    for entry in entries {
        if header::is_framing(&entry.key) {
            let message = format!("{} cannot be set in a response", shown(&entry.key));
            reader.problems.push(
                Problem::error(entry.at, message)
                    .help("only the gateway controls the message framing: remove it"),
            );
            continue;
        }
        if let Err(fault) = header::name(&entry.key) {
            let message = fault.message.replacen("{}", &shown(&entry.key), 1);
            reader.problems.push(Problem::error(entry.at, message).expected(HEADER_NAME.expected));
            continue;
        }
        for item in one_or_many(&entry.value) {
            let value = reader.parsed(item, &shown(&entry.key), one, header::value);
            out.extend(value.map(|value| (entry.key.clone(), value)));
        }
    }
    Some(out)
}

fn content_type(text: &str) -> Result<String, ScalarError> {
    match header::value(text) {
        Ok(value) if !value.contains('/') => Err(ScalarError::new("{} is not a media type")),
        other => other,
    }
}

fn json_body(_: &mut Reader, field: Field<'_>) -> Option<Json> {
    Some(json(field.node))
}

/// Converts YAML's core types to JSON: unquoted text may be a number, `true`, `false` or null.
#[must_use]
pub fn json(node: &Node) -> Json {
    match &node.kind {
        NodeKind::Invalid => Json::Null,
        NodeKind::List(items) => items.iter().map(json).collect(),
        NodeKind::Map(entries) => {
            entries.iter().map(|entry| (entry.key.clone(), json(&entry.value))).collect()
        }
        NodeKind::Scalar(scalar) => plain(scalar),
    }
}

fn plain(scalar: &Scalar) -> Json {
    let text = scalar.text.as_str();
    if scalar.is_null() {
        return Json::Null;
    }
    if scalar.quoted {
        return Json::from(text);
    }
    match text {
        "true" | "True" | "TRUE" => return Json::Bool(true),
        "false" | "False" | "FALSE" => return Json::Bool(false),
        _ => {}
    }
    // JSON's own number grammar; `007` and `1_000` stay text.
    match serde_json::from_str::<Json>(text) {
        Ok(number @ Json::Number(_)) => number,
        _ => Json::from(text),
    }
}
