//! Reads `jwt`.

use std::time::Duration;

use super::authorize::{claims, word};
use super::credential::places;
use crate::model::{At, CredentialSource, Jwt, JwtIssuer, JwtKeys, PemFile, Secret};
use crate::problem::Problem;
use crate::reader::{Field, Fields, Reader};
use crate::scalar::ScalarError;
use crate::section::Section;
use crate::sections::IdentityHeaders;
use crate::sections::consumers::texts;
use crate::sections::policies::url;
use crate::sections::policies::{cookie, own_header};
use crate::sections::tls::pem;
use crate::spec::{JWT_ALGORITHMS, JWT_ISSUER, JWT_POLICY};
use crate::suggest;
use crate::tree::NodeKind;

pub(super) fn jwt(reader: &mut Reader, field: Field<'_>) -> Option<Jwt> {
    let fields = reader.fields(field.node, &JWT_POLICY)?;
    let issuers = match fields.get("issuers") {
        Some(list) => several(reader, &fields, list)?,
        None => vec![issuer(reader, &fields, None)?],
    };
    let from = places(reader, &fields, &["cookie"], true).unwrap_or_else(|| usual_places(reader, &fields));
    let mut out = Jwt {
        issuers,
        leeway: Duration::from_secs(30),
        from,
        forward: true,
        optional: false,
        headers: reader.pairs(fields.get("claim_headers"), claim_header, word),
        identity: IdentityHeaders::default(),
        cache: 1000,
    };
    reader.time_into(fields.get("leeway"), &mut out.leeway);
    reader.switch(fields.get("forward"), &mut out.forward);
    reader.switch(fields.get("optional"), &mut out.optional);
    out.identity = IdentityHeaders::read_keys(reader, &fields).unwrap_or_default();
    match reader.number(fields.get("cache")) {
        Some(Some(tokens)) => out.cache = usize::try_from(tokens).unwrap_or(out.cache),
        Some(None) => out.cache = 0,
        None => {}
    }
    Some(out)
}

/// Returns the default places: `Authorization`, and the cookie that `cookie` names.
fn usual_places(reader: &mut Reader, fields: &Fields<'_>) -> Vec<CredentialSource> {
    let bearer =
        CredentialSource::Header { name: "Authorization".to_owned(), prefix: Some("Bearer".to_owned()) };
    let cookie = fields.get("cookie").and_then(|field| reader.field(field, cookie));
    std::iter::once(bearer).chain(cookie.map(CredentialSource::Cookie)).collect()
}

/// Reads the entries of `issuers`. The policy's audiences and claims apply to entries without their own.
fn several(reader: &mut Reader, fields: &Fields<'_>, list: Field<'_>) -> Option<Vec<JwtIssuer>> {
    for name in ["issuer", "algorithms", "refresh", "cooldown", "timeout", "ca"] {
        if let Some(field) = fields.get(name) {
            let problem = Problem::error(field.at, format!("write `{name}` in each entry of `issuers`"));
            reader.problems.push(problem.related(list.at, "`issuers` is here"));
        }
    }
    let NodeKind::List(items) = &list.node.kind else {
        reader.mismatch(list.node, "`issuers`", list.key.shape.expected());
        return None;
    };
    if items.is_empty() {
        reader.missing(list.node.at, "`issuers` is an empty list".to_owned(), &list.key.shape);
    }
    let items = reader.bounded_items(list.node, "`issuers`");
    let mut out: Vec<JwtIssuer> = Vec::new();
    let mut known: Vec<(String, At)> = Vec::new();
    for item in items {
        let Some(own) = reader.fields(item, &JWT_ISSUER) else { continue };
        let Some(one) = issuer(reader, &own, Some(fields)) else { continue };
        let at = own.get("issuer").map_or(item.at, |field| field.at);
        for name in &one.names {
            match known.iter().find(|(known, _)| known == name) {
                // Otherwise the order would decide which keys verify a token.
                Some((_, first)) => reader.problems.push(
                    Problem::error(at, "two of `issuers` have the same `issuer`")
                        .related(*first, "first written here"),
                ),
                None => known.push((name.clone(), at)),
            }
        }
        out.push(one);
    }
    Some(out)
}

/// Reads an issuer from the policy itself or from an entry of `issuers`. In the latter case, `shared` is the
/// policy.
fn issuer(reader: &mut Reader, fields: &Fields<'_>, shared: Option<&Fields<'_>>) -> Option<JwtIssuer> {
    let keys = keys(reader, fields)?;
    let secret = matches!(keys, JwtKeys::Secret(_));
    let own_or_shared = |name| fields.get(name).or_else(|| shared?.get(name));
    let mut out = JwtIssuer {
        keys,
        algorithms: match secret {
            true => vec!["HS256"],
            false => JWT_ALGORITHMS.iter().filter(|name| !name.starts_with("HS")).copied().collect(),
        },
        names: texts(reader, fields.get("issuer"), word),
        audiences: texts(reader, own_or_shared("audience"), word),
        claims: own_or_shared("claims").map(|field| claims(reader, field)).unwrap_or_default(),
        consumer_claim: "sub".to_owned(),
        groups_claim: "groups".to_owned(),
    };
    if shared.is_some()
        && let Some(field) = fields.get("issuer").filter(|_| out.names.is_empty() && reader.complete)
    {
        reader.missing(field.node.at, "`issuer` is empty".to_owned(), &field.key.shape);
    }
    if let Some(field) = fields.get("algorithms") {
        out.algorithms = texts(reader, Some(field), algorithm);
        let shared = |name: &&&str| name.starts_with("HS");
        let wrong = match (secret, &out.keys) {
            (true, _) => out.algorithms.iter().find(|name| !shared(name)),
            (false, JwtKeys::Url { .. }) => out.algorithms.iter().find(shared),
            (false, _) => None,
        };
        if let Some(name) = wrong {
            let of = if secret { "a shared secret" } else { "public keys" };
            let problem = Problem::error(field.at, format!("`{name}` cannot be used with {of}"));
            reader.problems.push(problem.help(
                "`HS` algorithms need a shared secret (with a public key anyone could \
                    sign); all others need a public key",
            ));
        }
    }
    for (name, claim) in
        [("consumer_claim", &mut out.consumer_claim), ("groups_claim", &mut out.groups_claim)]
    {
        if let Some(text) = own_or_shared(name).and_then(|field| reader.field(field, word)) {
            *claim = text;
        }
    }
    Some(out)
}

fn keys(reader: &mut Reader, fields: &Fields<'_>) -> Option<JwtKeys> {
    let Some(field) = fields.get("jwks") else {
        let secret = reader.field(fields.get("secret")?, secret)?;
        only_of_urls(reader, fields);
        return Some(JwtKeys::Secret(secret));
    };
    let text = field.node.scalar().map(|scalar| scalar.text.as_str()).unwrap_or_default();
    if !text.contains("://") {
        let file: PemFile = pem(reader, field)?;
        only_of_urls(reader, fields);
        return Some(JwtKeys::File(file));
    }
    let url = reader.field(field, url)?;
    let (mut refresh, mut cooldown, mut timeout) =
        (Duration::from_secs(300), Duration::from_secs(5), Duration::from_secs(5));
    reader.time_into(fields.get("refresh"), &mut refresh);
    reader.time_into(fields.get("cooldown"), &mut cooldown);
    reader.time_into(fields.get("timeout"), &mut timeout);
    let ca = fields.get("ca").and_then(|field| pem(reader, field));
    Some(JwtKeys::Url { url, ca, refresh, cooldown, timeout })
}

fn only_of_urls(reader: &mut Reader, fields: &Fields<'_>) {
    for name in ["ca", "refresh", "cooldown", "timeout"] {
        if let Some(field) = fields.get(name) {
            let problem = Problem::error(field.at, format!("`{name}` applies only to keys from a URL"));
            reader.problems.push(problem.help("remove it, or write a URL for `jwks`"));
        }
    }
}

fn secret(text: &str) -> Result<Secret, ScalarError> {
    // RFC 7518, 3.2: the secret is at least as long as the hash.
    match text.len() < 32 {
        true => Err(ScalarError::new("the secret is shorter than 32 bytes")
            .help("`openssl rand -base64 48` makes one")),
        false => Ok(Secret::from(text.to_owned())),
    }
}

fn algorithm(text: &str) -> Result<&'static str, ScalarError> {
    JWT_ALGORITHMS.iter().find(|name| **name == text).copied().ok_or_else(|| {
        let fault = ScalarError::new("{} is not an accepted algorithm");
        match suggest::nearest(text, JWT_ALGORITHMS.iter().copied()) {
            Some(near) if text != "none" => fault.suggest(format!("did you mean `{near}`?")),
            _ => fault,
        }
    })
}

/// Checks the field that carries a claim upstream. The help of [`own_header`] is dropped, because it concerns
/// changing fields.
fn claim_header(text: &str) -> Result<String, ScalarError> {
    own_header(text).map_err(|fault| ScalarError { help: None, ..fault })
}
