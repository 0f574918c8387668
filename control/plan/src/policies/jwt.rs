//! `jwt`.

use tollgate_config as config;
use tollgate_config::{JwtKeys, PemFile, Problem};
use tollgate_policy::{Algorithm, FixedKeys, JwtRules, RemoteKeys, Trust};
use tollgate_tls::{Client, ClientFiles, Pem};

use super::shared::identity;

pub(super) fn jwt(spec: &config::Jwt, problems: &mut Vec<Problem>) -> JwtRules {
    let (mut fixed, mut remote) = (FixedKeys::default(), None);
    match &spec.keys {
        JwtKeys::Secret(secret) => fixed = FixedKeys::of_secret(secret.reveal().as_bytes()),
        JwtKeys::File(file) => match FixedKeys::of_jwks(&file.bytes.0) {
            Ok(keys) => fixed = keys,
            Err(why) => {
                let message = format!("{} is not a set of keys: {why}", file.shown);
                problems.push(Problem::error(file.at, message).expected("a JWK set (RFC 7517)"));
            }
        },
        JwtKeys::Url { url, ca, refresh, cooldown, timeout } => {
            remote = Some(RemoteKeys {
                url: url.clone(),
                tls: trust(url, ca.as_ref(), problems),
                refresh: *refresh,
                cooldown: *cooldown,
                timeout: *timeout,
            });
        }
    }
    JwtRules {
        fixed,
        remote,
        algorithms: spec.algorithms.iter().filter_map(|name| Algorithm::of(name)).collect(),
        issuers: spec.issuers.clone(),
        audiences: spec.audiences.clone(),
        leeway: spec.leeway,
        cookie: spec.cookie.clone(),
        forward: spec.forward,
        claims: spec.claims.clone(),
        headers: spec.headers.clone(),
        consumer_claim: spec.consumer_claim.clone(),
        groups_claim: spec.groups_claim.clone(),
        identity: identity(&spec.identity),
        cache: spec.cache,
    }
}

/// Whom the service at an URL has to show itself to be.
pub(super) fn trust(url: &str, ca: Option<&PemFile>, problems: &mut Vec<Problem>) -> Trust {
    if !url.starts_with("https:") && ca.is_none() {
        return Trust::default();
    }
    let authorities = ca.map(|file| Pem::from(file.bytes.0.as_slice()));
    match Client::new(&ClientFiles { authorities, ..ClientFiles::default() }) {
        Ok(client) => Trust::new(Some(client)),
        Err(found) => {
            let at = ca.map(|file| file.at).unwrap_or_default();
            let shown = ca.map_or(String::new(), |file| format!("cannot use {}: ", file.shown));
            let message = |problem: &tollgate_tls::Problem| format!("{shown}{}", problem.message);
            problems.extend(found.iter().map(|problem| Problem::error(at, message(problem))));
            Trust::default()
        }
    }
}
