//! Targets of a route: `to`.

use crate::position::{At, Spanned};
use crate::scalar::address::{self, EndpointAddress, TargetText};
use crate::section::{Field, Fields, Reader, Section, Shape, Value, Word, one_or_many};

use super::respond::Respond;
use super::texts::{ENDPOINT_TEXT, TARGET_TEXT, UPSTREAM_NAME};
use super::upstream::weights;

/// The destination of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// An endpoint's address, written in the route.
    Endpoint(EndpointAddress),
    /// An entry under `upstreams`.
    Upstream(String),
    /// A fixed response.
    Respond(Box<Respond>),
    /// The end of the connection, or of the datagram: only in streams.
    Close,
}

impl From<TargetText> for TargetKind {
    fn from(text: TargetText) -> Self {
        match text {
            TargetText::Endpoint(endpoint) => Self::Endpoint(endpoint),
            TargetText::Upstream(name) => Self::Upstream(name),
        }
    }
}

/// A weighted destination of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The destination.
    pub to: TargetKind,
    /// Share of the requests, relative to the route's other targets. Default 1; 0 takes none.
    pub weight: u32,
    /// Source position of the target.
    pub at: At,
}

/// A weighted destination of requests.
#[derive(Clone, Debug, Section)]
#[section(
    name = "target", noun = "a target", exactly_one = ["address", "upstream", "respond"], own_forms, makes = Target,
    by = target
)]
struct TargetKeys {
    /// An endpoint.
    #[key(text = ENDPOINT_TEXT, parse = address::endpoint, also = ["endpoint", "host", "url", "to"])]
    address: Option<Spanned<EndpointAddress>>,
    /// The name of an upstream.
    #[key(text = UPSTREAM_NAME, parse = address::upstream, also = ["name"])]
    upstream: Option<Spanned<String>>,
    /// A fixed response: a status, a text, or a mapping.
    #[key(also = ["return", "response", "direct_response"])]
    respond: Option<Respond>,
    // The bound is far above any sensible share. The sum stays within 32 bits for a thousand entries.
    /// Share of the requests; 0 takes none.
    #[key(count = 0..=1_000_000, default = 1)]
    weight: u32,
}

/// How a stream answers without an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Word)]
pub enum StreamRespond {
    /// It closes the connection, or drops the datagram.
    Close,
}

/// A target of a stream. Its fixed answer is an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamTarget(Target);

/// A weighted destination of connections.
#[derive(Clone, Debug, Section)]
#[section(
    name = "stream_target", noun = "a target", exactly_one = ["address", "upstream", "respond"], own_forms,
    makes = StreamTarget, by = stream_target
)]
struct StreamTargetKeys {
    /// An endpoint.
    #[key(text = ENDPOINT_TEXT, parse = address::endpoint, also = ["endpoint", "host", "url", "to"])]
    address: Option<Spanned<EndpointAddress>>,
    /// The name of an upstream.
    #[key(text = UPSTREAM_NAME, parse = address::upstream, also = ["name"])]
    upstream: Option<Spanned<String>>,
    /// Closes the connection, or drops the datagram, instead.
    #[key(also = ["return", "close", "deny", "reject"])]
    respond: Option<StreamRespond>,
    /// Share of the connections or sessions; 0 takes none.
    #[key(count = 0..=1_000_000, default = 1)]
    weight: u32,
}

fn target(reader: &mut Reader, fields: &Fields<'_>, keys: TargetKeys) -> Option<Target> {
    let TargetKeys { address, upstream, respond, weight } = keys;
    if let Some(field) = fields.get("respond") {
        return Some(Target { to: TargetKind::Respond(Box::new(respond?)), weight, at: field.at });
    }
    addressed(reader, fields, (address, upstream), weight)
}

fn stream_target(reader: &mut Reader, fields: &Fields<'_>, keys: StreamTargetKeys) -> Option<StreamTarget> {
    let StreamTargetKeys { address, upstream, respond, weight } = keys;
    if let Some(field) = fields.get("respond") {
        let StreamRespond::Close = respond?;
        return Some(StreamTarget(Target { to: TargetKind::Close, weight, at: field.at }));
    }
    addressed(reader, fields, (address, upstream), weight).map(StreamTarget)
}

/// Returns the target at an address, or the named upstream.
fn addressed(
    reader: &mut Reader,
    fields: &Fields<'_>,
    (address, upstream): (Option<Spanned<EndpointAddress>>, Option<Spanned<String>>),
    weight: u32,
) -> Option<Target> {
    if fields.get("address").is_some() {
        let Spanned { value, at } = address?;
        return Some(Target { to: TargetKind::Endpoint(value), weight, at });
    }
    let Spanned { value: name, at } = upstream?;
    if let Some(field) = fields.get("upstream") {
        reader.refer_to_upstream(&name, field.node);
    }
    Some(Target { to: TargetKind::Upstream(name), weight, at })
}

/// A text, or a mapping if the key allows one.
impl Value for Target {
    const SHAPE: Shape = Shape::AnyOf(&[Shape::Text(&TARGET_TEXT), Shape::Section(Self::SPEC)]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        // The target of a fallback is always a text.
        if field.is_mapping() && !matches!(field.key.shape, Shape::Text(_)) {
            return Self::read_section(reader, field.node);
        }
        text(reader, field)
    }
}

impl Value for StreamTarget {
    const SHAPE: Shape = Shape::AnyOf(&[Shape::Text(&TARGET_TEXT), Shape::Section(Self::SPEC)]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        if field.is_mapping() {
            return Self::read_section(reader, field.node);
        }
        text(reader, field).map(Self)
    }
}

/// Reads a target that is written as a text.
fn text(reader: &mut Reader, field: Field<'_>) -> Option<Target> {
    let to = reader.parsed(field.node, "`to`", field.key.shape.one(), address::target)?;
    if let TargetText::Upstream(name) = &to {
        reader.refer_to_upstream(name, field.node);
    }
    Some(Target { to: to.into(), weight: 1, at: field.node.at })
}

/// Reads the targets of a route.
pub(crate) fn targets(reader: &mut Reader, field: Field<'_>) -> Option<Vec<Target>> {
    all(reader, field, Target::read)
}

/// Reads the targets of a stream.
pub(crate) fn stream_targets(reader: &mut Reader, field: Field<'_>) -> Option<Vec<Target>> {
    all(reader, field, |reader, field| StreamTarget::read(reader, field).map(|StreamTarget(target)| target))
}

fn all(
    reader: &mut Reader,
    field: Field<'_>,
    read: impl Fn(&mut Reader, Field<'_>) -> Option<Target>,
) -> Option<Vec<Target>> {
    let items = one_or_many(field.node);
    if items.is_empty() {
        reader.missing(field.node.at, "`to` is an empty list".to_owned(), &field.key.shape);
    }
    let targets: Vec<Target> =
        items.iter().filter_map(|node| read(reader, Field { node, ..field })).collect();
    if targets.len() == items.len() {
        weights(reader, field.node, targets.iter().map(|target| target.weight), "target");
    }
    Some(targets)
}
