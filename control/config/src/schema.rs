//! Generates the JSON Schema from the table of keys. Editors use it to complete and check configuration
//! files.

use serde_json::{Map, Value, json};

use crate::section::{json as json_of, parsed};
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
    let Value::Object(root) = section(ROOT) else { return Value::Null };
    let mut out = Map::new();
    out.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
    out.insert("$id".to_owned(), concat!("urn:tollgate:configuration:", env!("CARGO_PKG_VERSION")).into());
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
    let default = match (key.default, key.shape) {
        // It may look like a mapping, as `{path}` does.
        (Some(default), Shape::Text(_)) => Some(default.into()),
        (default, _) => default.and_then(parsed).map(|default| json_of(&default)),
    };
    if let Some(default) = default {
        out.insert("default".to_owned(), default);
    }
    let mut examples = Vec::new();
    add_examples(&key.shape, &mut examples);
    if !examples.is_empty() {
        out.insert("examples".to_owned(), examples.into());
    }
    Value::Object(out)
}

/// Adds the examples of single values that messages name after "such as".
fn add_examples(shape: &Shape, examples: &mut Vec<Value>) {
    match shape {
        Shape::OneOrMany(inner) => add_examples(inner, examples),
        Shape::AnyOf(shapes) => shapes.iter().for_each(|inner| add_examples(inner, examples)),
        Shape::Size { .. }
        | Shape::Duration
        | Shape::Time { .. }
        | Shape::Percent { .. }
        | Shape::Text(_) => {
            let expected = shape.expected();
            let Some((_, named)) = expected.split_once("such as `") else { return };
            let mut parts = named.split('`');
            while let Some(example) = parts.next() {
                if !examples.contains(&example.into()) {
                    examples.push(example.into());
                }
                // The list ends at the first word between two examples that is not a conjunction.
                if !matches!(parts.next(), Some(", " | " or " | " and ")) {
                    return;
                }
            }
        }
        _ => {}
    }
}

fn shape(shape: &Shape) -> Value {
    let mut forms = Vec::new();
    add(shape, &mut forms);
    if forms.iter().any(|form| {
        let is_scalar = form.get("type").is_some_and(|kind| kind != "object" && kind != "array");
        is_scalar || form.get("enum").is_some() || form.get("anyOf").is_some()
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
            forms.push(
                json!({ "type": "string", "pattern": r"^([0-9]+(\.[0-9]{1,10})? ?%?|[0-9]+ ?/ ?[0-9]+)$" }),
            );
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
        Shape::Section(section) => forms.push(reference(section)),
        Shape::Registered(section) => forms.push(reference(section())),
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

fn reference(section: &SectionSpec) -> Value {
    json!({ "$ref": format!("#/$defs/{}", section.name) })
}

fn off() -> Value {
    switch(&["off", "no", "false"])
}

/// Returns the words as editors offer them, and a pattern for YAML's other spellings, which they only accept.
fn switch(words: &[&str]) -> Value {
    let mut offered = Vec::new();
    let mut accepted = Vec::new();
    for word in words {
        match *word {
            "on" | "off" => offered.push(Value::from(*word)),
            "true" => offered.push(Value::Bool(true)),
            "false" => offered.push(Value::Bool(false)),
            _ => {}
        }
        let (first, rest) = word.split_at(1);
        let title = first.to_ascii_uppercase() + rest;
        accepted.push(format!("{word}|{title}|{}", word.to_ascii_uppercase()));
    }
    let accepted = format!("^({})$", accepted.join("|"));
    json!({ "anyOf": [{ "enum": offered }, { "type": "string", "pattern": accepted }] })
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
