//! Reads `endpoints`.

use crate::model::{Endpoint, Scheme, Spanned};
use crate::problem::Problem;
use crate::reader::{Field, Reader, one_or_many};
use crate::scalar::{ScalarError, address};
use crate::spec::{ENDPOINT, ENDPOINT_SHAPE};
use crate::tree::{Node, NodeKind};

/// Reads `http2`: whether the endpoints are reached by HTTP/2.
pub(super) fn http2(reader: &mut Reader, field: Field<'_>, endpoints: &[Endpoint]) -> Option<Spanned<bool>> {
    let start = reader.problems.len();
    let mut value = true;
    reader.switch(Some(field), &mut value);
    let prior = endpoints.iter().find(|endpoint| endpoint.address.value.scheme == Scheme::H2c);
    if let Some(prior) = prior.filter(|_| !value) {
        let problem = Problem::error(field.at, "`http2: off` conflicts with an `h2c://` endpoint");
        let problem = problem.help("write its address without `h2c://`, or remove `http2`");
        reader.problems.push(problem.related(prior.address.at, "this endpoint uses only HTTP/2"));
    }
    (!reader.has_errors_since(start)).then_some(Spanned { value, at: field.at })
}

pub(in crate::read) fn weights(
    reader: &mut Reader,
    node: &Node,
    weights: impl Iterator<Item = u32>,
    noun: &str,
) {
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
    let endpoints: Vec<Endpoint> = items.iter().filter_map(|item| endpoint(reader, item)).collect();
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

fn endpoint(reader: &mut Reader, node: &Node) -> Option<Endpoint> {
    if !matches!(node.kind, NodeKind::Map(_)) {
        let value = reader.parsed(node, "an endpoint", &ENDPOINT_SHAPE, address::endpoint)?;
        return Some(Endpoint {
            address: Spanned { value, at: node.at },
            weight: 1,
            drain: false,
            priority: 0,
            zone: None,
        });
    }
    let fields = reader.fields(node, &ENDPOINT)?;
    let (mut weight, mut priority) = (1, 0);
    reader.number_into(fields.get("weight"), &mut weight);
    reader.number_into(fields.get("priority"), &mut priority);
    let mut drain = false;
    reader.switch(fields.get("drain"), &mut drain);
    let zone = fields.get("zone").and_then(|field| reader.field(field, zone));
    let address = reader.spanned(fields.get("address")?, address::endpoint)?;
    Some(Endpoint { address, weight, drain, priority, zone })
}

/// Checks the name of a zone: an endpoint's, or the gateway's own.
pub(in crate::read) fn zone(text: &str) -> Result<String, ScalarError> {
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
