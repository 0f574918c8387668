//! Canaries: an Ingress that gets some requests of another one with the same host and path.

use serde_json::{Value, json};

use super::super::super::plain;
use super::forms::{is_field_value, is_token};
use super::reader::Reader;
use super::wanted::Wanted;

/// The values of a header or cookie that send a request to the canary, and never there.
const ALWAYS: &str = "always";
const NEVER: &str = "never";

/// How requests come to a canary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canary {
    /// Its share of the other requests.
    weight: u64,
    /// The whole that `weight` is a share of.
    total: u64,
    header: Option<(String, HeaderRule)>,
    cookie: Option<String>,
}

/// The values of a header that send a request to the canary.
#[derive(Clone, Debug, PartialEq, Eq)]
enum HeaderRule {
    /// `always`, and `never` the other way.
    Switch,
    /// One value.
    Value(String),
    /// Values in which an expression occurs.
    Pattern(String),
}

pub fn read(reader: &mut Reader<'_>, wanted: &mut Wanted) {
    let is_canary = reader.is_on("canary");
    let total = reader.number("canary-weight-total").unwrap_or(100).clamp(100, 1_000_000);
    let weight = reader.number("canary-weight").unwrap_or(0).min(total);
    let header = name(reader, "canary-by-header").map(|name| {
        let value = reader.text("canary-by-header-value").filter(|value| is_field_value(value));
        let value = value.map(|value| HeaderRule::Value(value.to_owned()));
        let pattern =
            || reader.text("canary-by-header-pattern").map(|pattern| HeaderRule::Pattern(pattern.to_owned()));
        (name.to_owned(), value.or_else(pattern).unwrap_or(HeaderRule::Switch))
    });
    let cookie = name(reader, "canary-by-cookie").map(str::to_owned);
    if let Some((_, HeaderRule::Pattern(pattern))) = &header
        && let Err(error) = regex::Regex::new(pattern)
    {
        let why = error.to_string();
        let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        reader.invalid(
            "canary-by-header-pattern",
            format!("{pattern:?} is not an expression of this gateway: {why}"),
        );
        return wanted.deny("canary-by-header-pattern is not valid");
    }
    if is_canary {
        wanted.canary = Some(Canary { weight, total, header, cookie });
    }
}

/// Returns the name of a field or a cookie. An odd one must not make the route of the main Ingress invalid.
fn name<'a>(reader: &mut Reader<'a>, annotation: &str) -> Option<&'a str> {
    let name = reader.text(annotation)?;
    if !is_token(name) || name.contains('*') {
        reader.invalid(annotation, format!("{name:?} is not a name; it decides about no request"));
        return None;
    }
    Some(name)
}

impl Canary {
    /// Returns the weights of the other upstream and of the canary.
    pub fn weights(&self) -> (u64, u64) {
        (self.total - self.weight, self.weight)
    }

    /// Returns the rules that choose before the weights do: first the header, then the cookie. `stable` is
    /// `None` if the other backend is no upstream.
    pub fn rules(&self, stable: Option<&str>, canary: &str) -> Vec<Value> {
        let mut rules = Vec::new();
        let mut switch = |place: &str, name: &str| {
            rules.push(json!({ "to": canary, place: { name: ALWAYS } }));
            if let Some(stable) = stable {
                rules.push(json!({ "to": stable, place: { name: NEVER } }));
            }
        };
        match &self.header {
            Some((name, HeaderRule::Switch)) => switch("headers", name),
            Some((name, HeaderRule::Value(value))) => {
                rules.push(json!({ "to": canary, "headers": { name: plain(value) } }));
            }
            // A condition of a route of its own.
            Some((_, HeaderRule::Pattern(_))) | None => {}
        }
        if let Some(cookie) = &self.cookie {
            let mut switch =
                |value: &str, to: &str| rules.push(json!({ "to": to, "cookies": { cookie: value } }));
            switch(ALWAYS, canary);
            if let Some(stable) = stable {
                switch(NEVER, stable);
            }
        }
        rules
    }

    /// Returns the conditions of a route whose requests all go to the canary, if there is one.
    pub fn condition(&self) -> Option<Value> {
        match &self.header {
            Some((name, HeaderRule::Pattern(pattern))) => {
                Some(json!({ name: { "regex": plain(&format!(".*(?:{pattern}).*")) } }))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::ingress::nginx::tests::read_all;

    #[test]
    fn the_header_comes_before_the_cookie_and_the_cookie_before_the_weight() {
        let canary = |annotations: &[(&str, &str)]| {
            let all: Vec<_> = [("canary", "true")].into_iter().chain(annotations.iter().copied()).collect();
            read_all(&all).wanted.canary.expect("a canary")
        };
        let all = canary(&[
            ("canary-by-header", "X-Canary"),
            ("canary-by-cookie", "beta"),
            ("canary-weight", "20"),
        ]);
        assert_eq!(all.weights(), (80, 20));
        assert_eq!(
            all.rules(Some("one"), "two"),
            [
                json!({"to": "two", "headers": {"X-Canary": "always"}}),
                json!({"to": "one", "headers": {"X-Canary": "never"}}),
                json!({"to": "two", "cookies": {"beta": "always"}}),
                json!({"to": "one", "cookies": {"beta": "never"}}),
            ]
        );
        assert_eq!(all.rules(None, "two").len(), 2);
        let value = canary(&[("canary-by-header", "X-Region"), ("canary-by-header-value", "eu")]);
        assert_eq!(value.rules(Some("one"), "two"), [json!({"to": "two", "headers": {"X-Region": "eu"}})]);
        let pattern = canary(&[("canary-by-header", "X-Region"), ("canary-by-header-pattern", "^eu")]);
        assert_eq!(pattern.condition(), Some(json!({"X-Region": {"regex": ".*(?:^eu).*"}})));
        assert!(pattern.rules(Some("one"), "two").is_empty());
        assert_eq!(
            canary(&[("canary-weight", "500"), ("canary-weight-total", "1000")]).weights(),
            (500, 500)
        );
        assert_eq!(canary(&[("canary-weight", "500")]).weights(), (0, 100));
        assert_eq!(read_all(&[("canary-weight", "10")]).wanted.canary, None);
    }
}
