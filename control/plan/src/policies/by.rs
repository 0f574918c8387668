//! The keys by which limits and quotas tell requests apart.

use tollgate_config as config;
use tollgate_policy::By;

pub(super) fn by(written: &config::By) -> By {
    let name = |name: &str| name.into();
    match written {
        config::By::All => By::All,
        config::By::Consumer => By::Consumer,
        config::By::Address => By::Address,
        config::By::Route => By::Route,
        config::By::Header(header) => By::Header(name(header)),
        config::By::Claim(claim) => By::Claim(name(claim)),
        config::By::Cookie(cookie) => By::Cookie(name(cookie)),
        config::By::Query(query) => By::Query(name(query)),
        config::By::Host => By::Host,
        config::By::Path => By::Path,
        config::By::Method => By::Method,
        config::By::Many(parts) => By::Many(parts.iter().map(self::by).collect()),
    }
}
