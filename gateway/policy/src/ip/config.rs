//! The settings of `ip`.

use std::sync::Arc;

use tollgate_config::Cidr;
use tollgate_config::section::{ADDRESSES, Fields, KeySpec, Problem, Reader, Section, addresses};

use super::{Block, IpRules};
use crate::Planned;
use crate::policy_config::{Compilation, PolicyConfig, policy_key};

/// Admits or rejects client addresses, as determined behind `forwarded.trusted_proxies`.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "ip_policy", noun = "`ip`", check = check)]
pub(crate) struct IpSettings {
    /// Admitted addresses. Default: all.
    #[key(shape = ADDRESSES, read = addresses)]
    allow: Vec<Cidr>,
    /// Rejected addresses, even if `allow` contains them.
    #[key(shape = ADDRESSES, read = addresses)]
    deny: Vec<Cidr>,
}

fn check(reader: &mut Reader, fields: &Fields<'_>, _: &mut IpSettings) {
    if fields.get("allow").is_none() && fields.get("deny").is_none() {
        let problem =
            Problem::error(fields.at, "`ip` has neither `allow` nor `deny`: it admits every client");
        reader.problems.push(problem.expected("some of `allow` and `deny`, or `off`"));
    }
}

impl PolicyConfig for IpSettings {
    const KEY: KeySpec = policy_key::<Self>("ip", "Admits or rejects client addresses (403).").aliases(&[
        "ip_filter",
        "whitelist",
        "ipAllowList",
        "allow",
        "deny",
    ]);
    const IS_GUARD: bool = true;

    fn compile(&self, _: &mut Compilation<'_>) -> Arc<dyn Planned> {
        let blocks = |blocks: &[Cidr]| {
            blocks.iter().map(|block| Block { address: block.address, prefix: block.prefix }).collect()
        };
        Arc::new(IpRules { allow: blocks(&self.allow), deny: blocks(&self.deny) })
    }
}
