//! The JSON Schema accepts what the reader accepts.

use std::path::Path;

use serde_json::{Value, json};
use tollgate_config::schema;
use tollgate_config::section::{json as json_of, parsed};

fn instance(path: &str) -> Value {
    let text = std::fs::read_to_string(Path::new("tests").join(path)).unwrap();
    json_of(&parsed(&text).unwrap())
}

fn validator() -> jsonschema::Validator {
    tollgate_policy::register();
    jsonschema::draft202012::new(&schema()).unwrap()
}

#[test]
fn it_is_a_schema_itself() {
    tollgate_policy::register();
    assert!(jsonschema::draft202012::meta::is_valid(&schema()));
}

/// Editors offer them, so they must be valid.
#[test]
fn the_defaults_and_examples_are_valid() {
    tollgate_policy::register();
    let schema = schema();
    let mut properties = serde_json::Map::new();
    let mut values = Vec::new();
    let definitions = schema["$defs"].as_object().unwrap().iter();
    let root = ("configuration".to_owned(), schema.clone());
    for (section, definition) in definitions.map(|(name, it)| (name.clone(), it.clone())).chain([root]) {
        for (key, property) in definition["properties"].as_object().into_iter().flatten() {
            let name = format!("{section}.{key}");
            let examples = property["examples"].as_array().into_iter().flatten();
            values.extend(
                property.get("default").into_iter().chain(examples).map(|it| (name.clone(), it.clone())),
            );
            properties.insert(name, property.clone());
        }
    }
    let all = json!({ "$defs": schema["$defs"], "properties": properties });
    let validator = jsonschema::draft202012::new(&all).unwrap();
    let wrong: Vec<_> =
        values.iter().filter(|(name, value)| !validator.is_valid(&json!({ name: value }))).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(values.len() > 300, "{}", values.len());
}

/// YAML has further spellings of `on` and `off`. Editors accept them, and do not offer them.
#[test]
fn other_spellings_of_on_and_off_are_not_offered() {
    tollgate_policy::register();
    let text = schema().to_string();
    assert!(!text.contains("\"Off\"") && !text.contains("\"YES\""));
    let file = |value: &str| json!({ "listen": ":80", "routes": [], "metrics": value });
    for value in ["on", "Off", "YES", "no", "True"] {
        assert!(validator().is_valid(&file(value)), "{value}");
    }
    assert!(!validator().is_valid(&file("perhaps")));
}

#[test]
fn it_accepts_the_good_files() {
    let validator = validator();
    let mut count = 0;
    for folder in ["good", "good/parts"] {
        for entry in std::fs::read_dir(Path::new("tests").join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if !name.ends_with(".yaml") && !name.ends_with(".json") {
                continue;
            }
            count += 1;
            let instance = instance(&format!("{folder}/{name}"));
            let errors: Vec<String> = validator
                .iter_errors(&instance)
                .map(|error| format!("{} {error}", error.instance_path()))
                .collect();
            assert!(errors.is_empty(), "{name}: {errors:?}");
        }
    }
    assert!(count > 8);
}

#[test]
fn it_rejects_what_a_schema_can_see() {
    let validator = validator();
    for name in ["colon", "five", "flow", "forms", "list", "long-line", "log", "settings", "star", "switches"]
    {
        let kind = if name == "long-line" { "json" } else { "yaml" };
        assert!(!validator.is_valid(&instance(&format!("bad/{name}.{kind}"))), "{name}");
    }
    // One mistake at a time: the schema must find each on its own.
    for routes in [
        json!([{ "match": "/a" }]),
        json!([{ "to": "a:80", "respond": 204 }]),
        json!([{ "to": "a b" }]),
        json!([{ "to": { "address": "a:80", "upstream": "b" } }]),
        json!([{ "to": { "upstream": "b", "weight": -1 } }]),
        json!([{ "match": "GET /x", "to": "a" }]),
        json!([{ "match": { "path": { "prefix": "/a", "exact": "/a" } }, "to": "a" }]),
        json!([{ "match": { "path": "a" }, "to": "a" }]),
        json!([{ "match": { "host": "a:80" }, "to": "a" }]),
        json!([{ "to": "a", "timeouts": { "total": "5" } }]),
        json!([{ "to": "a", "timeouts": { "write": "5s" } }]),
        json!([{ "to": "a", "fallback": { "on": "5xx" } }]),
        json!([{ "to": "a", "fallback": { "to": "b", "respond": "c" } }]),
        json!([{ "to": "a", "fallback": { "to": "b", "path": "c" } }]),
        json!([{ "to": "a", "limits": { "body": "10M B" } }]),
        json!([{ "to": "a", "rewrite": { "path": "/a", "prefix": "/b" } }]),
        json!([{ "respond": 99 }]),
        json!([{ "respond": { "body": "a", "json": "b" } }]),
        json!([{ "redirect": { "status": 200, "to": "/" } }]),
        json!({}),
    ] {
        assert!(!validator.is_valid(&json!({ "listen": ":80", "routes": routes })), "{routes}");
    }
    for keys in [
        json!({ "balance": "least_conn" }),
        json!({ "balance": "hash" }),
        json!({ "balance": { "policy": "hash", "by": { "header": "a", "cookie": "b" } } }),
        json!({ "balance": { "panic_threshold": "101 percent" } }),
        json!({ "balance": { "panic_threshold": 101 } }),
        json!({ "balance": { "sticky": { "cookie": "a b" } } }),
        json!({ "limits": { "connections": 0 } }),
        json!({ "queue": 100 }),
        json!({ "retry": 3 }),
        json!({ "retry": { "attempts": 0 } }),
        json!({ "retry": { "on": "sometimes" } }),
        json!({ "retry": { "backoff": "off" } }),
        json!({ "hedge": true }),
        json!({ "hedge": {} }),
        json!({ "health": "healthz" }),
        json!({ "health": { "http": "/", "tcp": true } }),
        json!({ "health": { "interval": "5s" } }),
        json!({ "discover": "orders.internal" }),
        json!({ "discover": { "dns": "a", "srv": "b" } }),
        json!({ "adaptive": { "tolerance": "0.55555555555" } }),
        json!({ "circuit_breaker": true }),
    ] {
        let mut upstream = json!({ "endpoints": "a:80" });
        assert!(validator.is_valid(&json!({ "upstreams": { "a": upstream } })));
        if let (Value::Object(all), Value::Object(keys)) = (&mut upstream, keys) {
            all.extend(keys);
        }
        assert!(!validator.is_valid(&json!({ "upstreams": { "a": upstream } })), "{upstream}");
    }
}
