//! The settings of `jwt`.

use std::sync::Arc;
use std::time::Duration;

use tollgate_config::section::{
    Choice, Field, Fields, KeySpec, NodeKind, PEM, Problem, Reader, ScalarError, Section, SectionSpec, Shape,
    Text, Value, one_or_many, pem, service_url,
};
use tollgate_config::{At, PemFile, Secret, nearest};

use super::{Algorithm, FixedKeys, IssuerRules, JwtRules, RemoteKeyRules};
use crate::authorize::claims;
use crate::client::trust;
use crate::credential::{Admission, IdentityHeaders, PLACES, check_places, places};
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
        /// CA for its certificate; `None`: the system's trust store.
        ca: Option<PemFile>,
        /// Time after which keys are fetched again. Default 5 min.
        refresh: Duration,
        /// Minimum time between two fetches. Default 5 s.
        cooldown: Duration,
        /// Maximum duration of a fetch. Default 5 s.
        timeout: Duration,
    },
}

impl Value for JwtSettings {
    const SHAPE: Shape = Shape::Section(&JWT_POLICY);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        read(reader, field)
    }
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
        let none = |keys: &JwtKeys| matches!(keys, JwtKeys::Secret(_) | JwtKeys::Url { ca: None, .. });
        !self.issuers.iter().all(|issuer| none(&issuer.keys))
    }

    fn files(&mut self) -> Vec<&mut PemFile> {
        let keys = self.issuers.iter_mut().map(|issuer| &mut issuer.keys);
        keys.filter_map(|keys| match keys {
            JwtKeys::File(file) => Some(file),
            JwtKeys::Url { ca, .. } => ca.as_mut(),
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

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);
const MINUTE: Duration = Duration::from_secs(60);

const JWKS: KeySpec = KeySpec::new(
    "jwks",
    "The keys: a file with a JWK set or with public keys in PEM, or the URL of a JWK set.",
    Shape::Text(&KEYS),
)
.aliases(&[
    "jwks_uri",
    "jwks_url",
    "jwksUri",
    "keys",
    "key",
    "remote_jwks",
    "public_key",
    "public_keys",
    "pem",
]);
const JWT_SECRET: KeySpec = KeySpec::new(
    "secret",
    "A secret that the issuer shares with the gateway, for `HS256`, `HS384` and `HS512`.",
    Shape::Text(&SECRET),
)
.secret()
.aliases(&["key", "shared_secret"]);
const ALGORITHMS: KeySpec = KeySpec::new(
    "algorithms",
    "Accepted algorithms. Default: `HS256` with `secret`, otherwise every public-key algorithm.",
    Shape::OneOrMany(&ALGORITHM_SHAPE),
)
.aliases(&["algorithm", "alg", "algs"]);
const AUDIENCE: KeySpec =
    KeySpec::new("audience", "The token's `aud` must have one of these.", Shape::OneOrMany(&TEXT_SHAPE))
        .aliases(&["aud", "audiences"]);
const CLAIMS: KeySpec = KeySpec::new(
    "claims",
    "Required claims, each with its accepted values. `a.b` is `b` in `a`.",
    Shape::MapOf(&CLAIM_SHAPE),
)
.aliases(&["claims_to_verify", "required_claims", "require"]);
const CONSUMER_CLAIM: KeySpec =
    KeySpec::new("consumer_claim", "The claim that holds the consumer's name.", Shape::Text(&TEXT))
        .default("sub");
const GROUPS_CLAIM: KeySpec =
    KeySpec::new("groups_claim", "The claim that holds the consumer's groups.", Shape::Text(&TEXT))
        .default("groups");
const REFRESH: KeySpec = KeySpec::new(
    "refresh",
    "How long keys from a URL are used before they are fetched again. If that fails, the last good keys stay in use.",
    Shape::Time { min: SECOND, max: DAY, off: false },
)
.default("5m")
.aliases(&["cache_duration", "interval"]);
const COOLDOWN: KeySpec = KeySpec::new(
    "cooldown",
    "Minimum time between two fetches, even if tokens name unknown keys.",
    Shape::Time { min: Duration::from_millis(100), max: DAY, off: false },
)
.default("5s");
const FETCH_TIMEOUT: KeySpec = KeySpec::new(
    "timeout",
    "Maximum duration of a fetch.",
    Shape::Time { min: Duration::from_millis(1), max: MINUTE, off: false },
)
.default("5s");
const JWKS_CA: KeySpec = KeySpec::new(
    "ca",
    "A PEM file of CA certificates that verify the certificate of the URL. Default: the system's trust \
    store.",
    PEM,
)
.aliases(&["cas", "ca_file", "trust"]);

static ISSUER_SHAPE: Shape = Shape::Section(&JWT_ISSUER);

static JWT_ISSUER: SectionSpec = SectionSpec {
    name: "jwt_issuer",
    noun: "an entry of `issuers`",
    doc: "An issuer of tokens. Its `audience`, `claims`, `consumer_claim` and `groups_claim` override those keys of the policy.",
    choice: Choice::ExactlyOne(&["jwks", "secret"]),
    keys: &[
        KeySpec::new("issuer", "Accepted values of `iss`.", Shape::OneOrMany(&TEXT_SHAPE))
            .required()
            .aliases(&["iss", "name"]),
        JWKS,
        JWT_SECRET,
        ALGORITHMS,
        AUDIENCE,
        CLAIMS,
        CONSUMER_CLAIM,
        GROUPS_CLAIM,
        REFRESH,
        COOLDOWN,
        FETCH_TIMEOUT,
        JWKS_CA,
    ],
};

static JWT_POLICY: SectionSpec = SectionSpec {
    name: "jwt_policy",
    noun: "`jwt`",
    doc: "Admits requests with a token that a trusted issuer signed (RFC 7519).",
    choice: Choice::ExactlyOne(&["jwks", "secret", "issuers"]),
    keys: &[
        JWKS,
        JWT_SECRET,
        KeySpec::new(
            "issuers",
            "Several issuers, each with its own keys. The token's `iss` selects the issuer whose keys must verify it.",
            Shape::ListOf(&ISSUER_SHAPE),
        )
        .aliases(&["providers", "authorities"]),
        ALGORITHMS,
        KeySpec::new("issuer", "The token's `iss` must be one of these.", Shape::OneOrMany(&TEXT_SHAPE))
            .aliases(&["iss"]),
        AUDIENCE,
        KeySpec::new(
            "leeway",
            "Tolerated difference of the issuer's clock, for `exp` and `nbf`.",
            Shape::Time { min: Duration::ZERO, max: Duration::from_secs(600), off: false },
        )
        .default("30s")
        .aliases(&["clock_skew", "skew"]),
        KeySpec::new(
            "cookie",
            "A cookie that may hold the token if `Authorization` does not. `from` can name more places.",
            Shape::Text(&COOKIE),
        ),
        FROM,
        Admission::KEYS[0],
        KeySpec::new(
            "forward",
            "Whether the token is forwarded upstream. A token from the query never is.",
            Shape::Switch,
        )
        .default("on")
        .aliases(&["keep"]),
        CLAIMS,
        KeySpec::new(
            "claim_headers",
            "Fields that carry claims upstream: name and claim. The gateway removes these fields from client \
            requests.",
            Shape::MapOf(&TEXT_SHAPE),
        )
        .aliases(&["claims_headers", "claim_to_headers", "headers"]),
        CONSUMER_CLAIM,
        GROUPS_CLAIM,
        IdentityHeaders::KEYS[0],
        IdentityHeaders::KEYS[1],
        REFRESH,
        COOLDOWN,
        FETCH_TIMEOUT,
        JWKS_CA,
        KeySpec::new(
            "cache",
            "Number of verified tokens that each worker caches.",
            Shape::Count { min: 0, max: 1_000_000, off: true },
        )
        .default("1000"),
    ],
};

/// The places where the credential may be.
const FROM: KeySpec = KeySpec::new(
    "from",
    "The places where the credential may be. A request with credentials in two of them is rejected (401).",
    PLACES,
);

fn read(reader: &mut Reader, field: Field<'_>) -> Option<JwtSettings> {
    let fields = reader.fields(field.node, &JWT_POLICY)?;
    let issuers = match fields.get("issuers") {
        Some(list) => several(reader, &fields, list)?,
        None => vec![issuer(reader, &fields, None)?],
    };
    let from = places_of(reader, &fields);
    let mut out = JwtSettings {
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
    out.identity = IdentityHeaders::read_keys(reader, &fields)?;
    match reader.number(fields.get("cache")) {
        Some(Some(tokens)) => out.cache = usize::try_from(tokens).unwrap_or(out.cache),
        Some(None) => out.cache = 0,
        None => {}
    }
    Some(out)
}

/// Returns the places of `from`, or `Authorization` and the cookie that `cookie` names. The default prefix of
/// `Authorization` is `Bearer`.
fn places_of(reader: &mut Reader, fields: &Fields<'_>) -> Vec<CredentialSource> {
    check_places(reader, fields, &["cookie"]);
    if let Some(field) = fields.get("from") {
        let mut places = places(reader, field).unwrap_or_default();
        for place in &mut places {
            if let CredentialSource::Header { name, prefix: prefix @ None } = place
                && name.eq_ignore_ascii_case("authorization")
            {
                *prefix = Some("Bearer".to_owned());
            }
        }
        return places;
    }
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
        names: texts(reader, fields.get("issuer")),
        audiences: texts(reader, own_or_shared("audience")),
        claims: own_or_shared("claims").and_then(|field| claims(reader, field)).unwrap_or_default(),
        consumer_claim: "sub".to_owned(),
        groups_claim: "groups".to_owned(),
    };
    if shared.is_some()
        && let Some(field) = fields.get("issuer").filter(|_| out.names.is_empty() && reader.complete)
    {
        reader.missing(field.node.at, "`issuer` is empty".to_owned(), &field.key.shape);
    }
    if let Some(field) = fields.get("algorithms") {
        out.algorithms = reader.each(one_or_many(field.node), field, "an entry of `algorithms`", algorithm);
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
    let url = reader.field(field, service_url)?;
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

/// Reads a list of texts.
fn texts(reader: &mut Reader, field: Option<Field<'_>>) -> Vec<String> {
    let Some(field) = field else { return Vec::new() };
    reader.each(one_or_many(field.node), field, &format!("an entry of `{}`", field.key.name), word)
}
