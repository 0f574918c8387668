//! `concurrency`.

use super::by::by;
use crate::model::Concurrency;
use crate::reader::{Field, Reader, one_or_many};
use crate::spec::CONCURRENCY;
use crate::tree::Node;

pub(super) fn concurrency(reader: &mut Reader, field: Field<'_>) -> Option<Vec<Concurrency>> {
    if one_or_many(field.node).is_empty() {
        reader.missing(field.at, "`concurrency` is an empty list".to_owned(), &field.key.shape);
    }
    let limits = reader.few(field.node, "`concurrency`").iter();
    Some(limits.filter_map(|node| one(reader, node)).collect())
}

fn one(reader: &mut Reader, node: &Node) -> Option<Concurrency> {
    let fields = reader.fields(node, &CONCURRENCY)?;
    let mut out = Concurrency { limit: 0, by: by(reader, &fields), dry_run: false };
    reader.number_into(fields.get("limit"), &mut out.limit);
    reader.switch(fields.get("dry_run"), &mut out.dry_run);
    Some(out)
}
