//! The settings of `jwt`.

use std::sync::Arc;
use std::time::Duration;

use tollgate_config::section::{
    Field, Fields, KeySpec, NodeKind, PEM, Problem, Reader, ScalarError, Section, Shape, Text, pem,
    service_url,
};
use tollgate_config::{At, PemFile, Secret, nearest};

use super::{Algorithm, FixedKeys, IssuerRules, JwtRules, RemoteKeyRules};
use crate::authorize::claims;
use crate::client::trust;
use crate::credential::{IdentityHeaders, PLACES, check_places, places};
use crate::policy_config::{Compilation, PolicyConfig, policy_key};
use crate::texts::{cookie, own_header, word};
use crate::{CredentialSource, Planned};

/// Admits requests with a token that a trusted issuer signed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JwtSettings {
    /// The trusted issuers; at least one. If there are several, each lists its own names.
    issuers: Vec<JwtIssuer>,
    /// Tolerated difference between the clocks. Default 30 s.
    leeway: Duration,
    /// Places where the token is looked for. Default: `Authorization: Bearer`.
    from: Vec<CredentialSource>,
    /// Whether the token is forwarded upstream; a token from the query never is. Default true.
    forward: bool,
    /// Whether a request without a token passes. Default false.
    optional: bool,
    /// Fields that carry claims upstream: name and claim.
    headers: Vec<(String, String)>,
    /// Fields that tell the upstream which consumer it is.
    identity: IdentityHeaders,
    /// Tokens that each worker caches. Default 1000.
    cache: usize,
}

/// An issuer of tokens.
#[derive(Clone, Debug, PartialEq)]
struct JwtIssuer {
    /// Accepted values of `iss`. Empty, allowed only for a single issuer: any value.
    names: Vec<String>,
    /// The keys that verify its tokens.
    keys: JwtKeys,
    /// Accepted algorithms, as tokens spell them.
    algorithms: Vec<&'static str>,
    /// Accepted audiences; a token must name one of them. Empty: any.
    audiences: Vec<String>,
    /// Required claims and their accepted values.
    claims: Vec<(String, Vec<String>)>,
    /// The claim that holds the consumer's name. Default `sub`.
    consumer_claim: String,
    /// The claim that holds the consumer's groups. Default `groups`.
    groups_claim: String,
}

/// The keys that verify tokens.
#[derive(Clone, Debug, PartialEq)]
enum JwtKeys {
    /// A key set in a file.
    File(PemFile),
    /// A shared secret.
    Secret(Secret),
    /// A key set at a URL.
    Url {
        /// The URL.
        url: String,
        /// How the keys are fetched.
        fetch: FetchRules,
    },
}

impl PolicyConfig for JwtSettings {
    const KEY: KeySpec =
        policy_key::<Self>("jwt", "Admits requests with a token that a trusted issuer signed (401).")
            .aliases(&["jwt_auth", "jwt-auth", "openid", "oidc", "bearer", "token", "jwt_authn"]);
    const IS_GUARD: bool = true;

    fn compile(&self, compilation: &mut Compilation<'_>) -> Arc<dyn Planned> {
        Arc::new(JwtRules {
            issuers: self.issuers.iter().map(|one| compile_issuer(one, compilation.problems)).collect(),
            leeway: self.leeway,
            from: self.from.clone(),
            forward: self.forward,
            optional: self.optional,
            headers: self.headers.clone(),
            identity: self.identity.compile(),
            cache: self.cache,
        })
    }

    fn names_files(&self) -> bool {
        let none = |keys: &JwtKeys| {
            matches!(keys, JwtKeys::Secret(_) | JwtKeys::Url { fetch: FetchRules { ca: None, .. }, .. })
        };
        !self.issuers.iter().all(|issuer| none(&issuer.keys))
    }

    fn files(&mut self) -> Vec<&mut PemFile> {
        let keys = self.issuers.iter_mut().map(|issuer| &mut issuer.keys);
        keys.filter_map(|keys| match keys {
            JwtKeys::File(file) => Some(file),
            JwtKeys::Url { fetch, .. } => fetch.ca.as_mut(),
            JwtKeys::Secret(_) => None,
        })
        .collect()
    }
}

fn compile_issuer(spec: &JwtIssuer, problems: &mut Vec<Problem>) -> IssuerRules {
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
        JwtKeys::Url { url, fetch } => {
            remote = Some(RemoteKeyRules {
                url: url.clone(),
                tls: trust(url, fetch.ca.as_ref(), problems),
                refresh: fetch.refresh,
                cooldown: fetch.cooldown,
                timeout: fetch.timeout,
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

static KEYS: Text = Text {
    expected: "the path of a file, or a URL such as `https://id.example/.well-known/jwks.json`",
    pattern: Some("."),
    loose: false,
};
static SECRET: Text = Text {
    expected: "a text of at least 32 bytes, such as `${JWT_SECRET}`",
    pattern: Some("^.{32,}$|[$][{]"),
    loose: true,
};
static TEXT: Text = Text { expected: "a text", pattern: Some("."), loose: true };
static COOKIE: Text = Text {
    expected: "the name of a cookie such as `token`",
    pattern: Some(r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"),
    loose: false,
};
static TEXT_SHAPE: Shape = Shape::Text(&TEXT);
static CLAIM_SHAPE: Shape = Shape::OneOrMany(&TEXT_SHAPE);

/// Algorithms, as tokens spell them.
const JWT_ALGORITHMS: &[&str] = &[
    "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384",
    "ES512", "EdDSA",
];
static ALGORITHM_SHAPE: Shape = Shape::Word(JWT_ALGORITHMS);
static ISSUER_SHAPE: Shape = Shape::Section(Entry::SPEC);

/// Admits requests with a token that a trusted issuer signed (RFC 7519).
#[derive(Clone, Debug, Section)]
#[section(
    name = "jwt_policy", noun = "`jwt`", exactly_one = ["jwks", "secret", "issuers"], makes = JwtSettings, by = jwt,
)]
struct JwtPolicyKeys {
    #[key(flatten, required, decisive)]
    source: Source,
    /// Several issuers, each with its own keys. The token's `iss` selects the issuer whose keys must verify it.
    #[key(shape = Shape::ListOf(&ISSUER_SHAPE), read = entries, also = ["providers", "authorities"])]
    issuers: Option<Vec<Entry>>,
    /// Accepted algorithms. Default: `HS256` with `secret`, otherwise every public-key algorithm.
    #[key(shape = Shape::OneOrMany(&ALGORITHM_SHAPE), each = algorithm, also = ["algorithm", "alg", "algs"])]
    algorithms: Option<Vec<&'static str>>,
    /// The token's `iss` must be one of these.
    #[key(text = TEXT, each = word, also = ["iss"])]
    issuer: Vec<String>,
    /// The token's `aud` must have one of these.
    #[key(text = TEXT, each = word, also = ["aud", "audiences"])]
    audience: Vec<String>,
    /// Tolerated difference of the issuer's clock, for `exp` and `nbf`.
    #[key(time = "0s"..="600s", default = "30s", also = ["clock_skew", "skew"])]
    leeway: Duration,
    /// A cookie that may hold the token if `Authorization` does not. `from` can name more places.
    #[key(text = COOKIE, parse = cookie)]
    cookie: Option<String>,
    /// The places where the credential may be. A request with credentials in two of them is rejected (401).
    #[key(shape = PLACES, read = places)]
    from: Option<Vec<CredentialSource>>,
    /// Whether a request without such a credential passes, without a consumer. An invalid credential is still
    /// rejected (401).
    #[key(default = off)]
    optional: bool,
    /// Whether the token is forwarded upstream. A token from the query never is.
    #[key(default = on, also = ["keep"])]
    forward: bool,
    /// Required claims, each with its accepted values. `a.b` is `b` in `a`.
    #[key(
        shape = Shape::MapOf(&CLAIM_SHAPE), read = claims,
        also = ["claims_to_verify", "required_claims", "require"],
    )]
    claims: Vec<(String, Vec<String>)>,
    /// Fields that carry claims upstream: name and claim. The gateway removes these fields from client requests.
    #[key(
        text = TEXT, pairs = (claim_header, word),
        also = ["claims_headers", "claim_to_headers", "headers"],
    )]
    claim_headers: Vec<(String, String)>,
    #[key(flatten)]
    claim_names: ClaimNames,
    #[key(flatten)]
    identity: IdentityHeaders,
    #[key(flatten)]
    fetch: FetchRules,
    /// Number of verified tokens that each worker caches.
    #[key(count = 0..=1_000_000, off, default = 1000)]
    cache: Option<usize>,
}

/// An issuer of tokens. Its `audience`, `claims`, `consumer_claim` and `groups_claim` override those keys of the
/// policy.
#[derive(Clone, Debug, Section)]
#[section(
    name = "jwt_issuer", noun = "an entry of `issuers`", exactly_one = ["jwks", "secret"], makes = Entry, by = entry,
)]
struct EntryKeys {
    /// Accepted values of `iss`.
    #[key(text = TEXT, each = word, required, also = ["iss", "name"])]
    issuer: Option<Vec<String>>,
    #[key(flatten, required, decisive)]
    source: Source,
    /// Accepted algorithms. Default: `HS256` with `secret`, otherwise every public-key algorithm.
    #[key(shape = Shape::OneOrMany(&ALGORITHM_SHAPE), each = algorithm, also = ["algorithm", "alg", "algs"])]
    algorithms: Option<Vec<&'static str>>,
    /// The token's `aud` must have one of these.
    #[key(text = TEXT, each = word, also = ["aud", "audiences"])]
    audience: Option<Vec<String>>,
    /// Required claims, each with its accepted values. `a.b` is `b` in `a`.
    #[key(
        shape = Shape::MapOf(&CLAIM_SHAPE), read = claims,
        also = ["claims_to_verify", "required_claims", "require"],
    )]
    claims: Option<Vec<(String, Vec<String>)>>,
    #[key(flatten)]
    claim_names: ClaimNames,
    #[key(flatten)]
    fetch: FetchRules,
}

/// An entry of `issuers`. A key that it lacks has the policy's value.
#[derive(Clone, Debug)]
struct Entry {
    /// Source position of its names.
    at: At,
    names: Vec<String>,
    keys: JwtKeys,
    algorithms: Vec<&'static str>,
    audience: Option<Vec<String>>,
    claims: Option<Vec<(String, Vec<String>)>>,
    claim_names: ClaimNames,
}

/// The place of the keys that verify tokens.
#[derive(Clone, Debug)]
enum Source {
    /// The section itself says it.
    Own(JwtKeys),
    /// Each entry of `issuers` says it.
    Issuers,
}

/// The keys `jwks` and `secret`, of the policy or of an entry of `issuers`.
#[derive(Clone, Debug, Section)]
#[section(makes = Source, by = source)]
struct SourceKeys {
    /// The keys: a file with a JWK set or with public keys in PEM, or the URL of a JWK set.
    #[key(
        text = KEYS, read = jwks,
        also = [
            "jwks_uri", "jwks_url", "jwksUri", "keys", "key", "remote_jwks", "public_key", "public_keys", "pem",
        ],
    )]
    jwks: Option<JwtKeys>,
    /// A secret that the issuer shares with the gateway, for `HS256`, `HS384` and `HS512`.
    #[key(text = SECRET, read = without_jwks, secret, also = ["key", "shared_secret"])]
    secret: (),
}

/// The claims that describe the consumer.
#[derive(Clone, Debug, Section)]
struct ClaimNames {
    /// The claim that holds the consumer's name.
    #[key(text = TEXT, parse = word, default = sub, absent = None)]
    consumer_claim: Option<String>,
    /// The claim that holds the consumer's groups.
    #[key(text = TEXT, parse = word, default = groups, absent = None)]
    groups_claim: Option<String>,
}

/// How keys are fetched from a URL.
#[derive(Clone, Debug, PartialEq, Section)]
struct FetchRules {
    /// How long keys from a URL are used before they are fetched again. If that fails, the last good keys stay in use.
    #[key(time = "1s"..="1d", default = "5m", also = ["cache_duration", "interval"])]
    refresh: Duration,
    /// Minimum time between two fetches, even if tokens name unknown keys.
    #[key(time = "100ms"..="1d", default = "5s")]
    cooldown: Duration,
    /// Maximum duration of a fetch.
    #[key(time = "1ms"..="1m", default = "5s")]
    timeout: Duration,
    /// A PEM file of CA certificates that verify the certificate of the URL. Default: the system's trust store.
    #[key(shape = PEM, read = pem, also = ["cas", "ca_file", "trust"])]
    ca: Option<PemFile>,
}

fn jwt(reader: &mut Reader, fields: &Fields<'_>, keys: JwtPolicyKeys) -> Option<JwtSettings> {
    let issuers = match (keys.source, fields.get("issuers")) {
        (Source::Own(own), _) => {
            let own = with_fetch_rules(reader, fields, own, keys.fetch);
            vec![JwtIssuer {
                algorithms: algorithms(reader, fields, keys.algorithms, &own),
                keys: own,
                names: keys.issuer,
                audiences: keys.audience,
                claims: keys.claims,
                consumer_claim: keys.claim_names.consumer_claim.unwrap_or_else(|| "sub".to_owned()),
                groups_claim: keys.claim_names.groups_claim.unwrap_or_else(|| "groups".to_owned()),
            }]
        }
        (Source::Issuers, list) => {
            misplaced(reader, fields, list?);
            let entries = keys.issuers?;
            check_names(reader, &entries);
            let (audience, claims, names) = (keys.audience, keys.claims, keys.claim_names);
            entries.into_iter().map(|entry| entry.within(&audience, &claims, &names)).collect()
        }
    };
    check_places(reader, fields, &["cookie"]);
    Some(JwtSettings {
        issuers,
        leeway: keys.leeway,
        from: places_of(keys.from, keys.cookie),
        forward: keys.forward,
        optional: keys.optional,
        headers: keys.claim_headers,
        identity: keys.identity,
        cache: keys.cache.unwrap_or(0),
    })
}

/// Returns the places of `from`, or `Authorization` and the cookie that `cookie` names. The default prefix of
/// `Authorization` is `Bearer`.
fn places_of(from: Option<Vec<CredentialSource>>, cookie: Option<String>) -> Vec<CredentialSource> {
    let Some(mut places) = from else {
        let bearer =
            CredentialSource::Header { name: "Authorization".to_owned(), prefix: Some("Bearer".to_owned()) };
        return std::iter::once(bearer).chain(cookie.map(CredentialSource::Cookie)).collect();
    };
    for place in &mut places {
        if let CredentialSource::Header { name, prefix: prefix @ None } = place
            && name.eq_ignore_ascii_case("authorization")
        {
            *prefix = Some("Bearer".to_owned());
        }
    }
    places
}

/// Reads the entries of `issuers`.
fn entries(reader: &mut Reader, field: Field<'_>) -> Option<Vec<Entry>> {
    let NodeKind::List(_) = &field.node.kind else {
        reader.mismatch(field.node, "`issuers`", field.key.shape.expected());
        return None;
    };
    let items = reader.list_items(field, true, true);
    Some(items.iter().filter_map(|item| Entry::read_section(reader, item)).collect())
}

fn entry(reader: &mut Reader, fields: &Fields<'_>, keys: EntryKeys) -> Option<Entry> {
    let EntryKeys { issuer, source, algorithms, audience, claims, claim_names, fetch } = keys;
    let Source::Own(own) = source else { return None };
    let own = with_fetch_rules(reader, fields, own, fetch);
    let algorithms = self::algorithms(reader, fields, algorithms, &own);
    let names = issuer.unwrap_or_default();
    let field = fields.get("issuer");
    if let Some(field) = field.filter(|_| names.is_empty()) {
        reader.missing(field.node.at, "`issuer` is empty".to_owned(), &field.key.shape);
    }
    let at = field.map_or(fields.at, |field| field.at);
    Some(Entry { at, names, keys: own, algorithms, audience, claims, claim_names })
}

impl Entry {
    /// Returns the issuer, with the policy's own keys where the entry has none.
    fn within(self, audience: &[String], claims: &[(String, Vec<String>)], names: &ClaimNames) -> JwtIssuer {
        let claim = |own: Option<String>, shared: &Option<String>, usual: &str| {
            own.or_else(|| shared.clone()).unwrap_or_else(|| usual.to_owned())
        };
        JwtIssuer {
            names: self.names,
            keys: self.keys,
            algorithms: self.algorithms,
            audiences: self.audience.unwrap_or_else(|| audience.to_vec()),
            claims: self.claims.unwrap_or_else(|| claims.to_vec()),
            consumer_claim: claim(self.claim_names.consumer_claim, &names.consumer_claim, "sub"),
            groups_claim: claim(self.claim_names.groups_claim, &names.groups_claim, "groups"),
        }
    }
}

/// Reports keys of the policy that belong into each entry of `issuers`.
fn misplaced(reader: &mut Reader, fields: &Fields<'_>, list: Field<'_>) {
    for name in ["issuer", "algorithms", "refresh", "cooldown", "timeout", "ca"] {
        if let Some(field) = fields.get(name) {
            let problem = Problem::error(field.at, format!("write `{name}` in each entry of `issuers`"));
            reader.problems.push(problem.related(list.at, "`issuers` is here"));
        }
    }
}

/// Reports names that two entries have: their order would decide which keys verify a token.
fn check_names(reader: &mut Reader, entries: &[Entry]) {
    let mut known: Vec<(&str, At)> = Vec::new();
    for entry in entries {
        for name in &entry.names {
            match known.iter().find(|(known, _)| known == name) {
                Some((_, first)) => reader.problems.push(
                    Problem::error(entry.at, "two of `issuers` have the same `issuer`")
                        .related(*first, "first written here"),
                ),
                None => known.push((name, entry.at)),
            }
        }
    }
}

/// Returns the accepted algorithms. Reports an algorithm that does not fit the keys.
fn algorithms(
    reader: &mut Reader,
    fields: &Fields<'_>,
    given: Option<Vec<&'static str>>,
    keys: &JwtKeys,
) -> Vec<&'static str> {
    let is_secret = matches!(keys, JwtKeys::Secret(_));
    let is_shared = |name: &&&str| name.starts_with("HS");
    let (Some(given), Some(field)) = (given, fields.get("algorithms")) else {
        return match is_secret {
            true => vec!["HS256"],
            false => JWT_ALGORITHMS.iter().filter(|name| !is_shared(name)).copied().collect(),
        };
    };
    let unusable = match keys {
        JwtKeys::Secret(_) => given.iter().find(|name| !is_shared(name)),
        JwtKeys::Url { .. } => given.iter().find(is_shared),
        JwtKeys::File(_) => None,
    };
    if let Some(name) = unusable {
        let of = if is_secret { "a shared secret" } else { "public keys" };
        let problem = Problem::error(field.at, format!("`{name}` cannot be used with {of}"));
        reader.problems.push(problem.help(
            "`HS` algorithms need a shared secret (with a public key anyone could \
                    sign); all others need a public key",
        ));
    }
    given
}

fn source(reader: &mut Reader, fields: &Fields<'_>, keys: SourceKeys) -> Option<Source> {
    // Only the policy has the key `issuers`.
    if fields.key("issuers").is_some() && fields.get("issuers").is_some() {
        return Some(Source::Issuers);
    }
    let SourceKeys { jwks, secret: () } = keys;
    match fields.get("jwks") {
        Some(_) => jwks.map(Source::Own),
        None => reader.field(fields.get("secret")?, secret).map(JwtKeys::Secret).map(Source::Own),
    }
}

/// Reads the file or the URL of a key set.
fn jwks(reader: &mut Reader, field: Field<'_>) -> Option<JwtKeys> {
    let text = field.node.scalar().map(|scalar| scalar.text.as_str()).unwrap_or_default();
    match text.contains("://") {
        true => {
            let url = reader.field(field, service_url)?;
            Some(JwtKeys::Url { url, fetch: FetchRules::default() })
        }
        false => pem(reader, field).map(JwtKeys::File),
    }
}

/// Skips `secret`, which [`source`] reads: beside `jwks` it is not read.
fn without_jwks(_: &mut Reader, _: Field<'_>) -> Option<()> {
    Some(())
}

/// Sets how keys are fetched. Reports these rules for keys that are not fetched.
fn with_fetch_rules(reader: &mut Reader, fields: &Fields<'_>, keys: JwtKeys, fetch: FetchRules) -> JwtKeys {
    match keys {
        JwtKeys::Url { url, .. } => JwtKeys::Url { url, fetch },
        fixed => {
            only_of_urls(reader, fields);
            fixed
        }
    }
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
        match nearest(text, JWT_ALGORITHMS.iter().copied()) {
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
