//! The keys by which limits and quotas tell requests apart.

use tollgate_config as config;
use tollgate_policy::By;

pub(super) fn by(written: &config::CountKeyPart) -> By {
    let name = |name: &str| name.into();
    match written {
        config::CountKeyPart::All => By::All,
        config::CountKeyPart::Consumer => By::Consumer,
        config::CountKeyPart::Address => By::Address,
        config::CountKeyPart::Route => By::Route,
        config::CountKeyPart::Header(header) => By::Header(name(header)),
        config::CountKeyPart::Claim(claim) => By::Claim(name(claim)),
        config::CountKeyPart::Cookie(cookie) => By::Cookie(name(cookie)),
        config::CountKeyPart::Query(query) => By::Query(name(query)),
        config::CountKeyPart::Host => By::Host,
        config::CountKeyPart::Path => By::Path,
        config::CountKeyPart::Method => By::Method,
        config::CountKeyPart::Many(parts) => By::Many(parts.iter().map(self::by).collect()),
    }
}
