//! A route's conditions on method, headers and query, compiled.

use regex_automata::meta::Regex;

use super::error::{BuildError, RoutePosition};
use super::{pattern, query};
use crate::{FieldSpec, Request, RouteSpec, ValueSpec};

/// A route's conditions apart from host and path.
pub(crate) struct Conditions {
    methods: Box<[Box<[u8]>]>,
    headers: Box<[FieldCondition]>,
    query: Box<[FieldCondition]>,
}

struct FieldCondition {
    name: Box<str>,
    value: ValueCondition,
}

enum ValueCondition {
    Present,
    Absent,
    Exact(Box<[u8]>),
    Regex(Regex),
    NotExact(Box<[u8]>),
    NotRegex(Regex),
}

impl Conditions {
    /// Compiles the conditions of route number `route`; problems are appended to `errors`.
    pub(crate) fn new(route: u32, spec: &RouteSpec, errors: &mut Vec<BuildError>) -> Self {
        let mut fields = |fields: &[FieldSpec], place: fn(usize) -> RoutePosition| {
            let compiled = fields.iter().enumerate().filter_map(|(at, field)| {
                let mut regex = |text: &str| {
                    let compiled = pattern::parse(text).and_then(|hir| pattern::one(&hir));
                    let fail = |message| errors.push(BuildError::Regex { route, place: place(at), message });
                    compiled.map_err(fail).ok()
                };
                let value = match &field.value {
                    ValueSpec::Present => ValueCondition::Present,
                    ValueSpec::Absent => ValueCondition::Absent,
                    ValueSpec::Exact(text) => ValueCondition::Exact(text.as_bytes().into()),
                    ValueSpec::Regex(text) => ValueCondition::Regex(regex(text)?),
                    ValueSpec::NotExact(text) => ValueCondition::NotExact(text.as_bytes().into()),
                    ValueSpec::NotRegex(text) => ValueCondition::NotRegex(regex(text)?),
                };
                Some(FieldCondition { name: field.name.as_str().into(), value })
            });
            compiled.collect::<Box<[FieldCondition]>>()
        };
        Self {
            headers: fields(&spec.headers, RoutePosition::Header),
            query: fields(&spec.query, RoutePosition::Query),
            methods: spec.methods.iter().map(|method| method.as_bytes().into()).collect(),
        }
    }

    /// Returns whether all conditions hold.
    pub(crate) fn hold<R: Request + ?Sized>(&self, request: &R) -> bool {
        self.method_holds(request)
            && (self.headers.is_empty() || self.failing_header(request).is_none())
            && (self.query.is_empty() || self.failing_query(request).is_none())
    }

    /// Returns whether the method condition holds.
    pub(crate) fn method_holds<R: Request + ?Sized>(&self, request: &R) -> bool {
        self.methods.is_empty() || self.methods.iter().any(|method| **method == *request.method())
    }

    /// Returns the name in the first header condition that fails.
    pub(crate) fn failing_header<R: Request + ?Sized>(&self, request: &R) -> Option<&str> {
        let fails = |field: &&FieldCondition| match request.has_unknown(&field.name) {
            true => matches!(field.value, ValueCondition::Absent),
            false => !field.value.fits(request.header(&field.name)),
        };
        self.headers.iter().find(fails).map(|field| &*field.name)
    }

    /// Returns the name in the first query condition that fails.
    pub(crate) fn failing_query<R: Request + ?Sized>(&self, request: &R) -> Option<&str> {
        let sent = request.query().unwrap_or_default();
        let fails =
            |field: &&FieldCondition| !field.value.fits_encoded(query::first(sent, field.name.as_bytes()));
        self.query.iter().find(fails).map(|field| &*field.name)
    }
}

impl ValueCondition {
    fn fits(&self, sent: Option<&[u8]>) -> bool {
        match (self, sent) {
            (ValueCondition::Absent, sent) => sent.is_none(),
            (ValueCondition::NotExact(_) | ValueCondition::NotRegex(_), None) => true,
            (_, None) => false,
            (ValueCondition::Present, Some(_)) => true,
            (ValueCondition::NotExact(text), Some(sent)) => **text != *sent,
            (ValueCondition::NotRegex(regex), Some(sent)) => !regex.is_match(sent),
            (ValueCondition::Exact(text), Some(sent)) => **text == *sent,
            (ValueCondition::Regex(regex), Some(sent)) => regex.is_match(sent),
        }
    }

    fn fits_encoded(&self, sent: Option<&[u8]>) -> bool {
        match (self, sent) {
            (ValueCondition::Exact(text), Some(sent)) => query::is_form_encoding(sent, text),
            (ValueCondition::Regex(regex), Some(sent)) => query::decoded(sent, |sent| regex.is_match(sent)),
            (ValueCondition::NotExact(text), Some(sent)) => !query::is_form_encoding(sent, text),
            (ValueCondition::NotRegex(regex), Some(sent)) => {
                query::decoded(sent, |sent| !regex.is_match(sent))
            }
            _ => self.fits(sent),
        }
    }
}
