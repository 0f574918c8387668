//! The settings of `api_key`.

use std::sync::Arc;

use tollgate_config::section::{Fields, HEADER_NAME, KeySpec, Problem, Reader, Section};

use super::ApiKeyRules;
use crate::credential::{Admission, PARAMETER, PLACES, check_places, parameter, places};
use crate::policy_config::{Compilation, PolicyConfig, policy_key};
use crate::texts::own_header;
use crate::{CredentialSource, Planned};

/// Admits requests with a key of one of the `consumers`.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "api_key_policy", noun = "`api_key`", switch, check = check)]
pub(crate) struct ApiKeySettings {
    /// The field that holds the key.
    #[key(
        text = HEADER_NAME, off, parse = own_header, default = "X-Api-Key",
        also = ["name", "key_names", "in_header"],
    )]
    header: Option<String>,
    /// A query parameter that may also hold the key. Queries appear in logs, so prefer a header.
    #[key(
        text = PARAMETER, off, parse = parameter, default = off,
        also = ["parameter", "in_query", "key_in_query"],
    )]
    query: Option<String>,
    /// Whether the key is forwarded upstream.
    #[key(default = off, also = ["keep", "hide_credentials", "hide"])]
    forward: bool,
    /// The places where the credential may be. A request with credentials in two of them is rejected (401).
    #[key(shape = PLACES, read = places)]
    from: Option<Vec<CredentialSource>>,
    #[key(flatten)]
    admission: Admission,
}

impl PolicyConfig for ApiKeySettings {
    const KEY: KeySpec =
        policy_key::<Self>("api_key", "Admits requests with a key of one of the `consumers` (401).")
            .aliases(&["key_auth", "key-auth", "api_keys", "apikey"]);
    const IS_GUARD: bool = true;

    fn compile(&self, compilation: &mut Compilation<'_>) -> Arc<dyn Planned> {
        let usual = || {
            let header = self.header.clone().map(|name| CredentialSource::Header { name, prefix: None });
            header.into_iter().chain(self.query.clone().map(CredentialSource::Query)).collect()
        };
        Arc::new(ApiKeyRules {
            from: self.from.clone().unwrap_or_else(usual),
            forward: self.forward,
            optional: self.admission.optional,
            identity: self.admission.identity.compile(),
            consumers: compilation.consumers.clone(),
        })
    }
}

fn check(reader: &mut Reader, fields: &Fields<'_>, settings: &mut ApiKeySettings) {
    check_places(reader, fields, &["header", "query"]);
    if settings.from.is_none() && settings.header.is_none() && settings.query.is_none() {
        let problem = Problem::error(fields.at, "`api_key` has no place to look for the key");
        reader.problems.push(problem.expected("a name for `header` or `query`"));
    }
}
