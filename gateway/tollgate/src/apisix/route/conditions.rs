//! Converts the conditions of a route: `uri`, `host`, `methods`, and the alternatives that `vars` adds.

use serde_json::{Map, Value, json};

use super::super::fields::ObjectFields;
use super::super::parts::ServiceParts;
use super::super::vars;

/// The conditions in a route's own fields.
#[derive(Debug)]
pub(super) struct RouteConditions {
    paths: Vec<Value>,
    hosts: Vec<Option<String>>,
    methods: Option<Vec<String>>,
}

impl RouteConditions {
    pub fn of(fields: &mut ObjectFields, service: &ServiceParts) -> Result<Self, String> {
        let paths = match (fields.text("uri")?, fields.texts("uris")?) {
            (Some(one), None) => vec![one],
            (None, Some(many)) => many,
            (None, None) => return Err("`uri` is missing: `/hello`, or `/hello/*`".to_owned()),
            _ => return Err("`uri` and `uris` exclude each other".to_owned()),
        };
        let hosts = match (fields.text("host")?, fields.texts("hosts")?) {
            (Some(one), None) => vec![Some(one)],
            (None, Some(many)) => many.into_iter().map(Some).collect(),
            (None, None) => match &service.hosts {
                Some(hosts) => hosts.iter().cloned().map(Some).collect(),
                None => vec![None],
            },
            _ => return Err("`host` and `hosts` exclude each other".to_owned()),
        };
        let paths = paths.iter().map(|path| path_match(path)).collect::<Result<_, _>>()?;
        Ok(Self { paths, hosts, methods: fields.texts("methods")? })
    }

    /// Returns the entries of `match`, each combined with one of the alternatives in `further`.
    pub fn matches(&self, further: &[vars::VarCondition]) -> Result<Vec<Value>, String> {
        let mut out = Vec::new();
        for further in further {
            let hosts = match (&further.host, self.hosts.as_slice()) {
                (None, hosts) => hosts.to_vec(),
                (Some(host), [None]) => vec![Some(host.clone())],
                (Some(host), hosts) => {
                    hosts.iter().filter(|own| own.as_ref() == Some(host)).cloned().collect()
                }
            };
            let methods = match (&self.methods, &further.methods) {
                (Some(own), Some(further)) => {
                    Some(own.iter().filter(|own| further.contains(own)).cloned().collect())
                }
                (own, further) => own.clone().or_else(|| further.clone()),
            };
            if methods.as_ref().is_some_and(Vec::is_empty) {
                continue;
            }
            for host in hosts {
                for path in &self.paths {
                    let Some(path) = further
                        .path
                        .as_ref()
                        .map_or(Ok(Some(path.clone())), |further| narrow_path(path, further))?
                    else {
                        continue;
                    };
                    let mut one = Map::new();
                    one.extend(host.as_ref().map(|host| ("host".to_owned(), json!(host))));
                    one.insert("path".to_owned(), path);
                    one.extend(
                        methods.as_ref().map(|methods: &Vec<String>| ("method".to_owned(), json!(methods))),
                    );
                    for (key, conditions) in [("headers", &further.headers), ("query", &further.query)] {
                        if !conditions.is_empty() {
                            one.insert(key.to_owned(), Value::Object(conditions.clone()));
                        }
                    }
                    let one = Value::Object(one);
                    if !out.contains(&one) {
                        out.push(one);
                    }
                }
            }
        }
        Ok(out)
    }
}

/// Combines a path condition with a second, narrower one; `None` if no path meets both.
fn narrow_path(own: &Value, further: &Value) -> Result<Option<Value>, String> {
    let exact = further["exact"].as_str();
    match (own["exact"].as_str(), own["prefix"].as_str(), exact) {
        (_, Some("/"), _) => Ok(Some(further.clone())),
        (Some(path), _, Some(exact)) => Ok((path == exact).then(|| own.clone())),
        (_, Some(prefix), Some(exact)) => {
            let below =
                exact.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            Ok(below.then(|| further.clone()))
        }
        _ => Err("`vars`: an expression for `uri` needs a route whose only `uri` is `/*`".to_owned()),
    }
}

/// Converts a path to a match of the path itself or of everything below it. Unlike in APISIX, a prefix for
/// `/a/*` also matches `/a`.
fn path_match(uri: &str) -> Result<Value, String> {
    let wrong = |why: &str| Err(format!("`uri` `{uri}`: {why}"));
    match uri.strip_suffix("/*") {
        _ if !uri.starts_with('/') => wrong("it does not begin with `/`"),
        Some(prefix) if prefix.contains('*') => wrong("only one `*`, at the end"),
        Some("") => Ok(json!({ "prefix": "/" })),
        Some(prefix) => Ok(json!({ "prefix": prefix })),
        None if uri.contains('*') => wrong("a `*` must be the last segment: `/hello/*`"),
        None => Ok(json!({ "exact": uri })),
    }
}
