//! The keys by which limits and quotas tell requests apart.

use tollgate_config as config;
use tollgate_policy::CountKey;

pub(super) fn by(written: &config::CountKeyPart) -> CountKey {
    let name = |name: &str| name.into();
    match written {
        config::CountKeyPart::All => CountKey::All,
        config::CountKeyPart::Consumer => CountKey::Consumer,
        config::CountKeyPart::Address => CountKey::Address,
        config::CountKeyPart::Route => CountKey::Route,
        config::CountKeyPart::Header(header) => CountKey::Header(name(header)),
        config::CountKeyPart::Claim(claim) => CountKey::Claim(name(claim)),
        config::CountKeyPart::Cookie(cookie) => CountKey::Cookie(name(cookie)),
        config::CountKeyPart::Query(query) => CountKey::Query(name(query)),
        config::CountKeyPart::Host => CountKey::Host,
        config::CountKeyPart::Path => CountKey::Path,
        config::CountKeyPart::Method => CountKey::Method,
        config::CountKeyPart::Many(parts) => CountKey::Many(parts.iter().map(self::by).collect()),
    }
}
