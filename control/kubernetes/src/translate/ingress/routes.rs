//! The documents of an Ingress: a route for each path and for the default backend.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Map, Value, json};

use super::super::backends::{Backend, Backends, Found, OwnUpstream, Referrer, Source};
use super::super::{Document, DocumentKey, Translation, add_age, names, plain, reference};
use super::certificates::Certificates;
use super::hosts::{Hosts, path_text};
use super::nginx::{self, HttpsRedirect, Target};
use super::{HTTP, HTTPS, Served};
use crate::object::{Kind, ObjectName, Reference};
use crate::objects::Objects;
use crate::resources::{BackendReference, IngressBackend, IngressPath, IngressPort, IngressService};

/// Routes of a path besides its own one, by the last part of their names.
const CANARY: usize = 1;
const APP_ROOT: usize = 2;
const WWW: usize = 3;
/// Added for the further names of a host that are not redirected to `https`.
const PLAIN: usize = 4;

/// Paths under which an issuer of certificates looks for the answer to its challenge (RFC 8555, section 8.3). As in
/// ingress-nginx they are neither redirected to `https` nor ask for credentials.
const CHALLENGES: &str = "/.well-known/acme-challenge";

/// Writes the documents of Ingresses.
pub struct Routes<'r, 'a> {
    objects: &'a Objects,
    certificates: &'r Certificates,
    hosts: &'r Hosts<'r>,
    backends: &'r mut Backends<'a>,
    out: &'r mut Translation,
    /// The matches of the routes, and whether they are of HTTPS, with their Ingresses: an older one keeps what it has.
    taken: HashMap<(bool, String), ObjectName>,
    /// The canaries of the Ingress that is written, and whether each has endpoints.
    canaries: Vec<(Source, bool)>,
}

/// The documents of an Ingress.
pub struct Written {
    /// The documents.
    pub documents: BTreeMap<DocumentKey, Document>,
    /// The upstreams, Services and ConfigMaps that it refers to.
    pub found: Found,
    /// The upstreams of its canaries, and whether each had endpoints.
    pub canaries: Vec<(Source, bool)>,
}

/// A route of an Ingress without its action.
struct Place<'l> {
    /// The number of the path, and that of the route among the path's.
    name: (usize, usize),
    host: &'l str,
    /// The path, for messages.
    path: &'l str,
    conditions: Map<String, Value>,
    /// The rank among the regular expressions of the host.
    rank: Option<usize>,
    /// Whether requests in plain text are served in any case.
    is_plain: bool,
}

/// A path of an Ingress.
struct Location<'l> {
    host: &'l str,
    /// `None`: all paths.
    path: Option<&'l IngressPath>,
    backend: &'l IngressBackend,
    number: usize,
}

impl<'r, 'a> Routes<'r, 'a> {
    /// Starts with no documents.
    pub fn new(
        objects: &'a Objects,
        certificates: &'r Certificates,
        hosts: &'r Hosts<'r>,
        backends: &'r mut Backends<'a>,
        out: &'r mut Translation,
    ) -> Self {
        Self { objects, certificates, hosts, backends, out, taken: HashMap::new(), canaries: Vec::new() }
    }

    /// Returns the documents of an Ingress. A canary has none: it is a part of other Ingresses' routes.
    pub fn write(&mut self, one: &Served<'_>) -> Written {
        if one.wanted.canary.is_none() {
            self.write_rules(one);
        }
        Written {
            documents: std::mem::take(&mut self.out.documents),
            found: self.backends.take(),
            canaries: std::mem::take(&mut self.canaries),
        }
    }

    fn write_rules(&mut self, one: &Served<'_>) {
        let mut number = 0;
        for rule in &one.spec.rules {
            let host = rule.host.as_deref().unwrap_or_default().to_ascii_lowercase();
            let paths = rule.http.as_ref().map(|http| http.paths.as_slice()).unwrap_or_default();
            self.write_redirects(one, &host, number);
            for path in paths {
                let location = Location { host: &host, path: Some(path), backend: &path.backend, number };
                self.write_location(one, &location);
                number += 1;
            }
            // The backend of the Ingress takes what no path of the host takes. A host of its own keeps requests under this
            // Ingress's policies, and on HTTPS.
            let default = one.spec.default_backend.as_ref().filter(|_| !self.hosts.has_root(&host));
            if let (Some(backend), false) = (default, host.is_empty()) {
                self.write_location(one, &Location { host: &host, path: None, backend, number });
                number += 1;
            }
            let root = paths.iter().find(|path| path_text(path) == "/").or(paths.first());
            if let Some(root) = root.filter(|_| one.wanted.passes_tls && self.hosts.passes_tls(&host)) {
                self.pass_tls(one, &host, &root.backend, number);
            }
        }
        if let Some(backend) = &one.spec.default_backend {
            self.write_location(one, &Location { host: "", path: None, backend, number });
        }
    }

    /// Writes the redirects of a host: of its root, and of its name with or without `www.`.
    fn write_redirects(&mut self, one: &Served<'_>, host: &str, number: usize) {
        if let Some(root) = &one.wanted.app_root {
            let path = json!({ "exact": "/" });
            let action = nginx::to_root(root);
            let conditions = Map::from_iter([("path".to_owned(), path)]);
            let name = (number, APP_ROOT);
            self.emit(one, Place { name, host, path: "/", conditions, rank: None, is_plain: false }, action);
        }
        if let Some(other) = nginx::www_counterpart(host).filter(|_| one.wanted.redirects_www)
            && !self.hosts.is_known(&other)
        {
            let path = json!({ "prefix": "/" });
            let action = Map::from_iter([("redirect".to_owned(), json!({ "status": 308, "host": host }))]);
            let conditions = Map::from_iter([("host".to_owned(), other.into()), ("path".to_owned(), path)]);
            // A certificate of the host need not have its other name, so a client must not be sent there by `https`.
            let name = (number, WWW);
            self.emit(one, Place { name, host, path: "/", conditions, rank: None, is_plain: true }, action);
        }
    }

    /// Writes the routes of a path.
    fn write_location(&mut self, one: &Served<'_>, location: &Location<'_>) {
        let Location { host, path, number, .. } = *location;
        let text = path.map_or("/", path_text);
        let rank = path.and_then(|_| self.hosts.rank(host, text));
        let mut conditions = Map::new();
        let mut pattern = None;
        match rank {
            Some(_) => match nginx::pattern(text) {
                Ok(own) => {
                    conditions.insert("path".to_owned(), json!({ "regex": plain(&own.text) }));
                    pattern = Some(own);
                }
                Err(why) => return self.refuse_unmatched(one, location, rank, &why),
            },
            None => match path.and_then(unservable) {
                Some(why) => return self.note(one, format!("the path {text:?} is not served: {why}")),
                None => conditions.extend(path_conditions(path)),
            },
        }
        let action = self.action(one, location, pattern.as_ref());
        let is_plain = text.starts_with(CHALLENGES);
        if let Some((condition, action)) = action.canary {
            let mut conditions = conditions.clone();
            conditions.insert("headers".to_owned(), condition);
            let name = (number, CANARY);
            self.emit(one, Place { name, host, path: text, conditions, rank, is_plain }, action);
        }
        self.emit(
            one,
            Place { name: (number, 0), host, path: text, conditions, rank, is_plain },
            action.value,
        );
    }

    /// Refuses the requests of a path whose expression cannot be evaluated, if the Ingress keeps clients out: a path that
    /// without policies may take them otherwise.
    fn refuse_unmatched(
        &mut self,
        one: &Served<'_>,
        location: &Location<'_>,
        rank: Option<usize>,
        why: &str,
    ) {
        let Location { host, path, number, .. } = *location;
        if !one.wanted.keeps_clients_out() && self.hosts.denied(host).is_none() {
            return self.note(one, format!("{why}; it is not served"));
        }
        let path = path.map_or("/", path_text);
        let beginning = nginx::literal_beginning(path);
        self.note(one, format!("{why}; paths that begin with {beginning:?} answer 503"));
        let expression = json!({ "regex": format!("(?i){}.*", regex::escape(beginning)) });
        let conditions = Map::from_iter([("path".to_owned(), expression)]);
        let place = Place { name: (number, 0), host, path, conditions, rank, is_plain: false };
        self.emit(one, place, Action::unavailable(Map::new()).value);
    }

    /// Decides what happens to the requests of a path.
    fn action(
        &mut self,
        one: &Served<'_>,
        location: &Location<'_>,
        pattern: Option<&nginx::Pattern>,
    ) -> Action {
        let wanted = &one.wanted;
        if let Some(why) = &wanted.denied {
            self.note(one, format!("requests are answered with 503: {why}"));
            return Action::unavailable(Map::new());
        }
        let Location { host, path, backend, number } = *location;
        if let Some(why) = self.hosts.denied(host) {
            self.note(one, format!("requests for {host} are answered with 503: {why}"));
            return Action::unavailable(Map::new());
        }
        if let Some(redirect) = &wanted.redirect {
            return Action { value: redirect.clone(), canary: None };
        }
        let mut policies = wanted.policies.clone();
        if path.is_some_and(|path| path_text(path).starts_with(CHALLENGES)) {
            nginx::admit_without_credentials(&mut policies);
        }
        if let Err(why) = nginx::authorization_for_host(&mut policies, host, self.certificates.covers(host)) {
            self.note(one, format!("requests are answered with 503: {why}"));
            return Action::unavailable(Map::new());
        }
        let text = path.map_or("/", path_text);
        let mut rewrite = Map::new();
        if let (Some(target), Some(pattern)) = (wanted.rewrite.as_ref().filter(|to| *to != text), pattern) {
            match nginx::target(target, pattern) {
                Ok(Target::Path(keys)) => rewrite = keys,
                Ok(Target::Redirect(to)) => {
                    let value = Map::from_iter([("redirect".to_owned(), to)]);
                    return Action { value, canary: None };
                }
                Err(why) => {
                    // A request must not reach the endpoint under a path that was not meant for it.
                    self.note(one, format!("requests are answered with 503: {why}"));
                    return Action::unavailable(Map::new());
                }
            }
        }
        if let Some(host) = &wanted.upstream_host {
            rewrite.insert("host".to_owned(), host.as_str().into());
        }
        let default =
            wanted.default_backend.as_ref().and_then(|name| self.default_backend(one, name, number));
        let own = self.upstream(one, one, number, backend);
        let Some(upstream) = own.or_else(|| default.clone()) else { return Action::unavailable(policies) };
        let mut value = wanted.route.clone();
        if let Some(default) = default.filter(|default| *default != upstream) {
            value.insert("fallback".to_owned(), fallbacks(&wanted.error_statuses, &default));
        }
        if !rewrite.is_empty() {
            value.insert("rewrite".to_owned(), rewrite.into());
        }
        if let Some((address, policy)) = &wanted.mirror {
            let name = names::join(&[&one.meta.namespace, &one.meta.name, "mirror"]);
            self.out.put("upstreams", &name, json!({ "endpoints": [address] }), [owner(one)]);
            let mut policy = policy.clone();
            policy["to"] = name.into();
            policies.insert("mirror".to_owned(), policy);
        }
        let canary = path.and_then(|path| self.hosts.canary(host, path));
        let mut to = json!([{ "upstream": upstream }]);
        let mut only_canary = None;
        if let Some((other, backend)) = canary
            && let Some(canary) = &other.wanted.canary
            && let Some(name) = self.upstream(one, other, number, backend).filter(|name| *name != upstream)
            && self.has_endpoints(&name)
        {
            let (stable_weight, weight) = canary.weights();
            to = json!([
                { "upstream": upstream, "weight": stable_weight }, { "upstream": name, "weight": weight },
            ]);
            let mut conditional = value.clone();
            conditional.insert("to".to_owned(), json!([{ "upstream": name }]));
            if !policies.is_empty() {
                conditional.insert("policies".to_owned(), policies.clone().into());
            }
            only_canary = canary.condition().map(|condition| (condition, conditional));
            let rules = canary.rules(Some(&upstream), &name);
            if !rules.is_empty() {
                policies.insert("canary".to_owned(), rules.into());
            }
        }
        value.insert("to".to_owned(), to);
        if !policies.is_empty() {
            value.insert("policies".to_owned(), policies.into());
        }
        Action { value, canary: only_canary }
    }

    /// Returns whether the upstream of a canary has endpoints. Without any, it gets no share of the requests.
    fn has_endpoints(&mut self, canary: &str) -> bool {
        let Some(source) = self.backends.source(canary) else { return false };
        let has_endpoints = source.has_endpoints(self.objects);
        self.canaries.push((source.clone(), has_endpoints));
        has_endpoints
    }

    /// Writes a route.
    fn emit(&mut self, one: &Served<'_>, place: Place<'_>, action: Map<String, Value>) {
        let Place { name: (number, group), host, path, conditions, rank, is_plain } = place;
        let has_tls = self.certificates.covers(host) && !self.hosts.passes_tls(host);
        // Requests for hosts that no rule names come by TLS, too.
        let is_of_https = has_tls || (host.is_empty() && !self.certificates.all.is_empty());
        let key = {
            let mut key = conditions.clone();
            key.entry("host".to_owned()).or_insert_with(|| host.into());
            Value::from(key).to_string()
        };
        let ingress = one.meta.object_name();
        let mut listeners = Vec::new();
        let mut older = None;
        for (listener, is_tls) in [(HTTP, false), (HTTPS, true)] {
            if is_tls && !is_of_https {
                continue;
            }
            match self.taken.entry((is_tls, key.clone())) {
                Entry::Vacant(free) => {
                    free.insert(ingress.clone());
                    listeners.push(listener);
                }
                Entry::Occupied(known) if *known.get() != ingress => older = Some(known.get().clone()),
                Entry::Occupied(_) => {}
            }
        }
        if let (Some(older), 0) = (older, group) {
            self.note(one, format!("the older Ingress {older} has the path {host}{path}"));
        }
        if listeners.is_empty() {
            return;
        }
        let names: Vec<&str> = match conditions.contains_key("host") {
            true => vec![host],
            false => self.hosts.with_aliases(host).collect(),
        };
        let is_redirected = |name: &str| match one.wanted.https {
            _ if is_plain => false,
            HttpsRedirect::Off => false,
            // A client must not be sent to a name that no entry of `tls` has.
            HttpsRedirect::WithCertificate => has_tls && (name == host || self.certificates.covers(name)),
            HttpsRedirect::Always => true,
        };
        let (redirected, plain): (Vec<&str>, Vec<&str>) =
            names.into_iter().partition(|name| is_redirected(name));
        let group_of_plain = if redirected.is_empty() { group } else { group + PLAIN };
        for (names, group, is_redirected) in [(redirected, group, true), (plain, group_of_plain, false)] {
            if names.is_empty() {
                continue;
            }
            let matches: Vec<Value> = names.iter().map(|name| with_host(name, &conditions)).collect();
            let mut value = json!({ "match": matches, "listeners": listeners });
            if let Some(fields) = value.as_object_mut() {
                fields.extend(action.clone());
                if is_redirected {
                    let policies = fields.entry("policies").or_insert_with(|| json!({}));
                    let rules = policies["intercept"].as_array().cloned().unwrap_or_default();
                    policies["intercept"] = std::iter::once(nginx::to_https()).chain(rules).collect();
                }
            }
            match rank {
                Some(rank) => value["created"] = rank_time(rank).into(),
                None => add_age(&mut value, one.meta),
            }
            let document = names::route(Kind::Ingress.name(), &ingress, number, group);
            self.out.put("routes", &document, value, [owner(one)]);
        }
    }

    /// Writes the stream of a host whose TLS connections pass through.
    fn pass_tls(&mut self, one: &Served<'_>, host: &str, backend: &IngressBackend, number: usize) {
        let keys = Map::new();
        let own = OwnUpstream { scheme: Some(""), keys: &keys, suffix: &["tcp"] };
        let Some(upstream) = self.resolve(one, number, backend, Some(&own)) else { return };
        let names: Vec<&str> = self.hosts.with_aliases(host).collect();
        let value = json!({ "server_names": names, "listeners": [HTTPS], "to": [{ "upstream": upstream }] });
        let name = one.meta.object_name();
        let document = names::route(Kind::Ingress.name(), &name, number, 0);
        self.out.put("streams", &document, value, [owner(one)]);
    }

    /// Returns the upstream of a backend with the protocol that one Ingress asks for, and with everything else
    /// that the Ingress of the backend asks for: it is another one for a canary.
    fn upstream(
        &mut self,
        one: &Served<'_>,
        other: &Served<'_>,
        number: usize,
        backend: &IngressBackend,
    ) -> Option<String> {
        let mut keys = other.wanted.upstream.clone();
        for key in ["tls", "http2"] {
            match one.wanted.upstream.get(key) {
                Some(value) => drop(keys.insert(key.to_owned(), value.clone())),
                None => drop(keys.shift_remove(key)),
            }
        }
        // Requests in plain text for a host whose TLS passes through find TLS at the endpoints.
        let scheme = match one.wanted.passes_tls && one.wanted.scheme.is_none() {
            true => {
                keys.insert("tls".to_owned(), json!({ "verify": "dangerously_off" }));
                Some("https://")
            }
            false => one.wanted.scheme,
        };
        if scheme.is_none() && keys.is_empty() {
            return self.resolve(other, number, backend, None);
        }
        let own = OwnUpstream { scheme, keys: &keys, suffix: &["ingress", &other.meta.name] };
        self.resolve(other, number, backend, Some(&own))
    }

    /// Returns the upstream of a default backend: its Service's first port.
    fn default_backend(&mut self, one: &Served<'_>, service: &str, number: usize) -> Option<String> {
        let name = ObjectName::new(&one.meta.namespace, service);
        let found = self.objects.services.get(&name).and_then(|service| service.spec.as_ref().ok());
        let port = found.and_then(|spec| spec.ports.first()).map(|port| port.port);
        let port = IngressPort { number: port, name: None };
        let backend = IngressBackend { service: Some(IngressService { name: service.to_owned(), port }) };
        self.resolve(one, number, &backend, None)
    }

    /// Returns the upstream of a backend.
    fn resolve(
        &mut self,
        one: &Served<'_>,
        number: usize,
        backend: &IngressBackend,
        own: Option<&OwnUpstream<'_>>,
    ) -> Option<String> {
        let Some(service) = &backend.service else {
            self.note(one, "a backend that is no Service is not supported");
            return None;
        };
        let name = ObjectName::new(&one.meta.namespace, &service.name);
        let port = service.port.number.or_else(|| {
            let spec = self.objects.services.get(&name)?.spec.as_ref().ok()?;
            let named = spec.ports.iter().find(|port| Some(&port.name) == service.port.name.as_ref());
            named.map(|port| port.port)
        });
        let to = BackendReference { name: service.name.clone(), port, ..BackendReference::default() };
        let (gateways, route) = (BTreeSet::new(), owner(one));
        let referrer = Referrer { route: &route, rule: number, gateways: &gateways, own };
        match self.backends.resolve(&referrer, &to, 0) {
            Ok(Backend::Upstream(upstream)) => Some(upstream),
            Ok(Backend::Broken) => None,
            Err(condition) => {
                self.note(one, condition.message);
                None
            }
        }
    }

    fn note(&mut self, one: &Served<'_>, text: impl Into<String>) {
        self.out.note(owner(one), text);
    }
}

/// The action for the requests of a path.
struct Action {
    value: Map<String, Value>,
    /// The condition on headers of a route whose requests all go to the canary, and its action.
    canary: Option<(Value, Map<String, Value>)>,
}

impl Action {
    /// Answers with 503, after these policies.
    fn unavailable(mut policies: Map<String, Value>) -> Self {
        let mut value = Map::from_iter([("respond".to_owned(), 503.into())]);
        policies.shift_remove("mirror");
        if !policies.is_empty() {
            value.insert("policies".to_owned(), policies.into());
        }
        Self { value, canary: None }
    }
}

/// Returns what a default backend does: it has the pages of some errors, and takes requests that no endpoint can
/// take.
fn fallbacks(statuses: &[u16], default: &str) -> Value {
    let mut all = Vec::new();
    if !statuses.is_empty() {
        all.push(json!({ "on": statuses, "to": default, "path": "/" }));
    }
    if !statuses.contains(&503) {
        all.push(json!({ "on": 503, "to": default }));
    }
    all.into()
}

fn owner(one: &Served<'_>) -> Reference {
    reference(Kind::Ingress, &one.meta.object_name())
}

/// Returns conditions with a host, unless they have one.
fn with_host(host: &str, conditions: &Map<String, Value>) -> Value {
    let mut one = Map::new();
    if !host.is_empty() {
        one.insert("host".to_owned(), host.into());
    }
    one.extend(conditions.clone());
    one.into()
}

/// Returns why a path that is no regular expression is not served; `None`: it is.
fn unservable(path: &IngressPath) -> Option<&'static str> {
    let text = path_text(path);
    let has_star = path.path_type != "Exact" && text.contains('*');
    let star = has_star.then_some("a `*` has no meaning here; `use-regex` makes paths expressions");
    nginx::unusable_path(text).or(star)
}

/// Returns the conditions of a path that is no regular expression.
fn path_conditions(path: Option<&IngressPath>) -> Map<String, Value> {
    let (key, value) = match path {
        None => ("path", json!({ "prefix": "/" })),
        Some(path) => {
            let text = &*plain(path_text(path));
            match path.path_type.as_str() {
                "Exact" => ("path", json!({ "exact": text })),
                // A slash at the end has no meaning in a prefix of whole segments.
                "Prefix" => (
                    "path",
                    json!({ "prefix": match text.trim_end_matches('/') { "" => "/", text => text } }),
                ),
                _ if text == "/" => ("path", json!({ "prefix": "/" })),
                // Every path that begins with the text, as in ingress-nginx.
                _ => ("path_prefix", json!(text)),
            }
        }
    };
    Map::from_iter([(key.to_owned(), value)])
}

/// Returns a time of creation that puts a route before all of a higher rank: among the regular expressions
/// of a host, the gateway takes the oldest match. (The age of the Ingress has no meaning among them.)
fn rank_time(rank: usize) -> String {
    let (minutes, seconds) = (rank / 60 % 60, rank % 60);
    format!("1970-01-01T{:02}:{minutes:02}:{seconds:02}Z", (rank / 3600).min(23))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_the_order_of_ranks() {
        let times: Vec<String> = [0, 1, 59, 60, 3599, 3600, 86_399].into_iter().map(rank_time).collect();
        assert!(times.is_sorted() && times[4] == "1970-01-01T00:59:59Z", "{times:?}");
    }
}
