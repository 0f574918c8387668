//! The settings of `basic`.

use std::sync::Arc;
use std::time::Duration;

use tollgate_config::section::{KeySpec, ScalarError, Section};

use super::BasicRules;
use crate::Planned;
use crate::credential::Admission;
use crate::policy_config::{Compilation, PolicyConfig, policy_key};

/// Admits requests with the name and password of one of the `consumers` (RFC 7617).
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "basic_policy", noun = "`basic`", switch)]
pub(crate) struct BasicSettings {
    /// The realm that browsers show.
    #[key(
        expected = "a text such as `staff only`", pattern = "^[^\"\\\\]+$", loose, parse = realm, default = restricted,
    )]
    realm: String,
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
            consumers: compilation.consumers.clone(),
        })
    }
}

/// Checks a realm, which is sent between quotes in a header field.
fn realm(text: &str) -> Result<String, ScalarError> {
    let plain = |c: char| (c.is_ascii_graphic() || c == ' ') && c != '"' && c != '\\';
    match !text.is_empty() && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => Err(ScalarError::new("{} cannot be a realm").help("printable ASCII, without `\"` and `\\`")),
    }
}
