//! Reads `quota`.

use super::by::by;
use super::cost::{cost, exempt, scope};
use super::redis;
use super::shared::limit_name;
use crate::model::{Cost, Period, Quota, RateLimit};
use crate::reader::{Field, Reader, one_or_many};
use crate::spec::QUOTA;
use crate::tree::Node;

pub(super) fn quota(reader: &mut Reader, field: Field<'_>) -> Option<Vec<Quota>> {
    if one_or_many(field.node).is_empty() {
        reader.missing(field.at, "`quota` is an empty list".to_owned(), &field.key.shape);
    }
    let quotas = reader.bounded_items(field.node, "`quota`").iter();
    Some(quotas.filter_map(|node| one(reader, node)).collect())
}

fn one(reader: &mut Reader, node: &Node) -> Option<Quota> {
    let fields = reader.fields(node, &QUOTA)?;
    let mut out = Quota {
        name: limit_name(reader, &fields),
        limit: 0,
        per: Period::Day,
        by: by(reader, &fields),
        cost: Cost::default(),
        exempt: exempt(reader, &fields),
        scope: scope(reader, &fields),
        keys: RateLimit::KEYS,
        headers: false,
        status: None,
        dry_run: false,
        redis: redis::redis(reader, &fields),
    };
    reader.number_into(fields.get("limit"), &mut out.limit);
    out.cost = cost(reader, &fields, out.limit, "`limit`");
    reader.number_into(fields.get("keys"), &mut out.keys);
    reader.switch(fields.get("headers"), &mut out.headers);
    out.status = reader.number(fields.get("status")).flatten().and_then(|status| u16::try_from(status).ok());
    reader.switch(fields.get("dry_run"), &mut out.dry_run);
    if reader.word(fields.get("per")) == Some("month") {
        out.per = Period::Month;
    }
    Some(out)
}
