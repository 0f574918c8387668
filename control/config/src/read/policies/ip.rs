//! Reads `ip`.

use crate::model::Ip;
use crate::problem::Problem;
use crate::reader::{Field, Reader};
use crate::sections::blocks;
use crate::spec::IP_POLICY;

pub(super) fn ip(reader: &mut Reader, field: Field<'_>) -> Option<Ip> {
    let fields = reader.fields(field.node, &IP_POLICY)?;
    let mut list = |name| match fields.get(name) {
        Some(field) => blocks(reader, field, "an address"),
        None => Vec::new(),
    };
    let out = Ip { allow: list("allow"), deny: list("deny") };
    if out == Ip::default() && fields.get("allow").is_none() && fields.get("deny").is_none() {
        let problem = Problem::error(field.at, "`ip` has neither `allow` nor `deny`: it admits every client");
        reader.problems.push(problem.expected("some of `allow` and `deny`, or `off`"));
    }
    Some(out)
}
