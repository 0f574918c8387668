//! Targets of a route: `to`.

use crate::model::{EndpointAddress, Spanned, Target, TargetKind};
use crate::scalar::address;
use crate::section::{Field, Fields, Reader, Section, Shape, Value};

use super::texts::{ENDPOINT_TEXT, TARGET_TEXT, UPSTREAM_NAME};

/// A weighted destination of requests.
#[derive(Clone, Debug, Section)]
#[section(
    name = "target", noun = "a target", exactly_one = ["address", "upstream"], own_forms, makes = Target,
    by = target
)]
struct TargetKeys {
    /// An endpoint.
    #[key(text = ENDPOINT_TEXT, parse = address::endpoint, also = ["endpoint", "host", "url", "to"])]
    address: Option<Spanned<EndpointAddress>>,
    /// The name of an upstream.
    #[key(text = UPSTREAM_NAME, parse = address::upstream, also = ["name"])]
    upstream: Option<Spanned<String>>,
    // The bound is far above any sensible share. The sum stays within 32 bits for a thousand entries.
    /// Share of the requests; 0 takes none.
    #[key(count = 0..=1_000_000, default = 1)]
    weight: u32,
}

fn target(_: &mut Reader, fields: &Fields<'_>, keys: TargetKeys) -> Option<Target> {
    let TargetKeys { address, upstream, weight } = keys;
    let (to, at) = match fields.get("address") {
        Some(_) => address.map(|address| (TargetKind::Endpoint(address.value), address.at))?,
        None => upstream.map(|upstream| (TargetKind::Upstream(upstream.value), upstream.at))?,
    };
    Some(Target { to, weight, at })
}

/// A text, or a mapping if the key allows one.
impl Value for Target {
    const SHAPE: Shape = Shape::AnyOf(&[Shape::Text(&TARGET_TEXT), Shape::Section(Self::SPEC)]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        // The target of a fallback is always a text.
        if field.is_mapping() && !matches!(field.key.shape, Shape::Text(_)) {
            return Self::read_section(reader, field.node);
        }
        let to = reader.parsed(field.node, "`to`", field.key.shape.one(), address::target)?;
        Some(Self { to, weight: 1, at: field.node.at })
    }
}
