//! The keys of `consumers`.

use super::{Choice, KeySpec, SectionSpec, Shape, Text};

static GROUP: Text =
    Text { expected: "the name of a group such as `admin`", pattern: Some(r"^[^\s,]+$"), loose: true };
static API_KEY_HASH: Text = Text {
    expected: "`sha256:` and the 64 hexadecimal digits of the key's SHA-256",
    pattern: Some("^sha256:[0-9A-Fa-f]{64}$"),
    loose: false,
};
static PASSWORD: Text = Text {
    expected: "a hash of argon2 or bcrypt such as `$argon2id$v=19$m=19456,t=2,p=1$...` or `$2b$12$...`",
    pattern: Some(r"^\$(argon2(id|i|d)|2[abxy])\$|[$][{]"),
    loose: false,
};
static CERTIFICATE_NAME: Text = Text {
    expected: "`subject:`, `DNS:`, `URI:`, `email:`, `IP:` or `sha256:` followed by the value in the \
        certificate, such as `DNS:a.example`",
    pattern: Some("^(subject|DNS|URI|email|IP|sha256):."),
    loose: false,
};
pub(crate) static CERTIFICATE_NAME_SHAPE: Shape = Shape::Text(&CERTIFICATE_NAME);
static HMAC_SECRET: Text = Text {
    expected: "a secret of at least 16 bytes, or `base64:` and one in base64",
    pattern: Some("^.{16,}$|[$][{]"),
    loose: false,
};
static HMAC_SECRET_SHAPE: Shape = Shape::Text(&HMAC_SECRET);
static GROUP_SHAPE: Shape = Shape::Text(&GROUP);
static API_KEY_HASH_SHAPE: Shape = Shape::Text(&API_KEY_HASH);
pub(crate) static CONSUMER_VALUE: Shape = Shape::Section(&CONSUMER);

pub(crate) static CONSUMER: SectionSpec = SectionSpec {
    name: "consumer",
    noun: "a consumer",
    doc: "A client that is identified by its credentials.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new("groups", "Groups of the consumer.", Shape::OneOrMany(&GROUP_SHAPE))
            .aliases(&["group", "roles", "acls"]),
        KeySpec::new(
            "api_keys",
            "Hashes of its keys for `api_key`: `sha256:` and the output of `printf %s KEY | sha256sum`.",
            Shape::OneOrMany(&API_KEY_HASH_SHAPE),
        )
        .concealed()
        .aliases(&["api_key", "key", "keys", "keyauth_credentials"]),
        KeySpec::new(
            "password",
            "Its password for `basic`, hashed by argon2 or bcrypt: `htpasswd -nbBC 10 NAME PASSWORD` prints one.",
            Shape::Text(&PASSWORD),
        )
        .concealed()
        .aliases(&["password_hash", "basic", "basicauth_credentials"]),
        KeySpec::new(
            "hmac_keys",
            "Its secrets for `hmac`, by the key id in its signatures.",
            Shape::MapOf(&HMAC_SECRET_SHAPE),
        )
        .secret()
        .aliases(&["hmac", "hmac_secret", "hmacauth_credentials", "signing_keys"]),
        KeySpec::new(
            "certificates",
            "Its certificates for `client_certificate`, each identified by a name or fingerprint.",
            Shape::OneOrMany(&CERTIFICATE_NAME_SHAPE),
        )
        .aliases(&["certificate", "subjects", "mtls"]),
    ],
};
