//! The keys of `jwt`.

use std::time::Duration;

use crate::spec::{
    CONSUMER_HEADER, Choice, FROM, GROUPS_HEADER, KeySpec, OPTIONAL, SectionSpec, Shape, Text,
};

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
pub(crate) static PEM: Text =
    Text { expected: "the path of a file such as `/etc/tollgate/ca.pem`", pattern: Some("."), loose: false };
static TEXT: Text = Text { expected: "a text", pattern: Some("."), loose: true };
pub(crate) static COOKIE: Text = Text {
    expected: "the name of a cookie such as `token`",
    pattern: Some(r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"),
    loose: false,
};
static TEXT_SHAPE: Shape = Shape::Text(&TEXT);
static CLAIM_SHAPE: Shape = Shape::OneOrMany(&TEXT_SHAPE);

/// Algorithms, as tokens spell them.
pub(crate) const JWT_ALGORITHMS: &[&str] = &[
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
    Shape::Text(&PEM),
)
.aliases(&["cas", "ca_file", "trust"]);

static ISSUER_SHAPE: Shape = Shape::Section(&JWT_ISSUER);

pub(crate) static JWT_ISSUER: SectionSpec = SectionSpec {
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

pub(crate) static JWT_POLICY: SectionSpec = SectionSpec {
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
        OPTIONAL,
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
        CONSUMER_HEADER,
        GROUPS_HEADER,
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
