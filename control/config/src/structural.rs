//! Generates structural schemas from the table of keys: OpenAPI v3, as definitions of resources in Kubernetes have it.
//!
//! A structural schema has one type at each place, so each key has one form here: the mapping if a file may also have a
//! short form, the list if a file may have a single entry. If the value is a text or a number, `off` is a text. If the
//! value is a mapping or a list, the section's list `disabled` names the key instead. Keys that hold a secret, and
//! names of upstreams, have the schemas of the caller: in Kubernetes they refer to objects. Keys that exclude each
//! other become rules of CEL, since the message of `oneOf` does not name them.

use serde_json::{Map, Value, json};

use crate::sections::texts::UPSTREAM_NAME;
use crate::spec::{Choice, Conceal, KeySpec, SectionSpec, Shape, Text, any_of, sections};

/// Maximum number of entries of a list or a mapping whose entries have rules: the API server refuses a schema whose
/// rules may cost too much.
const ENTRIES_MAX: u64 = 64;
/// Maximum length of a URL that a rule inspects.
const URL_MAX: u64 = 2048;
/// The key that lists what is `off`.
const DISABLED: &str = "disabled";

/// The schemas that take the place of values which other objects hold.
#[derive(Clone, Copy, Debug)]
pub struct Substitutes<'a> {
    /// The schema of a reference to a secret text.
    pub secret: &'a Value,
    /// The schema of a reference to an upstream.
    pub upstream: &'a Value,
}

/// Returns the structural schema of the section with this name, without some of its keys; `None`: there is no such
/// section.
#[must_use]
pub fn structural_schema(name: &str, without: &[&str], substitutes: Substitutes<'_>) -> Option<Value> {
    let section = sections().into_iter().find(|section| section.name == name)?;
    let mut writer = Writer { substitutes, open: Vec::new() };
    let mut schema = writer.section(section, without);
    let is_list = |schema: &Value| matches!(schema["type"].as_str(), Some("object" | "array"));
    let names: Vec<&str> = section
        .keys
        .iter()
        .filter(|key| key.shape.has_off() && is_list(&schema["properties"][key.name]))
        .map(|key| key.name)
        .collect();
    if !names.is_empty() {
        schema["properties"][DISABLED] = json!({
            "description": "The keys that are `off`, although they are on elsewhere.",
            "type": "array",
            "items": { "type": "string", "enum": names },
        });
    }
    Some(schema)
}

struct Writer<'a> {
    substitutes: Substitutes<'a>,
    /// The sections around the present place, since a structural schema cannot refer to itself.
    open: Vec<&'static str>,
}

impl Writer<'_> {
    fn section(&mut self, section: &'static SectionSpec, without: &[&str]) -> Value {
        if self.open.contains(&section.name) {
            return anything();
        }
        self.open.push(section.name);
        let mut properties = Map::new();
        let mut required = Vec::new();
        for key in section.keys.iter().filter(|key| !without.contains(&key.name)) {
            properties.insert(key.name.to_owned(), self.key(key));
            if key.required {
                required.push(Value::from(key.name));
            }
        }
        self.open.pop();
        let mut out = json!({ "description": section.doc, "type": "object" });
        if let Some(rule) = rule(&section.choice, &properties) {
            out["x-kubernetes-validations"] = json!([rule]);
        }
        out["properties"] = properties.into();
        if !required.is_empty() {
            out["required"] = required.into();
        }
        out
    }

    fn key(&mut self, key: &KeySpec) -> Value {
        let mut out = self.shape(&key.shape, key.conceal);
        let text = match key.default {
            Some(default) => format!("{} Default: `{default}`.", key.doc),
            None => key.doc.to_owned(),
        };
        out["description"] = text.into();
        out
    }

    fn shape(&mut self, shape: &Shape, conceal: Conceal) -> Value {
        match shape {
            Shape::Switch | Shape::Off => json!({ "type": "boolean" }),
            Shape::Port => json!({ "type": "integer", "minimum": 0, "maximum": 65_535 }),
            Shape::Size { min, max, off } => {
                let text = r"[0-9]+(\.[0-9]+)?([KMGTkmgt][Ii]?)?[Bb]|[0-9]+";
                let mut out = number_or_text(&format!("^({text}{})$", or_off(*off)));
                (out["minimum"], out["maximum"]) = (json!(min), json!(max));
                out
            }
            Shape::Duration => time(true),
            Shape::Time { off, .. } => time(*off),
            Shape::Percent { off, .. } => {
                let text = r"[0-9]+(\.[0-9]{1,10})? ?%?|[0-9]+ ?/ ?[0-9]+";
                number_or_text(&format!("^({text}{})$", or_off(*off)))
            }
            Shape::Count { min, max, off } => {
                let mut out = match off {
                    true => number_or_text("^([0-9]+|off)$"),
                    false => json!({ "type": "integer", "format": "int64" }),
                };
                out["minimum"] = json!(min);
                if i64::try_from(*max).is_ok() {
                    out["maximum"] = json!(max);
                }
                out
            }
            Shape::Word(words) => json!({ "type": "string", "enum": words }),
            Shape::Text(text) => self.text(text, conceal, false),
            Shape::Section(section) => self.section(section, &[]),
            Shape::Registered(section) => self.section(section(), &[]),
            Shape::OneOrMany(inner) | Shape::ListOf(inner) => {
                let items = self.shape(inner, conceal);
                let mut out = json!({ "type": "array" });
                if has_rules(&items) {
                    out["maxItems"] = ENTRIES_MAX.into();
                }
                out["items"] = items;
                out
            }
            Shape::MapOf(inner) => {
                let entries = self.shape(inner, conceal);
                let mut out = json!({ "type": "object" });
                if has_rules(&entries) {
                    out["maxProperties"] = ENTRIES_MAX.into();
                }
                out["additionalProperties"] = entries;
                out
            }
            Shape::AnyOf(shapes) => self.one_of(shapes, conceal),
            Shape::Anything => anything(),
        }
    }

    /// Returns the schema of the longest of several forms.
    fn one_of(&mut self, shapes: &[Shape], conceal: Conceal) -> Value {
        let mut forms = Vec::new();
        flatten(shapes, &mut forms);
        let is_switch = |shape: &Shape| matches!(shape, Shape::Switch | Shape::Off);
        let has_off = forms.iter().any(is_switch);
        forms.retain(|shape| !is_switch(shape) && !matches!(shape, Shape::Port));
        let is_list = |shape: &Shape| matches!(shape, Shape::OneOrMany(_) | Shape::ListOf(_));
        if let Some(list) = forms.iter().find(|shape| is_list(shape)) {
            return self.shape(list, conceal);
        }
        if let Some(section) = forms.iter().find_map(|shape| section_of(shape)) {
            return match forms.iter().all(|short| is_in(short, section)) {
                true => self.section(section, &[]),
                // The mapping cannot express the short form, so the schema accepts anything and the gateway checks it.
                false => anything(),
            };
        }
        match forms.as_slice() {
            [] => json!({ "type": "boolean" }),
            [Shape::Text(text)] => self.text(text, conceal, has_off),
            [one] => self.shape(one, conceal),
            several => {
                let has_number = |shape: &Shape| match shape {
                    Shape::Text(text) => text.loose,
                    shape => matches!(shape, Shape::Count { .. } | Shape::Size { .. }),
                };
                match several.iter().any(has_number) {
                    true => number_or_text(""),
                    false => json!({ "type": "string" }),
                }
            }
        }
    }

    fn text(&self, text: &'static Text, conceal: Conceal, off: bool) -> Value {
        if std::ptr::eq(text, &UPSTREAM_NAME) {
            return self.substitutes.upstream.clone();
        }
        if conceal == Conceal::Always {
            return self.substitutes.secret.clone();
        }
        let pattern = text.pattern.filter(|pattern| *pattern != ".").map(|pattern| match off {
            true => format!("^(on|off)$|{pattern}"),
            false => pattern.to_owned(),
        });
        let mut out = match (text.loose, pattern) {
            (true, Some(pattern)) => number_or_text(&pattern),
            (true, None) => number_or_text(""),
            (false, Some(pattern)) => json!({ "type": "string", "pattern": pattern }),
            (false, None) => json!({ "type": "string" }),
        };
        if conceal == Conceal::Credentials {
            out["maxLength"] = URL_MAX.into();
            out["x-kubernetes-validations"] = json!([{
                "rule": "!self.matches('//[^/@]*:[^/@]*@')",
                "message": "a URL here has no password: write it under its own key, as a reference to a Secret",
            }]);
        }
        out
    }
}

fn flatten(shapes: &[Shape], out: &mut Vec<Shape>) {
    for shape in shapes {
        match shape {
            Shape::AnyOf(inner) => flatten(inner, out),
            shape => out.push(*shape),
        }
    }
}

fn section_of(shape: &Shape) -> Option<&'static SectionSpec> {
    match shape {
        Shape::Section(section) => Some(section),
        Shape::Registered(section) => Some(section()),
        _ => None,
    }
}

/// Returns whether the section can express everything that its short form expresses. A number or a word has no key of
/// its own in a section that needs exactly one of its keys.
fn is_in(short: &Shape, section: &SectionSpec) -> bool {
    let is_free = !matches!(section.choice, Choice::ExactlyOne(_));
    match short {
        Shape::Word(words) => {
            is_free || words.iter().all(|word| section.keys.iter().any(|key| key.name == *word))
        }
        Shape::Count { .. } | Shape::Size { .. } => is_free,
        _ => true,
    }
}

fn or_off(off: bool) -> &'static str {
    if off { "|off" } else { "" }
}

fn time(off: bool) -> Value {
    let text = r"([0-9]+(\.[0-9]+)?(us|ms|s|m|h|d))+";
    json!({ "type": "string", "pattern": format!("^({text}{})$", or_off(off)) })
}

fn number_or_text(pattern: &str) -> Value {
    let mut out = json!({
        "x-kubernetes-int-or-string": true,
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
    });
    if !pattern.is_empty() {
        out["pattern"] = pattern.into();
    }
    out
}

fn anything() -> Value {
    json!({ "x-kubernetes-preserve-unknown-fields": true })
}

fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            fields.contains_key("x-kubernetes-validations") || fields.values().any(has_rules)
        }
        _ => false,
    }
}

/// Returns the rule for keys that exclude each other.
fn rule(choice: &Choice, properties: &Map<String, Value>) -> Option<Value> {
    let (names, condition, required) = match choice {
        Choice::Free => return None,
        Choice::ExactlyOne(names) => (names, "== 1", "exactly one of"),
        Choice::AtMostOne(names) => (names, "<= 1", "at most one of"),
    };
    // If one of the keys is left out, there is no rule.
    if !names.iter().all(|name| properties.contains_key(*name)) {
        return None;
    }
    let each: Vec<String> = names.iter().map(|name| format!("has(self.{})", escaped(name))).collect();
    let names = any_of(names.iter().map(|name| format!("`{name}`")));
    Some(json!({
        "rule": format!("[{}].filter(is, is).size() {condition}", each.join(", ")),
        "message": format!("{required} {names} is allowed{}", if condition == "== 1" { " and required" } else { "" }),
    }))
}

/// Returns the name of a field in CEL, which has words of its own.
fn escaped(name: &str) -> String {
    match name {
        "true" | "false" | "null" | "in" | "as" | "break" | "const" | "continue" | "else" | "for"
        | "function" | "if" | "import" | "let" | "loop" | "package" | "namespace" | "return" | "var"
        | "void" | "while" => {
            format!("__{name}__")
        }
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(name: &str, without: &[&str]) -> Value {
        let (secret, upstream) = (json!({ "type": "object", "x": "secret" }), json!({ "type": "object" }));
        structural_schema(name, without, Substitutes { secret: &secret, upstream: &upstream })
            .expect("the section exists")
    }

    /// A structural schema has a type everywhere, except where it says that it has none.
    fn assert_structural(schema: &Value, place: &str) {
        let is_open = schema["x-kubernetes-preserve-unknown-fields"] == true
            || schema["x-kubernetes-int-or-string"] == true;
        assert!(schema["type"].is_string() != is_open, "{place}: {schema}");
        for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
            assert_structural(inner, &format!("{place}.{name}"));
        }
        for key in ["items", "additionalProperties"] {
            if let Some(inner) = schema.get(key) {
                assert_structural(inner, &format!("{place}.{key}"));
            }
        }
    }

    #[test]
    fn every_section_is_structural() {
        for section in sections() {
            assert_structural(&schema(section.name, &[]), section.name);
        }
    }

    #[test]
    fn keys_have_one_form_and_say_what_excludes_what() {
        // A rule about keys that are left out is left out, too.
        assert_eq!(schema("route", &["to"]).get("x-kubernetes-validations"), None);
        assert!(schema("route", &[]).get("x-kubernetes-validations").is_some());
        let upstream = schema("upstream", &["endpoints"]);
        let keys = &upstream["properties"];
        assert_eq!(keys["endpoints"], Value::Null);
        // The short form of `balance` is a key of the mapping, the one of `by` is not.
        assert_eq!(keys["balance"]["type"], "object");
        assert_eq!(keys["balance"]["properties"]["by"]["x-kubernetes-preserve-unknown-fields"], true);
        assert_eq!(keys["balance"]["properties"]["sticky"]["properties"]["secret"]["x"], "secret");
        assert_eq!(
            keys["health"]["x-kubernetes-validations"][0]["rule"],
            "[has(self.http), has(self.grpc), has(self.tcp)].filter(is, is).size() == 1"
        );
        let disabled = keys["disabled"]["items"]["enum"].as_array().expect("names");
        assert!(
            ["retry", "outlier", "health"].iter().all(|name| disabled.contains(&json!(name))),
            "{disabled:?}"
        );
        assert!(!disabled.contains(&json!("proxy_protocol")), "{disabled:?}");
        assert_eq!(
            keys["timeouts"]["properties"]["connect"]["pattern"],
            r"^(([0-9]+(\.[0-9]+)?(us|ms|s|m|h|d))+|off)$"
        );
    }
}
