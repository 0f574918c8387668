//! The settings of `headers`.

use std::sync::Arc;

use tollgate_config::section::{
    Field, Fields, HEADER_NAME, KeySpec, Problem, Reader, ScalarError, Section, Shape, header,
};

use super::HeaderRules;
use crate::policy_config::{Compilation, PolicyConfig, policy_key};
use crate::texts::changeable_name;
use crate::{Planned, Template};

/// Changes fields of requests on their way upstream and of responses on their way back.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "headers_policy", noun = "`headers`", check = check)]
pub(crate) struct HeaderSettings {
    /// Changes of requests.
    #[key(shape = Shape::Section(HeaderChange::SPEC), read = request_change)]
    request: HeaderChange,
    /// Changes of responses, including the gateway's own.
    response: HeaderChange,
}

/// Changes of a message's fields, in this order: `remove`, `set`, `add`.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(noun = "a change of headers")]
pub(crate) struct HeaderChange {
    /// Fields to remove; `X-Debug-*` is every field whose name begins with `X-Debug-`.
    #[key(text = HEADER_NAME, each = response_pattern, what = "a field", also = ["delete", "unset", "hide"])]
    pub remove: Vec<String>,
    /// Fields that replace existing fields of the same name.
    #[key(expected = "a value", loose, pairs = (response_name, Template::parse_header), also = ["replace", "overwrite"])]
    pub set: Vec<(String, Template)>,
    /// Fields that are added to existing fields of the same name.
    #[key(expected = "a value", loose, pairs = (response_name, Template::parse_header), also = ["append"])]
    pub add: Vec<(String, Template)>,
}

impl PolicyConfig for HeaderSettings {
    const KEY: KeySpec =
        policy_key::<Self>("headers", "Adds, replaces and removes fields of requests and responses.")
            .aliases(&["header", "add_header", "proxy_set_header", "request_headers", "response_headers"]);

    fn compile(&self, _: &mut Compilation<'_>) -> Arc<dyn Planned> {
        // The response's changes are behind a pointer, since every exchange keeps them until its response.
        Arc::new(HeaderRules { request: self.request.clone(), response: Arc::new(self.response.clone()) })
    }
}

fn check(reader: &mut Reader, fields: &Fields<'_>, _: &mut HeaderSettings) {
    if fields.get("request").is_none() && fields.get("response").is_none() {
        let problem = Problem::error(fields.at, "`headers` has neither `request` nor `response`");
        reader.problems.push(problem.help("write `headers: {response: {set: {X-Frame-Options: DENY}}}`"));
    }
}

/// Reads the changes of requests. More fields are out of their reach than in responses.
fn request_change(reader: &mut Reader, field: Field<'_>) -> Option<HeaderChange> {
    let fields = reader.fields(field.node, HeaderChange::SPEC)?;
    let remove = fields.get("remove").map(|field| {
        let items = reader.list_items(field, false, false);
        reader.each(items, field, "a field", request_pattern)
    });
    let set = reader.pairs(fields.get("set"), request_name, Template::parse_header);
    let add = reader.pairs(fields.get("add"), request_name, Template::parse_header);
    Some(HeaderChange { remove: remove.unwrap_or_default(), set, add })
}

fn request_name(text: &str) -> Result<String, ScalarError> {
    changeable_name(text, true)
}

fn response_name(text: &str) -> Result<String, ScalarError> {
    changeable_name(text, false)
}

/// Parses a field to remove, or a prefix of names. A prefix spares the fields that a policy may not change.
fn request_pattern(text: &str) -> Result<String, ScalarError> {
    if text.ends_with('*') { header::name_or_begin(text) } else { request_name(text) }
}

fn response_pattern(text: &str) -> Result<String, ScalarError> {
    if text.ends_with('*') { header::name_or_begin(text) } else { response_name(text) }
}
