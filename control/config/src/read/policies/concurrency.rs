//! Reads `concurrency`.

use super::by::by;
use super::cost::{cost, exempt, scope};
use crate::model::{Concurrency, Cost, CostBy};
use crate::problem::Problem;
use crate::reader::{Field, Reader, one_or_many};
use crate::spec::CONCURRENCY;
use crate::tree::Node;

pub(super) fn concurrency(reader: &mut Reader, field: Field<'_>) -> Option<Vec<Concurrency>> {
    if one_or_many(field.node).is_empty() {
        reader.missing(field.at, "`concurrency` is an empty list".to_owned(), &field.key.shape);
    }
    let limits = reader.bounded_items(field.node, "`concurrency`").iter();
    Some(limits.filter_map(|node| one(reader, node)).collect())
}

fn one(reader: &mut Reader, node: &Node) -> Option<Concurrency> {
    let fields = reader.fields(node, &CONCURRENCY)?;
    let mut out = Concurrency {
        limit: 0,
        by: by(reader, &fields),
        cost: Cost::default(),
        exempt: exempt(reader, &fields),
        scope: scope(reader, &fields),
        status: None,
        dry_run: false,
    };
    reader.number_into(fields.get("limit"), &mut out.limit);
    out.cost = cost(reader, &fields, out.limit, "`limit`");
    if let (Some(field), CostBy::ResponseHeader(_)) = (fields.get("cost"), &out.cost.by) {
        let problem =
            Problem::error(field.at, "the cost of a concurrent request must be known when it starts");
        reader.problems.push(problem.help("`response_header` is for `rate_limit` and `quota`"));
    }
    out.status = reader.number(fields.get("status")).flatten().and_then(|status| u16::try_from(status).ok());
    reader.switch(fields.get("dry_run"), &mut out.dry_run);
    Some(out)
}
