//! The settings of `ext_authz`.

use std::sync::Arc;
use std::time::Duration;

use tollgate_config::PemFile;
use tollgate_config::section::{
    Fields, HEADER_NAME, KeySpec, PEM, Reader, ScalarError, Section, URL, header, pem, service_url,
};

use super::ExtAuthzRules;
use crate::Planned;
use crate::auth_body::{AuthBodyOrBytesSettings, check_groups};
use crate::client::trust;
use crate::credential::IdentityHeaders;
use crate::policy_config::{Compilation, PolicyConfig, policy_key};
use crate::texts::{any_text, own_header};

/// A service that speaks Envoy's gRPC protocol (`envoy.service.auth.v3.Authorization`) decides whether a request may
/// proceed.
#[derive(Clone, Debug, PartialEq, Section)]
#[section(name = "ext_authz_policy", noun = "`ext_authz`", check = check)]
pub(crate) struct ExtAuthzSettings {
    /// URL of the service, without the method; `http://` means HTTP/2 in plain text.
    #[key(
        text = URL, parse = base, required, decisive,
        also = ["grpc_service", "uri", "address", "service", "target_uri", "endpoint"],
    )]
    url: String,
    /// Maximum time for its answer.
    #[key(time = "1ms"..="1m", default = "1s")]
    timeout: Duration,
    /// Whether requests proceed if the service gives no answer, or none in time.
    #[key(default = off, also = ["failure_mode_allow"])]
    fail_open: bool,
    /// Fields that only the service may set. The gateway removes them from client requests.
    #[key(text = HEADER_NAME, each = own_header)]
    reserved_headers: Vec<String>,
    /// Additional context that the service receives.
    #[key(expected = "a text", loose, pairs = (any_text, any_text), also = ["context_extensions"])]
    context: Vec<(String, String)>,
    /// Whether the service also receives the request's body, and its maximum size. The body is forwarded upstream
    /// unchanged.
    #[key(
        default = off,
        also = [
            "with_request_body", "forward_body", "forwardBody", "include_body", "request_body", "max_body_size",
        ],
    )]
    body: Option<AuthBodyOrBytesSettings>,
    /// The field of its answer that holds the consumer's name.
    #[key(text = HEADER_NAME, parse = header::name)]
    consumer: Option<String>,
    /// The field of its answer that holds the consumer's groups, separated by commas.
    #[key(text = HEADER_NAME, parse = header::name)]
    groups: Option<String>,
    #[key(flatten)]
    identity: IdentityHeaders,
    /// A PEM file of CA certificates that verify the service's certificate. Default: the system's trust store.
    #[key(shape = PEM, read = pem, also = ["cas", "ca_file", "trust"])]
    ca: Option<PemFile>,
}

impl PolicyConfig for ExtAuthzSettings {
    const KEY: KeySpec =
        policy_key::<Self>("ext_authz", "Asks an authorization service over Envoy's gRPC protocol.")
            .aliases(&["grpc_auth", "envoy.filters.http.ext_authz", "extAuth"]);
    const IS_GUARD: bool = true;

    fn compile(&self, compilation: &mut Compilation<'_>) -> Arc<dyn Planned> {
        Arc::new(ExtAuthzRules {
            url: self.url.clone(),
            trust: trust(&self.url, self.ca.as_ref(), compilation.problems),
            timeout: self.timeout,
            fail_open: self.fail_open,
            body: self.body.map(AuthBodyOrBytesSettings::compile),
            reserved: self.reserved_headers.clone(),
            context: self.context.clone(),
            consumer: self.consumer.clone(),
            groups: self.groups.clone(),
            identity: self.identity.compile(),
        })
    }

    fn names_files(&self) -> bool {
        self.ca.is_some()
    }

    fn files(&mut self) -> Vec<&mut PemFile> {
        self.ca.iter_mut().collect()
    }
}

fn check(reader: &mut Reader, fields: &Fields<'_>, settings: &mut ExtAuthzSettings) {
    check_groups(reader, fields, settings.consumer.as_deref());
}

/// Parses a URL to which the method's path is appended.
fn base(text: &str) -> Result<String, ScalarError> {
    match text.contains('?') {
        true => {
            Err(ScalarError::new("{} has a query")
                .help("the method's path is added to it: `http://host:port`"))
        }
        false => service_url(text),
    }
}
