//! Generates the JSON Schema from the table of keys. Editors use it to complete and check configuration
//! files.

use serde_json::{Map, Value, json};

use crate::spec::{Choice, KeySpec, ROOT, SectionSpec, Shape, Text, sections};

/// Returns the JSON Schema (draft 2020-12) of a configuration file, with short and long forms and a
/// description of each key.
///
/// The schema accepts slightly more than the reader. It cannot express some rules, such as a port's range
/// inside a text or the grammar of regular expressions. It does not require `listen`, because editors also
/// apply it to included files.
#[must_use]
pub fn schema() -> Value {
    let mut definitions = Map::new();
    definitions.insert(
        "variable".to_owned(),
        json!({
            "type": "string",
            "pattern": r"\$\{",
            "description": "A value with an environment variable: `${NAME}` or `${NAME:-default}`.",
        }),
    );
    for section in sections().into_iter().skip(1) {
        definitions.insert(section.name.to_owned(), self::section(section));
    }
    let Value::Object(root) = section(&ROOT) else { return Value::Null };
    let mut out = Map::new();
    out.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
    out.insert("title".to_owned(), "Tollgate configuration".into());
    out.extend(root);
    out.insert("patternProperties".to_owned(), json!({ "^(x-|<<$)": {} }));
    out.insert("$defs".to_owned(), definitions.into());
    Value::Object(out)
}

/// Returns the schema of an upstream's value, whose definition is more than one section.
pub(crate) fn upstream_value() -> Value {
    shape(&crate::sections::UPSTREAM_VALUE)
}

fn section(section: &SectionSpec) -> Value {
    let mut properties = Map::new();
    for key in section.keys {
        properties.insert(key.name.to_owned(), self::key(key));
    }
    let required: Vec<Value> =
        section.keys.iter().filter(|key| key.required).map(|key| key.name.into()).collect();
    let mut out = Map::new();
    out.insert("description".to_owned(), section.doc.into());
    out.insert("type".to_owned(), "object".into());
    out.insert("properties".to_owned(), properties.into());
    out.insert("additionalProperties".to_owned(), false.into());
    // The parser resolves merge keys before the reader sees them, but an editor sees them.
    out.insert("patternProperties".to_owned(), json!({ "^<<$": {} }));
    if !required.is_empty() {
        out.insert("required".to_owned(), required.into());
    }
    match section.choice {
        Choice::Free => {}
        Choice::ExactlyOne(names) => {
            let each: Vec<Value> = names.iter().map(|name| json!({ "required": [name] })).collect();
            out.insert("oneOf".to_owned(), each.into());
        }
        Choice::AtMostOne(names) => {
            let mut pairs = Vec::new();
            for (i, first) in names.iter().enumerate() {
                pairs.extend(names[i + 1..].iter().map(|second| json!({ "required": [first, second] })));
            }
            out.insert("not".to_owned(), json!({ "anyOf": pairs }));
        }
    }
    Value::Object(out)
}

fn key(key: &KeySpec) -> Value {
    let mut out = match shape(&key.shape) {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    let text = match key.default {
        Some(default) => format!("{} Default: `{default}`.", key.doc),
        None => key.doc.to_owned(),
    };
    out.insert("description".to_owned(), text.into());
    Value::Object(out)
}

fn shape(shape: &Shape) -> Value {
    let mut forms = Vec::new();
    add(shape, &mut forms);
    if forms.iter().any(|form| {
        form.get("type").is_some_and(|kind| kind != "object" && kind != "array") || form.get("enum").is_some()
    }) {
        forms.push(json!({ "$ref": "#/$defs/variable" }));
    }
    match forms.len() {
        1 => forms.remove(0),
        _ => json!({ "anyOf": forms }),
    }
}

fn add(shape: &Shape, forms: &mut Vec<Value>) {
    match shape {
        Shape::Switch => forms.push(switch(&["on", "off", "yes", "no", "true", "false"])),
        Shape::Off => forms.push(off()),
        Shape::Port => forms.push(json!({ "type": "integer", "minimum": 0, "maximum": 65_535 })),
        Shape::Size { min, max, off } => {
            forms.push(json!({ "type": "integer", "minimum": min, "maximum": max }));
            forms.push(
                json!({ "type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?([KMGTkmgt][Ii]?)?[Bb]$|^[0-9]+$" }),
            );
            if *off {
                forms.push(self::off());
            }
        }
        Shape::Duration => {
            forms.push(json!({ "type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?(us|ms|s|m|h|d))+$" }));
            forms.push(off());
        }
        Shape::Time { off, .. } => {
            forms.push(json!({ "type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?(us|ms|s|m|h|d))+$" }));
            if *off {
                forms.push(self::off());
            }
        }
        Shape::Percent { min, max, off } => {
            forms.push(json!({ "type": "number", "minimum": min, "maximum": max }));
            forms.push(json!({ "type": "string", "pattern": r"^[0-9]+(\.[0-9]{1,4})? ?%?$" }));
            if *off {
                forms.push(self::off());
            }
        }
        Shape::Count { min, max, off } => {
            let mut form = json!({ "type": "integer", "minimum": min });
            if *max != u64::MAX {
                form["maximum"] = json!(max);
            }
            forms.push(form);
            forms.push(json!({ "type": "string", "pattern": "^[0-9]+$" }));
            if *off {
                forms.push(self::off());
            }
        }
        Shape::Word(words) => forms.push(json!({ "enum": words })),
        Shape::Text(text) => forms.push(self::text(text)),
        Shape::Section(section) => forms.push(json!({ "$ref": format!("#/$defs/{}", section.name) })),
        Shape::OneOrMany(inner) => {
            add(inner, forms);
            forms.push(json!({ "type": "array", "items": self::shape(inner) }));
        }
        Shape::ListOf(inner) => forms.push(json!({ "type": "array", "items": self::shape(inner) })),
        Shape::MapOf(inner) => {
            forms.push(json!({ "type": "object", "additionalProperties": self::shape(inner) }));
        }
        Shape::AnyOf(shapes) => shapes.iter().for_each(|inner| add(inner, forms)),
        Shape::Anything => forms.push(json!({})),
    }
}

fn off() -> Value {
    switch(&["off", "no", "false"])
}

/// Returns the words in YAML's three spellings, and as booleans.
fn switch(words: &[&str]) -> Value {
    let mut values = Vec::new();
    for word in words {
        match *word {
            "true" => values.push(Value::Bool(true)),
            "false" => values.push(Value::Bool(false)),
            _ => {}
        }
        let (first, rest) = word.split_at(1);
        let title = first.to_ascii_uppercase() + rest;
        values.extend([(*word).into(), title.into(), word.to_ascii_uppercase().into()]);
    }
    json!({ "enum": values })
}

fn text(text: &Text) -> Value {
    let mut form = Map::new();
    form.insert(
        "type".to_owned(),
        if text.loose { json!(["string", "number", "boolean"]) } else { json!("string") },
    );
    if let Some(pattern) = text.pattern {
        form.insert("pattern".to_owned(), pattern.into());
    }
    Value::Object(form)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::parse::parse;
    use crate::read::json_of;

    fn instance(path: &str) -> Value {
        let text = std::fs::read_to_string(Path::new("tests").join(path)).unwrap();
        json_of(&parse(0, &text).root.unwrap())
    }

    fn validator() -> jsonschema::Validator {
        jsonschema::draft202012::new(&schema()).unwrap()
    }

    #[test]
    fn it_is_a_schema_itself() {
        assert!(jsonschema::draft202012::meta::is_valid(&schema()));
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
        for name in
            ["colon", "five", "flow", "forms", "list", "long-line", "log", "settings", "star", "switches"]
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
            json!({ "adaptive": { "tolerance": "0.55555" } }),
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
}
