//! The settings of `basic`.

use std::sync::Arc;
use std::time::Duration;

use tollgate_config::Secret;
use tollgate_config::section::{KeySpec, ScalarError, Section, Text, header};

use super::{BasicRules, is_password_hash};
use crate::credential::Admission;
use crate::policy_config::{Compilation, PolicyConfig, policy_key};
use crate::{Consumer, ConsumerEntry, Consumers, Planned};

static PASSWORD_HASH: Text = Text {
    expected: "a hash of argon2 or bcrypt such as `$argon2id$v=19$m=19456,t=2,p=1$...` or `$2b$12$...`",
    pattern: Some(r"^\$(argon2(id|i|d)|2[abxy])\$|[$][{]"),
    loose: false,
};

/// Admits requests with the name and password of one of the `consumers` (RFC 7617).
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "basic_policy", noun = "`basic`", switch)]
pub(crate) struct BasicSettings {
    /// The realm that browsers show.
    #[key(
        expected = "a text such as `staff only`", pattern = "^[^\"\\\\]+$", loose, parse = realm, default = restricted,
    )]
    realm: String,
    /// Users of this policy alone, by name, each with the hash of a password. They replace the `consumers`.
    #[key(text = PASSWORD_HASH, pairs = (user, password_hash), concealed)]
    users: Vec<(String, Secret)>,
    /// Whether the password is forwarded upstream.
    #[key(default = off, also = ["keep", "hide_credentials"])]
    forward: bool,
    /// How long a verified password is cached.
    #[key(time = "1s"..="1h", off, default = "1m")]
    cache: Option<Duration>,
    #[key(flatten)]
    admission: Admission,
}

impl PolicyConfig for BasicSettings {
    const KEY: KeySpec = policy_key::<Self>(
        "basic",
        "Admits requests with the name and password of one of the `consumers` (401).",
    )
    .aliases(&["basic_auth", "basic-auth", "basicAuth", "auth_basic", "password"]);
    const IS_GUARD: bool = true;

    fn compile(&self, compilation: &mut Compilation<'_>) -> Arc<dyn Planned> {
        Arc::new(BasicRules {
            realm: self.realm.clone(),
            forward: self.forward,
            optional: self.admission.optional,
            cache: self.cache.unwrap_or_default(),
            identity: self.admission.identity.compile(),
            consumers: match self.users.as_slice() {
                [] => compilation.consumers.clone(),
                users => Arc::new(Consumers::new(users.iter().map(entry).collect())),
            },
        })
    }
}

fn entry((name, hash): &(String, Secret)) -> ConsumerEntry {
    ConsumerEntry {
        consumer: Consumer { name: name.clone(), ..Consumer::default() },
        password: Some(hash.reveal().to_owned()),
        ..ConsumerEntry::default()
    }
}

/// Checks the name of a user, which is sent upstream in a field and ends at a colon in a request.
fn user(text: &str) -> Result<String, ScalarError> {
    match header::value(text) {
        Ok(name) if !name.is_empty() && !name.contains(':') => Ok(name),
        _ => Err(ScalarError::new("{} cannot be the name of a user").help("a name such as `alice`")),
    }
}

/// Checks a password's hash. No message repeats it.
fn password_hash(text: &str) -> Result<Secret, ScalarError> {
    if is_password_hash(text) {
        return Ok(Secret::from(text.to_owned()));
    }
    // The formats of `htpasswd` without `-B`.
    let is_fast = text.starts_with("$apr1$") || text.starts_with("{SHA}");
    let error = match is_fast {
        true => ScalarError::new(
            "MD5 and SHA-1 are computed in microseconds: such a hash does not protect a password",
        ),
        false => ScalarError::new("this is not a hash of argon2 or bcrypt that can be verified"),
    };
    Err(error.help("`tollgate hash --argon2` asks for the password and prints one"))
}

/// Checks a realm, which is sent between quotes in a header field.
fn realm(text: &str) -> Result<String, ScalarError> {
    let plain = |c: char| (c.is_ascii_graphic() || c == ' ') && c != '"' && c != '\\';
    match !text.is_empty() && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => Err(ScalarError::new("{} cannot be a realm").help("printable ASCII, without `\"` and `\\`")),
    }
}
