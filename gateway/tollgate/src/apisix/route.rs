//! Routes: APISIX's form to the gateway's, and back.

use serde_json::{Map, Value, json};

use super::fields::Fields;
use super::upstream;

/// What a route of APISIX becomes.
#[derive(Debug, PartialEq)]
pub struct Parts {
    /// The route's resource.
    pub route: Value,
    /// The resource of the upstream that stands in it.
    pub upstream: Option<Value>,
}

/// What the upstream is called that stands in a route.
pub fn own_upstream(id: &str) -> String {
    format!("apisix-route-{id}")
}

/// The gateway's resources for a route of APISIX.
///
/// # Errors
/// What has no counterpart, by its name.
pub fn parts(id: &str, entries: Map<String, Value>) -> Result<Parts, String> {
    let mut fields = Fields::new(entries, "");
    fields.only("id", &[json!(id), id.parse::<u64>().map_or(Value::Null, Value::from)])?;
    // What these can say here is what holds anyway.
    fields.only("status", &[json!(1)])?;
    fields.only("priority", &[json!(0)])?;
    fields.only("enable_websocket", &[json!(true)])?;
    plugins(&mut fields)?;
    let paths = match (fields.text("uri")?, fields.texts("uris")?) {
        (Some(one), None) => vec![one],
        (None, Some(many)) => many,
        (None, None) => return Err("`uri` is missing: `/hello`, or `/hello/*`".to_owned()),
        _ => return Err("`uri` and `uris` exclude each other".to_owned()),
    };
    let hosts = match (fields.text("host")?, fields.texts("hosts")?) {
        (Some(one), None) => vec![Some(one)],
        (None, Some(many)) => many.into_iter().map(Some).collect(),
        (None, None) => vec![None],
        _ => return Err("`host` and `hosts` exclude each other".to_owned()),
    };
    let methods = fields.texts("methods")?;
    let mut matches = Vec::new();
    for host in &hosts {
        for path in &paths {
            let mut one = Map::new();
            one.extend(host.as_ref().map(|host| ("host".to_owned(), json!(host))));
            one.insert("path".to_owned(), matched(path)?);
            one.extend(methods.as_ref().map(|methods| ("method".to_owned(), json!(methods))));
            matches.push(Value::Object(one));
        }
    }
    let mut route = Map::new();
    route.insert("match".to_owned(), Value::Array(matches));
    let (own, named) = (fields.take("upstream"), fields.take("upstream_id"));
    let upstream = match (own, named) {
        (Some(own), None) => {
            let resource = upstream::resource(Fields::of(own, "upstream")?)?;
            route.insert("to".to_owned(), json!(own_upstream(id)));
            Some(resource)
        }
        (None, Some(named)) => {
            let named = named.as_str().map(str::to_owned).or(named.as_u64().map(|number| number.to_string()));
            let named = named.ok_or("`upstream_id` is to be the id of an upstream")?;
            route.insert("to".to_owned(), json!(super::resource_name(&named)));
            None
        }
        (None, None) => return Err("the route has neither `upstream` nor `upstream_id`".to_owned()),
        _ => return Err("`upstream` and `upstream_id` exclude each other".to_owned()),
    };
    route.extend(upstream::timeouts(&mut fields)?.map(|timeouts| ("timeouts".to_owned(), timeouts)));
    fields.end()?;
    Ok(Parts { route: Value::Object(route), upstream })
}

/// Plugins are said by their own names.
fn plugins(fields: &mut Fields) -> Result<(), String> {
    match fields.take("plugins") {
        None => Ok(()),
        Some(Value::Object(plugins)) if plugins.is_empty() => Ok(()),
        Some(Value::Object(plugins)) => {
            let names: Vec<_> = plugins.keys().map(|name| format!("`plugins/{name}`")).collect();
            Err(format!("{}: plugins are `policies` of this gateway, over /api/v1", names.join(", ")))
        }
        Some(_) => Err(fields.wrong("plugins", "an object")),
    }
}

/// A path that is matched as it is, or all below it. APISIX's `/a/*` is not `/a` itself; this gateway's prefix is.
fn matched(uri: &str) -> Result<Value, String> {
    let wrong = |why: &str| Err(format!("`uri` `{uri}`: {why}"));
    match uri.strip_suffix("/*") {
        _ if !uri.starts_with('/') => wrong("it does not begin with `/`"),
        Some(prefix) if prefix.contains('*') => wrong("only one `*`, at the end"),
        Some("") => Ok(json!({ "prefix": "/" })),
        Some(prefix) => Ok(json!({ "prefix": prefix })),
        None if uri.contains('*') => wrong("a `*` is to be the last segment: `/hello/*`"),
        None => Ok(json!({ "exact": uri })),
    }
}

/// APISIX's form of what [`parts`] has made; nothing, if somebody else has made or changed it.
pub fn shown(id: &str, route: &Value, upstream: Option<&Value>) -> Option<Map<String, Value>> {
    let mut out = Map::new();
    out.insert("id".to_owned(), json!(id));
    let (mut uris, mut hosts, mut methods) = (Vec::new(), Vec::new(), Value::Null);
    for one in route["match"].as_array()? {
        let path = &one["path"];
        let uri = match (path["exact"].as_str(), path["prefix"].as_str()) {
            (Some(exact), _) => exact.to_owned(),
            (None, Some("/")) => "/*".to_owned(),
            (None, Some(prefix)) => format!("{prefix}/*"),
            (None, None) => return None,
        };
        for (list, value) in [(&mut uris, Some(json!(uri))), (&mut hosts, one.get("host").cloned())] {
            if let Some(value) = value.filter(|value| !list.contains(value)) {
                list.push(value);
            }
        }
        methods = one["method"].clone();
    }
    for (one, many, list) in [("uri", "uris", uris), ("host", "hosts", hosts)] {
        match list.len() {
            0 => {}
            1 => out.extend(list.into_iter().map(|only| (one.to_owned(), only))),
            _ => drop(out.insert(many.to_owned(), Value::Array(list))),
        }
    }
    if !methods.is_null() {
        out.insert("methods".to_owned(), methods);
    }
    let to = route["to"].as_str()?;
    if to == own_upstream(id) {
        out.insert("upstream".to_owned(), Value::Object(upstream::shown(upstream?)?));
    } else {
        out.insert("upstream_id".to_owned(), json!(super::id_of(to)?));
    }
    out.extend(upstream::timeout_shown(&route["timeouts"]).map(|timeout| ("timeout".to_owned(), timeout)));
    // Whatever says more than that is not to be lost by writing it back.
    let again = parts(id, out.clone()).ok()?;
    let same = again.route == *route && again.upstream.as_ref().is_none_or(|own| Some(own) == upstream);
    same.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().expect("an object").clone()
    }

    #[test]
    fn what_is_written_is_read_back() {
        for body in [
            json!({"uri": "/hello", "upstream": {"type": "roundrobin", "nodes": {"127.0.0.1:1980": 1}}}),
            json!({"uris": ["/a", "/b/*"], "hosts": ["a.example", "*.b.example"], "methods": ["GET", "PUT"], "upstream_id": "u1"}),
            json!({"uri": "/*", "host": "a.example", "timeout": {"connect": 0.5, "read": 3.0},
                   "upstream": {"type": "chash", "hash_on": "header", "key": "X-User", "nodes": {"h:80": 2, "i:80": 0}, "retries": 2}}),
            json!({"uri": "/s", "upstream": {"type": "least_conn", "nodes": {"h:443": 1}, "scheme": "https", "retries": 0}}),
            json!({"uri": "/q", "upstream": {"type": "chash", "hash_on": "vars", "key": "arg_user", "nodes": {"h:80": 1}}}),
        ] {
            let Parts { route, upstream } = parts("1", object(body.clone())).expect("good");
            let mut shown = shown("1", &route, upstream.as_ref()).expect("ours");
            assert_eq!(shown.shift_remove("id"), Some(json!("1")));
            assert_eq!(Value::Object(shown), body);
        }
        let Parts { mut route, upstream } =
            parts("1", object(json!({"uri": "/a", "upstream": {"nodes": {"h": 1}}}))).expect("good");
        assert_eq!(upstream.as_ref().expect("its own")["endpoints"][0]["address"], "h:80");
        route["policies"] = json!({"ip": {"deny": "10.0.0.0/8"}});
        assert_eq!(shown("1", &route, upstream.as_ref()), None, "somebody else has said more");
    }

    #[test]
    fn what_has_no_counterpart_is_refused_by_name() {
        let nodes = json!({"h:80": 1});
        for (body, name) in [
            (
                json!({"uri": "/a", "upstream": {"nodes": nodes}, "plugins": {"limit-count": {}}}),
                "`plugins/limit-count`",
            ),
            (json!({"uri": "/a", "upstream": {"nodes": nodes}, "vars": []}), "`vars`"),
            (json!({"uri": "/a", "upstream": {"nodes": nodes, "checks": {}}}), "`upstream/checks`"),
            (json!({"uri": "/a", "upstream": {"nodes": nodes, "pass_host": "node"}}), "`upstream/pass_host`"),
            (json!({"uri": "/a", "upstream": {"nodes": nodes, "type": "ewma"}}), "`upstream/type`"),
            (
                json!({"uri": "/a", "upstream": {"nodes": [{"host": "h", "weight": 1, "metadata": {}}]}}),
                "`upstream/nodes/0/metadata`",
            ),
            (
                json!({"uri": "/a", "timeout": {"send": 1, "read": 2}, "upstream": {"nodes": nodes}}),
                "`timeout/send`",
            ),
            (json!({"uri": "/a", "status": 0, "upstream": {"nodes": nodes}}), "`status`"),
            (json!({"uri": "/a", "priority": 7, "upstream": {"nodes": nodes}}), "`priority`"),
            (json!({"uri": "/a*", "upstream": {"nodes": nodes}}), "`/a*`"),
            (json!({"uri": "a", "upstream": {"nodes": nodes}}), "`a`"),
            (json!({"uri": "/a"}), "`upstream`"),
            (json!({"uri": "/a", "upstream": {}}), "`upstream/nodes`"),
            (json!({"upstream": {"nodes": nodes}}), "`uri`"),
            (json!({"uri": "/a", "id": "2", "upstream": {"nodes": nodes}}), "`id`"),
            (json!({"uri": "/a", "upstream_id": "1", "upstream": {"nodes": nodes}}), "exclude"),
        ] {
            let error = parts("1", object(body.clone())).expect_err("refused");
            assert!(error.contains(name), "{body}: {error}");
        }
    }
}
