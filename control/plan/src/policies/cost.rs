//! How much a request counts towards a limit, and which requests are exempt.

use tollgate_config as config;
use tollgate_policy::{Block, Cost, CostSource, Exempt};

/// Returns the cost rule of a limit that admits at most `most` at once.
pub(super) fn cost(cost: &config::Cost, most: u64) -> Cost {
    let name = |name: &str| name.into();
    Cost {
        by: match &cost.by {
            config::CostBy::Constant => CostSource::Constant,
            config::CostBy::Methods(methods) => {
                CostSource::Method(methods.iter().map(|(method, cost)| (name(method), *cost)).collect())
            }
            config::CostBy::Header(header) => CostSource::Header(name(header)),
            config::CostBy::ResponseHeader(header) => CostSource::Response(name(header)),
        },
        default: cost.default,
        max: cost.max.unwrap_or(most),
    }
}

pub(super) fn exempt(exempt: &config::Exempt) -> Exempt {
    let block = |block: &config::Cidr| Block { address: block.address, prefix: block.prefix };
    Exempt {
        addresses: exempt.addresses.iter().map(block).collect(),
        consumers: exempt.consumers.clone(),
        groups: exempt.groups.clone(),
        methods: exempt.methods.clone(),
        headers: exempt.headers.clone(),
    }
}
