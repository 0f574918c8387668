//! `ip`: admits or rejects client addresses.

use crate::model::Cidr;
use crate::section::{Field, Fields, Problem, Reader, Section};
use crate::sections::blocks;
use crate::sections::texts::CIDR;

/// Admits or rejects client addresses, as determined behind `forwarded.trusted_proxies`.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "ip_policy", noun = "`ip`", check = check)]
pub struct Ip {
    /// Admitted addresses. Default: all.
    #[key(text = CIDR, list, read = addresses)]
    pub allow: Vec<Cidr>,
    /// Rejected addresses, even if `allow` contains them.
    #[key(text = CIDR, list, read = addresses)]
    pub deny: Vec<Cidr>,
}

fn addresses(reader: &mut Reader, field: Field<'_>) -> Option<Vec<Cidr>> {
    Some(blocks(reader, field, "an address"))
}

fn check(reader: &mut Reader, fields: &Fields<'_>, _: &mut Ip) {
    if fields.get("allow").is_none() && fields.get("deny").is_none() {
        let message = "`ip` has neither `allow` nor `deny`: it admits every client";
        let problem = Problem::error(fields.at, message);
        reader.problems.push(problem.expected("some of `allow` and `deny`, or `off`"));
    }
}
