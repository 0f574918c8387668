//! The settings of `forward_auth`.

use std::sync::Arc;
use std::time::Duration;

use tollgate_config::PemFile;
use tollgate_config::section::{
    Fields, HEADER_NAME, KeySpec, PEM, Problem, Reader, ScalarError, Section, URL, header, pem, service_url,
};
use tollgate_http::Method;

use super::cache_config::DecisionCacheSettings;
use super::{ForwardAuthRules, SetCookies, SignIn, SignInValue};
use crate::Planned;
use crate::auth_body::{AuthBodySettings, check_groups};
use crate::client::trust;
use crate::credential::{IdentityHeaders, PARAMETER, parameter};
use crate::policy_config::{Compilation, PolicyConfig, policy_key};
use crate::texts::own_header;

/// A service decides whether a request may proceed: a 2xx response admits it, any other response is sent to the
/// client.
#[derive(Clone, Debug, PartialEq, Section)]
#[section(name = "forward_auth_policy", noun = "`forward_auth`", check = check)]
pub(crate) struct ForwardAuthSettings {
    /// URL of the service.
    #[key(
        text = URL, parse = service_url, required, decisive,
        also = ["uri", "address", "auth_request", "service", "endpoint"],
    )]
    url: String,
    /// Maximum time for its answer; after it the request is rejected.
    #[key(time = "1ms"..="1m", default = "1s")]
    timeout: Duration,
    /// Method of the question. Default: POST with `body`, otherwise GET.
    #[key(
        expected = "`GET`, `HEAD`, `POST`, `PUT`, `PATCH`, `DELETE` or `OPTIONS`",
        pattern = "^(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)$", parse = method, also = ["auth_method", "request_method"],
    )]
    method: Option<Method>,
    /// Request fields that it receives. Default: all except connection-specific ones.
    #[key(text = HEADER_NAME, each = header::name, also = ["authRequestHeaders", "auth_request_headers"])]
    request_headers: Option<Vec<String>>,
    /// Fields of its answer that are added to the upstream request. The gateway removes them from client requests.
    #[key(
        text = HEADER_NAME, each = own_header,
        also = ["authResponseHeaders", "upstream_headers", "copy_headers", "auth_response_headers"],
    )]
    response_headers: Vec<String>,
    /// Responses that get the cookies which the service sets when it admits a request: none, those with a status of
    /// success or of a redirect, or all.
    #[key(default = off, also = ["always_set_cookie", "auth_always_set_cookie", "cookies", "addAuthCookiesToResponse"])]
    set_cookies: SetCookies,
    /// A page where clients sign in: a 401 of the service becomes a redirect (302) to it, with the URL of the request
    /// as a parameter.
    #[key(text = URL, parse = service_url, also = ["signin", "auth_signin", "login_url"])]
    sign_in: Option<String>,
    /// With `sign_in`: the name of that parameter.
    #[key(text = PARAMETER, parse = parameter, default = "rd")]
    sign_in_parameter: String,
    /// With `sign_in`: what that parameter holds: the whole URL of the request, or its path and query.
    #[key(default = url)]
    sign_in_value: SignInValue,
    /// Whether the service also receives the request's body, and its maximum size. The body is forwarded upstream
    /// unchanged.
    #[key(
        default = off,
        also = [
            "with_request_body", "forward_body", "forwardBody", "include_body", "request_body", "max_body_size",
        ],
    )]
    body: Option<AuthBodySettings>,
    /// Whether decisions are remembered, and for which requests and how long.
    #[key(off, default = off, also = ["auth_cache", "proxy_cache", "decision_cache", "remember"])]
    cache: Option<DecisionCacheSettings>,
    /// The field of its answer that holds the consumer's name.
    #[key(text = HEADER_NAME, parse = header::name)]
    consumer: Option<String>,
    /// The field of its answer that holds the consumer's groups, separated by commas.
    #[key(text = HEADER_NAME, parse = header::name)]
    groups: Option<String>,
    #[key(flatten)]
    identity: IdentityHeaders,
    /// A PEM file of CA certificates that verify the certificate of the URL. Default: the system's trust store.
    #[key(shape = PEM, read = pem, also = ["cas", "ca_file", "trust"])]
    ca: Option<PemFile>,
}

impl PolicyConfig for ForwardAuthSettings {
    const KEY: KeySpec = policy_key::<Self>("forward_auth", "Asks an authorization service over HTTP.")
        .aliases(&["auth_request", "forwardAuth", "forward-auth", "external_auth"]);
    const IS_GUARD: bool = true;

    fn compile(&self, compilation: &mut Compilation<'_>) -> Arc<dyn Planned> {
        Arc::new(ForwardAuthRules {
            url: self.url.clone(),
            trust: trust(&self.url, self.ca.as_ref(), compilation.problems),
            timeout: self.timeout,
            method: self.method,
            request_headers: self.request_headers.clone(),
            body: self.body.map(AuthBodySettings::compile),
            response_headers: self.response_headers.clone(),
            set_cookies: self.set_cookies,
            sign_in: self
                .sign_in
                .as_ref()
                .map(|url| SignIn::new(url, &self.sign_in_parameter, self.sign_in_value)),
            consumer: self.consumer.clone(),
            groups: self.groups.clone(),
            identity: self.identity.compile(),
            cache: self.cache.as_ref().map(|cache| cache.compile(self.request_headers.as_deref())),
        })
    }

    fn names_files(&self) -> bool {
        self.ca.is_some()
    }

    fn files(&mut self) -> Vec<&mut PemFile> {
        self.ca.iter_mut().collect()
    }
}

fn check(reader: &mut Reader, fields: &Fields<'_>, settings: &mut ForwardAuthSettings) {
    check_groups(reader, fields, settings.consumer.as_deref());
    if let Some(field) = fields.get("cache").filter(|_| settings.cache.is_some() && settings.body.is_some()) {
        let problem = Problem::error(field.at, "`cache` and `body` exclude each other");
        reader.problems.push(problem.help("the decision may depend on the body, which is not in the key"));
    }
    if let (Some(cache), Some(names), Some(field)) =
        (&settings.cache, &settings.request_headers, fields.get("cache"))
        && let Some(name) = names.iter().find(|name| !cache.covers(name))
    {
        let message = format!("the decision may depend on `{name}`, which is not in the key");
        let problem = Problem::warning(field.at, message);
        reader
            .problems
            .push(problem.help(format!("add `header {name}` to `key`, or do not send it to the service")));
    }
    let takes_body = |method: Method| matches!(method, Method::Post | Method::Put | Method::Patch);
    if let Some(field) = fields.get("method")
        && settings.body.is_some()
        && settings.method.is_some_and(|method| !takes_body(method))
    {
        let problem = Problem::error(field.at, "a request with this method has no `body`");
        reader.problems.push(problem.expected("`POST`, `PUT` or `PATCH`, or no `body`"));
    }
}

fn method(text: &str) -> Result<Method, ScalarError> {
    match Method::of(text.as_bytes()) {
        Method::Trace | Method::Connect | Method::Other => {
            Err(ScalarError::new("{} is not a method that the service can be asked with"))
        }
        method => Ok(method),
    }
}
