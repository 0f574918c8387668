//! Filters of rules and of backends.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::backends::{Backend, Backends, Referrer};
use super::conditions::Condition;
use super::{plain, plain_field};
use crate::resources::{Cors, Filter, HeaderModifier, Mirror, PathModifier, Redirect, UrlRewrite};

/// The effect of a rule's filters on its requests.
pub enum Outcome {
    /// They are forwarded, with these changes.
    Forward(Map<String, Value>),
    /// They are redirected.
    Redirect(Value),
}

/// The filters of a rule in the gateway's form.
pub struct Filters {
    pub outcome: Outcome,
    request: BTreeMap<&'static str, Value>,
    response: BTreeMap<&'static str, Value>,
    mirrors: Vec<Value>,
    cors: Option<Value>,
    /// A reference to something that does not exist or is not permitted.
    pub unresolved: Option<Condition>,
    /// A message about the first filter that the gateway does not support.
    pub unsupported: Option<String>,
}

impl Filters {
    /// Converts filters.
    pub fn new(filters: &[Filter], referrer: &Referrer<'_>, backends: &mut Backends<'_>) -> Self {
        let mut out = Self {
            outcome: Outcome::Forward(Map::new()),
            request: BTreeMap::new(),
            response: BTreeMap::new(),
            mirrors: Vec::new(),
            cors: None,
            unresolved: None,
            unsupported: None,
        };
        for (index, filter) in filters.iter().enumerate() {
            let done = match filter.kind.as_str() {
                "RequestHeaderModifier" => {
                    filter.request_header_modifier.as_ref().map(|change| modify(&mut out.request, change))
                }
                "ResponseHeaderModifier" => {
                    filter.response_header_modifier.as_ref().map(|change| modify(&mut out.response, change))
                }
                "RequestMirror" => {
                    filter.request_mirror.as_ref().map(|to| out.mirror(to, index, referrer, backends))
                }
                "RequestRedirect" => filter.request_redirect.as_ref().map(|to| {
                    out.outcome = Outcome::Redirect(redirect(to));
                }),
                "URLRewrite" => filter.url_rewrite.as_ref().map(|to| {
                    if let Outcome::Forward(rewrite) = &mut out.outcome {
                        *rewrite = url_rewrite(to);
                    }
                }),
                "CORS" => filter.cors.as_ref().map(|policy| out.cors = Some(cors(policy))),
                "ExtensionRef" => {
                    let message = "this controller has no extensions";
                    out.unresolved = Some(Condition::no("ResolvedRefs", "InvalidKind", message));
                    Some(())
                }
                _ => None,
            };
            if done.is_none() {
                out.unsupported = Some(format!("the filter {} is not supported", filter.kind));
            }
        }
        out
    }

    fn mirror(&mut self, to: &Mirror, index: usize, referrer: &Referrer<'_>, backends: &mut Backends<'_>) {
        match backends.resolve(referrer, &to.backend_ref, index) {
            Ok(Backend::Upstream(name)) => {
                let mut mirror = json!({ "to": name, "header": "off" });
                if let Some(fraction) = &to.fraction {
                    mirror["percent"] =
                        format!("{}/{}", fraction.numerator, fraction.denominator.unwrap_or(100)).into();
                } else if let Some(percent) = to.percent {
                    mirror["percent"] = format!("{percent}%").into();
                }
                // A second copy to the same backend would tell it nothing new.
                if !self.mirrors.iter().any(|known| known["to"] == mirror["to"]) {
                    self.mirrors.push(mirror);
                }
            }
            Ok(Backend::Broken) => {}
            // The copies are lost; the requests themselves are served.
            Err(condition) => self.unresolved_mirror(condition),
        }
    }

    fn unresolved_mirror(&mut self, condition: Condition) {
        self.unresolved = Some(condition);
    }

    /// Returns the policies of the gateway that do what the filters ask for.
    pub fn policies(&self) -> Map<String, Value> {
        let mut out = Map::new();
        let mut headers = Map::new();
        for (key, changes) in [("request", &self.request), ("response", &self.response)] {
            if !changes.is_empty() {
                let changes: Map<String, Value> =
                    changes.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
                headers.insert(key.to_owned(), changes.into());
            }
        }
        if !headers.is_empty() {
            out.insert("headers".to_owned(), headers.into());
        }
        if !self.mirrors.is_empty() {
            out.insert("mirror".to_owned(), self.mirrors.clone().into());
        }
        if let Some(cors) = &self.cors {
            out.insert("cors".to_owned(), cors.clone());
        }
        out
    }
}

fn modify(changes: &mut BTreeMap<&'static str, Value>, change: &HeaderModifier) {
    for (key, fields) in [("set", &change.set), ("add", &change.add)] {
        let map = changes.entry(key).or_insert_with(|| json!({}));
        for field in fields {
            map[&field.name] = plain_field(&field.value).into();
        }
        if map.as_object().is_some_and(Map::is_empty) {
            changes.remove(key);
        }
    }
    if !change.remove.is_empty() {
        let list = changes.entry("remove").or_insert_with(|| json!([]));
        list.as_array_mut()
            .into_iter()
            .for_each(|list| list.extend(change.remove.iter().map(|name| json!(name))));
    }
}

fn redirect(from: &Redirect) -> Value {
    let mut out = Map::new();
    out.insert("status".to_owned(), from.status_code.unwrap_or(302).into());
    if let Some(scheme) = &from.scheme {
        out.insert("scheme".to_owned(), scheme.as_str().into());
    }
    if let Some(host) = &from.hostname {
        out.insert("host".to_owned(), host.as_str().into());
    }
    if let Some(port) = from.port {
        out.insert("port".to_owned(), port.into());
    }
    out.extend(path_change(from.path.as_ref()));
    out.into()
}

fn url_rewrite(from: &UrlRewrite) -> Map<String, Value> {
    let mut out = path_change(from.path.as_ref());
    if let Some(host) = &from.hostname {
        out.insert("host".to_owned(), host.as_str().into());
    }
    out
}

fn path_change(path: Option<&PathModifier>) -> Map<String, Value> {
    let mut out = Map::new();
    let Some(path) = path else { return out };
    // `$` begins a capture group in the gateway's paths.
    if let Some(full) = &path.replace_full_path {
        out.insert("path".to_owned(), plain(&full.replace('$', "$$")).into());
    } else if let Some(prefix) = &path.replace_prefix_match {
        let prefix = if prefix.is_empty() { "/" } else { prefix.as_str() };
        out.insert("prefix".to_owned(), plain(prefix).into());
    }
    out
}

fn cors(from: &Cors) -> Value {
    let mut out = json!({});
    let credentials = from.allow_credentials == Some(true);
    if credentials && from.allow_origins.iter().any(|origin| origin == "*") {
        // The gateway does not take `*` with credentials, because it is seldom meant. Here it is.
        out["regex"] = ".*".into();
    } else {
        out["origins"] = json!(from.allow_origins);
    }
    for (key, list) in
        [("methods", &from.allow_methods), ("headers", &from.allow_headers), ("expose", &from.expose_headers)]
    {
        if !list.is_empty() {
            out[key] = json!(list);
        }
    }
    if credentials {
        out["credentials"] = true.into();
    }
    out["max_age"] = format!("{}s", from.max_age.unwrap_or(5).min(86_400)).into();
    out
}
