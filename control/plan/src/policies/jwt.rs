//! Compiles `jwt`. Files with keys are parsed here; keys at a URL are fetched at run time.

use tollgate_config as config;
use tollgate_config::{JwtKeys, Problem};
use tollgate_policy::{Algorithm, FixedKeys, IssuerRules, JwtRules, RemoteKeyRules};

use super::shared::{credential_places, identity, trust};

pub(super) fn jwt(spec: &config::Jwt, problems: &mut Vec<Problem>) -> JwtRules {
    JwtRules {
        issuers: spec.issuers.iter().map(|one| issuer(one, problems)).collect(),
        leeway: spec.leeway,
        from: credential_places(&spec.from),
        forward: spec.forward,
        optional: spec.optional,
        headers: spec.headers.clone(),
        identity: identity(&spec.identity),
        cache: spec.cache,
    }
}

fn issuer(spec: &config::JwtIssuer, problems: &mut Vec<Problem>) -> IssuerRules {
    let (mut fixed, mut remote) = (FixedKeys::default(), None);
    match &spec.keys {
        JwtKeys::Secret(secret) => fixed = FixedKeys::of_secret(secret.reveal().as_bytes()),
        JwtKeys::File(file) => match FixedKeys::of_file(&file.bytes.0) {
            Ok(keys) => fixed = keys,
            Err(why) => {
                let message = format!("{} is not a set of keys: {why}", file.shown);
                let expected = "a JWK set (RFC 7517), or public keys in PEM";
                problems.push(Problem::error(file.at, message).expected(expected));
            }
        },
        JwtKeys::Url { url, ca, refresh, cooldown, timeout } => {
            remote = Some(RemoteKeyRules {
                url: url.clone(),
                tls: trust(url, ca.as_ref(), problems),
                refresh: *refresh,
                cooldown: *cooldown,
                timeout: *timeout,
            });
        }
    }
    IssuerRules {
        names: spec.names.clone(),
        fixed,
        remote,
        algorithms: spec.algorithms.iter().filter_map(|name| Algorithm::of(name)).collect(),
        audiences: spec.audiences.clone(),
        claims: spec.claims.clone(),
        consumer_claim: spec.consumer_claim.clone(),
        groups_claim: spec.groups_claim.clone(),
    }
}
