//! The settings that annotations of an Ingress ask for.

use serde_json::{Map, Value};

use super::canary::Canary;

/// Whether requests in plain text are redirected to `https`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HttpsRedirect {
    /// Never.
    Off,
    /// If the host is served over TLS.
    #[default]
    WithCertificate,
    /// In any case: something in front of the gateway may end TLS.
    Always,
}

/// The settings that annotations of an Ingress ask for, in the form of the gateway's documents.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Policies of the routes.
    pub policies: Map<String, Value>,
    /// Other keys of the routes that forward.
    pub route: Map<String, Value>,
    /// Keys of upstreams of its own.
    pub upstream: Map<String, Value>,
    /// The beginning of endpoints' addresses; `None`: the Service decides.
    pub scheme: Option<&'static str>,
    /// Whether paths are regular expressions.
    pub is_regex: bool,
    /// The value of `rewrite-target`.
    pub rewrite: Option<String>,
    /// The `Host` sent upstream.
    pub upstream_host: Option<String>,
    /// Redirects to `https`.
    pub https: HttpsRedirect,
    /// The action of the routes in place of forwarding: a redirect.
    pub redirect: Option<Map<String, Value>>,
    /// The path to which requests for `/` are redirected.
    pub app_root: Option<String>,
    /// Further names of its hosts.
    pub aliases: Vec<String>,
    /// Whether each host with `www.` redirects to the one without, or the other way round.
    pub redirects_www: bool,
    /// Whether TLS connections pass through undecrypted.
    pub passes_tls: bool,
    /// How requests come here instead of to another Ingress.
    pub canary: Option<Canary>,
    /// The Service that takes requests if the path's own Service has no endpoints.
    pub default_backend: Option<String>,
    /// The statuses of errors whose pages come from the default backend.
    pub error_statuses: Vec<u16>,
    /// The endpoint that gets copies of requests.
    pub mirror: Option<(String, Value)>,
    /// Whether clients of its hosts must show a certificate.
    pub verifies_clients: bool,
    /// Why no request may be served.
    pub denied: Option<String>,
}

impl Wanted {
    /// Refuses all requests, because something that keeps clients out cannot be applied.
    pub fn deny(&mut self, why: impl Into<String>) {
        self.denied.get_or_insert(why.into());
    }

    /// Returns whether some clients are kept out.
    pub fn keeps_clients_out(&self) -> bool {
        let guards = ["ip", "basic", "forward_auth", "any_of"];
        self.denied.is_some() || guards.iter().any(|guard| self.policies.contains_key(*guard))
    }

    /// Sets a key of a policy.
    pub fn set_policy(&mut self, policy: &str, key: &str, value: impl Into<Value>) {
        set(&mut self.policies, policy, key, value.into());
    }

    /// Sets a key of a section of the routes.
    pub fn set_route(&mut self, section: &str, key: &str, value: impl Into<Value>) {
        set(&mut self.route, section, key, value.into());
    }
}

fn set(map: &mut Map<String, Value>, section: &str, key: &str, value: Value) {
    let section = map.entry(section.to_owned()).or_insert_with(|| Map::new().into());
    if let Some(section) = section.as_object_mut() {
        section.insert(key.to_owned(), value);
    }
}
