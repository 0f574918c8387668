//! `endpoints`: one address, or several with weights.

use crate::position::Spanned;
use crate::scalar::address::{self, EndpointAddress};
use crate::section::{
    Field, Node, NodeKind, Problem, Reader, ScalarError, Section, Shape, Value, one_or_many,
};

use super::super::texts::{ENDPOINT_TEXT, ZONE};

/// Maximum weight, far above any sensible share. The sum stays within 32 bits for a thousand entries.
pub(crate) const WEIGHT_MAX: u64 = 1_000_000;

pub(crate) static ENDPOINT_SHAPE: Shape = <Endpoint as Value>::SHAPE;

/// One endpoint of an upstream.
#[derive(Clone, Debug, Section)]
#[section(noun = "an endpoint", own_forms)]
pub struct Endpoint {
    /// Where it is.
    #[key(text = ENDPOINT_TEXT, parse = address::endpoint, required, also = ["endpoint", "host", "url", "to"])]
    pub address: Spanned<EndpointAddress>,
    /// Share of the requests; 0 takes none.
    #[key(count = 0..=WEIGHT_MAX, default = 1)]
    pub weight: u32,
    /// Whether it is drained: new requests go elsewhere, and active ones finish.
    #[key(default = off, also = ["maintenance", "down", "disabled", "draining"])]
    pub drain: bool,
    /// Endpoints with 0 are used first; a higher number is used if too few endpoints with lower numbers are
    /// healthy.
    #[key(count = 0..=255, default = 0, also = ["backup", "failover", "tier"])]
    pub priority: u8,
    /// Its zone; endpoints in the gateway's own `zone` are preferred.
    #[key(
        text = ZONE, parse = zone,
        also = ["locality", "az", "availability_zone", "region"]
    )]
    pub zone: Option<String>,
}

impl Endpoint {
    /// Returns its share of the requests: 0 while it is drained.
    #[must_use]
    pub fn share(&self) -> u32 {
        if self.drain { 0 } else { self.weight }
    }

    fn of_node(reader: &mut Reader, node: &Node) -> Option<Self> {
        if matches!(node.kind, NodeKind::Map(_)) {
            return Self::read_section(reader, node);
        }
        let value = reader.parsed(node, "an endpoint", &ENDPOINT_SHAPE, address::endpoint)?;
        let address = Spanned { value, at: node.at };
        Some(Self { address, weight: 1, drain: false, priority: 0, zone: None })
    }
}

impl Value for Endpoint {
    const SHAPE: Shape = Shape::AnyOf(&[Shape::Text(&ENDPOINT_TEXT), Shape::Section(Endpoint::SPEC)]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        Self::of_node(reader, field.node)
    }
}

pub(crate) fn weights(reader: &mut Reader, node: &Node, weights: impl Iterator<Item = u32>, noun: &str) {
    let mut any = false;
    let mut sum: u64 = 0;
    for weight in weights {
        any = true;
        sum += u64::from(weight);
    }
    if any && sum == 0 {
        let problem = Problem::error(node.at, format!("every {noun} has weight 0: no request could be sent"));
        reader.problems.push(problem.help("give one of them a weight of at least 1"));
    }
    if sum > u64::from(u32::MAX) {
        reader.problems.push(Problem::error(node.at, "the weights add up to more than 4294967295"));
    }
}

/// Reads the configured endpoints. With `needed`, an empty list is an error, because there is no other source
/// of endpoints.
pub(crate) fn endpoints(reader: &mut Reader, node: &Node, needed: bool) -> Vec<Endpoint> {
    let items = one_or_many(node);
    if items.is_empty() && needed {
        reader.missing(node.at, "an upstream without endpoints".to_owned(), &ENDPOINT_SHAPE);
    }
    let endpoints: Vec<Endpoint> = items.iter().filter_map(|item| Endpoint::of_node(reader, item)).collect();
    if endpoints.len() == items.len() {
        weights(reader, node, endpoints.iter().map(Endpoint::share), "endpoint");
    }
    for (i, endpoint) in endpoints.iter().enumerate().take(1000) {
        let same = |other: &&Endpoint| other.address.value == endpoint.address.value;
        if let Some(twin) = endpoints[..i].iter().find(same) {
            let problem = Problem::warning(endpoint.address.at, "this endpoint is listed twice");
            reader.problems.push(
                problem
                    .help("give it a weight instead: `{address: ..., weight: 2}`")
                    .related(twin.address.at, "first written here"),
            );
        }
    }
    endpoints
}

/// Checks the name of a zone: an endpoint's, or the gateway's own.
pub(crate) fn zone(text: &str) -> Result<String, ScalarError> {
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':');
    if let Some(odd) = text.chars().position(|c| !known(c)) {
        let fault = ScalarError::new("{} is not the name of a zone").part(odd, 1);
        return Err(fault.help("it has letters, digits, `_`, `-`, `.`, `/` and `:`"));
    }
    if text.is_empty() || text.len() > 128 {
        return Err(ScalarError::new("{} is not the name of a zone").help("it has 1 to 128 characters"));
    }
    Ok(text.to_owned())
}
