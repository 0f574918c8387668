//! Compiles `ip`.

use tollgate_config as config;
use tollgate_policy::{Block, IpRules};

pub(super) fn ip(ip: &config::Ip) -> IpRules {
    let blocks = |blocks: &[config::Cidr]| {
        blocks.iter().map(|block| Block { address: block.address, prefix: block.prefix }).collect()
    };
    IpRules { allow: blocks(&ip.allow), deny: blocks(&ip.deny) }
}
