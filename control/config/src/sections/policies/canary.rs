//! `canary`: chooses one of the route's upstreams.

use super::cookie;
use crate::model::{Percent, Spanned};
use crate::scalar::{address, field as header};
use crate::section::{Field, Reader, ScalarError, Section, Shape, Text, Value, one_or_many};
use crate::sections::texts::UPSTREAM_NAME;

static VALUE: Text = Text { expected: "a value, or `*` for any", pattern: None, loose: true };
static RULE: Shape = Shape::Section(CanaryRule::SPEC);

/// Sends matching requests to one of their route's upstreams, regardless of weights. The first rule that
/// matches applies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Canary {
    /// The rules, in the order tried.
    pub rules: Vec<CanaryRule>,
}

/// The key that decides whether a request belongs to the percentage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CanaryBy {
    /// A random sample per request.
    #[default]
    Random,
    /// The identified consumer; otherwise the client's address.
    Consumer,
    /// The client's address.
    Address,
    /// A header; if it is missing, the client's address.
    Header(String),
    /// A cookie; if it is missing, the client's address.
    Cookie(String),
}

impl Value for Canary {
    const SHAPE: Shape = Shape::AnyOf(&[Shape::Off, Shape::Section(CanaryRule::SPEC), Shape::ListOf(&RULE)]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        if one_or_many(field.node).is_empty() {
            reader.missing(field.at, "`canary` is an empty list".to_owned(), &field.key.shape);
        }
        let items = reader.list_items(field, true, false);
        Some(Self { rules: items.iter().filter_map(|item| Section::read_section(reader, item)).collect() })
    }
}

/// A rule that sends requests to one of the route's upstreams, regardless of weights. All of its conditions
/// must hold.
#[derive(Clone, Debug, PartialEq, Section)]
#[section(noun = "a rule of `canary`")]
pub struct CanaryRule {
    /// One of the route's upstreams, by name; its weight may be 0.
    #[key(text = UPSTREAM_NAME, parse = address::upstream, required, also = ["upstream", "backend", "service", "target"])]
    pub to: Spanned<String>,
    /// Headers that a request must have, with these values.
    #[key(text = VALUE, pairs = (lower, value), also = ["header"])]
    pub headers: Vec<(String, Option<String>)>,
    /// Cookies that a request must have, with these values.
    #[key(text = VALUE, pairs = (cookie, value), also = ["cookie"])]
    pub cookies: Vec<(String, Option<String>)>,
    /// Percentage of these requests.
    #[key(percent = 0..=100, default = "100%", also = ["percentage", "share", "weight"])]
    pub percent: Percent,
    /// The key that keeps a client in the same sample; `random`: each request is sampled independently.
    #[key(
        expected = "`random`, `consumer`, `address`, `header NAME` or `cookie NAME`",
        pattern = r"^(random|consumer|address|(header|cookie) \S+)$", parse = by, default = random,
        also = ["sticky", "hash", "key"]
    )]
    pub by: CanaryBy,
}

fn lower(name: &str) -> Result<String, ScalarError> {
    header::name(name).map(|name| name.to_ascii_lowercase())
}

/// Parses a required value; `None`: any.
fn value(text: &str) -> Result<Option<String>, ScalarError> {
    header::value(text).map(|value| Some(value).filter(|value| value != "*"))
}

fn by(text: &str) -> Result<CanaryBy, ScalarError> {
    let (word, name) = text.split_once(' ').map_or((text, None), |(word, name)| (word, Some(name.trim())));
    match (word, name) {
        ("random", None) => Ok(CanaryBy::Random),
        ("consumer", None) => Ok(CanaryBy::Consumer),
        ("address", None) => Ok(CanaryBy::Address),
        ("header", Some(name)) => lower(name).map(CanaryBy::Header),
        ("cookie", Some(name)) => cookie(name).map(CanaryBy::Cookie),
        _ => Err(ScalarError::new("{} is not a value of `by`")),
    }
}
