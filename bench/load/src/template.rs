//! Requests with values that change: `{{name}}` in a path, host, header or body stands for a column of the
//! plan's data, or for a value that the flow took from an earlier response.
//!
//! [`Names`] numbers all names of a plan once, so that a worker looks values up by index. A [`Rendering`] is
//! one request with its templates; [`Rendering::parts`] fills them in. Text without values is never rendered,
//! and plans without data and without `extract` have no templates at all.

use crate::failure::Failure;
use crate::kept::Kept;
use crate::parts::Parts;
use crate::plan::{Body, Extract, Plan, Request};
use regex::Regex;
use serde_json::Value;

/// The names of a plan's values: the columns of its data, then what its requests extract.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Names {
    names: Vec<String>,
}

impl Names {
    /// Collects the names of a plan and checks that its requests use no others.
    pub(crate) fn of(plan: &Plan) -> Result<Self, Failure> {
        let mut names: Vec<String> = plan.data.iter().flat_map(|data| data.columns.clone()).collect();
        for name in plan.requests.iter().flat_map(|request| request.extract.keys()) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let names = Self { names };
        for request in &plan.requests {
            Rendering::new(request, &names)?;
            Taking::all(request, &names)?;
        }
        Ok(names)
    }

    /// Returns how many values there are.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }
}

/// Text with values in it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Value(usize),
}

impl Template {
    fn parse(text: &str, names: &Names) -> Result<Self, Failure> {
        let wrong = |what: String| Err(Failure::Plan(what));
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let Some((name, after)) = after.split_once("}}") else {
                return wrong(format!("{text:?}: expected `}}}}` after `{{{{`"));
            };
            let name = name.trim();
            let Some(index) = names.index(name) else {
                let known = if names.names.is_empty() { "none".into() } else { names.names.join(", ") };
                return wrong(format!("{text:?}: no value is called `{name}`; there are: {known}"));
            };
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            parts.push(Part::Value(index));
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self(parts))
    }

    fn is_fixed(&self) -> bool {
        !self.0.iter().any(|part| matches!(part, Part::Value(_)))
    }

    fn render(&self, values: &[String], escape: fn(&str, &mut String)) -> String {
        let mut out = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Value(index) => escape(values.get(*index).map_or("", String::as_str), &mut out),
            }
        }
        out
    }
}

fn as_it_is(value: &str, out: &mut String) {
    out.push_str(value);
}

/// Drops control characters, which would end the field.
fn in_a_field(value: &str, out: &mut String) {
    out.extend(value.chars().filter(|char| !char.is_control()));
}

/// Encodes bytes that cannot stand in a request target (RFC 3986 section 2). Delimiters stay, so that a value may be a
/// whole path or a query; `%` stays, so that it may be encoded already. `#` would begin a fragment, which is never sent.
fn in_a_path(value: &str, out: &mut String) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:/?[]@!$&'()*+,;=%".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
}

/// A request with values in it.
#[derive(Debug, Clone)]
pub(crate) struct Rendering {
    method: String,
    path: Template,
    host: Option<Template>,
    headers: Vec<(String, Template)>,
    body: Option<Result<Template, Vec<u8>>>,
}

impl Rendering {
    /// Returns the request's templates; `None` if it has none.
    pub(crate) fn new(request: &Request, names: &Names) -> Result<Option<Self>, Failure> {
        if names.len() == 0 {
            return Ok(None);
        }
        let template = |text: &String| Template::parse(text, names);
        let made = Self {
            method: request.method.clone(),
            path: template(&request.path)?,
            host: request.host.as_ref().map(template).transpose()?,
            headers: request
                .headers
                .iter()
                .map(|(name, value)| Ok((name.clone(), template(value)?)))
                .collect::<Result<_, Failure>>()?,
            body: match &request.body {
                Some(Body::Text(text)) => Some(Ok(template(text)?)),
                Some(body) => Some(Err(body.bytes())),
                None => None,
            },
        };
        let fixed = made.path.is_fixed()
            && made.host.iter().all(Template::is_fixed)
            && made.headers.iter().all(|(_, value)| value.is_fixed())
            && made.body.iter().flatten().all(Template::is_fixed);
        Ok((!fixed).then_some(made))
    }

    /// Fills the values in.
    pub(crate) fn parts(&self, values: &[String], target: &str) -> Parts {
        let field = |template: &Template| template.render(values, in_a_field);
        Parts {
            method: self.method.clone(),
            path: self.path.render(values, in_a_path),
            host: self.host.as_ref().map_or_else(|| target.to_owned(), field),
            headers: self.headers.iter().map(|(name, value)| (name.clone(), field(value))).collect(),
            body: self.body.as_ref().map(|body| match body {
                Ok(template) => template.render(values, as_it_is).into_bytes(),
                Err(bytes) => bytes.clone(),
            }),
        }
    }
}

/// One value to take from a response.
#[derive(Debug, Clone)]
pub(crate) struct Taking {
    index: usize,
    from: From,
}

#[derive(Debug, Clone)]
enum From {
    Json(String),
    Header(String),
    Pattern(Regex),
}

impl Taking {
    /// Prepares what a request extracts.
    pub(crate) fn all(request: &Request, names: &Names) -> Result<Vec<Self>, Failure> {
        let wrong = |what: String| Err(Failure::Plan(what));
        let mut all = Vec::new();
        for (name, extract) in &request.extract {
            let from = match extract {
                Extract::Json(pointer) if pointer.is_empty() || pointer.starts_with('/') => {
                    From::Json(pointer.clone())
                }
                Extract::Json(pointer) => {
                    return wrong(format!(
                        "`extract` of {name}: {pointer:?}: expected a pointer such as /items/0/id"
                    ));
                }
                Extract::Header(field) => From::Header(field.clone()),
                Extract::Pattern(pattern) => match Regex::new(pattern) {
                    Ok(pattern) => From::Pattern(pattern),
                    Err(error) => return wrong(format!("`extract` of {name}: {error}")),
                },
            };
            let Some(index) = names.index(name) else { continue };
            all.push(Self { index, from });
        }
        Ok(all)
    }

    /// Takes the value. Returns whether the response has it.
    pub(crate) fn take(&self, kept: &Kept, values: &mut [String]) -> bool {
        let found = match &self.from {
            From::Json(pointer) => serde_json::from_slice::<Value>(&kept.body)
                .ok()
                .and_then(|value| value.pointer(pointer).and_then(plain)),
            From::Header(name) => kept.head.split(|byte| *byte == b'\n').skip(1).find_map(|line| {
                let at = line.iter().position(|byte| *byte == b':')?;
                let value = line[at + 1..].trim_ascii();
                line[..at]
                    .eq_ignore_ascii_case(name.as_bytes())
                    .then(|| String::from_utf8_lossy(value).into_owned())
            }),
            From::Pattern(pattern) => {
                let body = String::from_utf8_lossy(&kept.body);
                pattern
                    .captures(&body)
                    .and_then(|groups| groups.get(1).or_else(|| groups.get(0)))
                    .map(|found| found.as_str().to_owned())
            }
        };
        match (found, values.get_mut(self.index)) {
            (Some(found), Some(value)) => {
                *value = found;
                true
            }
            _ => false,
        }
    }
}

/// Returns a JSON value as it stands in a request: text without quotes.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Data;

    fn plan(path: &str) -> Plan {
        let mut plan = Plan::new(std::net::SocketAddr::from(([127, 0, 0, 1], 80)));
        plan.data = Some(Data { columns: vec!["id".into(), "who".into()], rows: vec![] });
        plan.requests = vec![Request::get(path)];
        plan
    }

    #[test]
    fn values_are_filled_in_and_cannot_break_out() {
        let mut plan = plan("/items/{{ id }}?by={{who}}");
        plan.requests[0].headers = vec![("X-Who".into(), "{{who}}".into())];
        plan.requests[0].body = Some(Body::Text("{\"id\":{{id}}}".into()));
        let names = Names::of(&plan).unwrap();
        let rendering = Rendering::new(&plan.requests[0], &names).unwrap().unwrap();
        let parts = rendering.parts(&["7".into(), "a b\r\nX: é".into()], "host");
        assert_eq!(parts.path, "/items/7?by=a%20b%0D%0AX:%20%C3%A9");
        assert_eq!(parts.headers, [("X-Who".to_owned(), "a bX: é".to_owned())]);
        assert_eq!(parts.body.as_deref(), Some(&b"{\"id\":7}"[..]));
        assert_eq!(parts.host, "host");
        let parts = rendering.parts(&["a/b?c=d&e%20".into(), "\"<#>{|}\\^`".into()], "host");
        assert_eq!(parts.path, "/items/a/b?c=d&e%20?by=%22%3C%23%3E%7B%7C%7D%5C%5E%60");
    }

    #[test]
    fn unknown_names_are_told_with_the_known_ones() {
        let reported = |path: &str| Names::of(&plan(path)).unwrap_err().to_string();
        assert!(reported("/{{ident}}").contains("no value is called `ident`; there are: id, who"));
        assert!(reported("/{{id").contains("expected `}}` after `{{`"));
        let fixed = plan("/none");
        let names = Names::of(&fixed).unwrap();
        assert!(Rendering::new(&fixed.requests[0], &names).unwrap().is_none());
    }

    #[test]
    fn values_are_taken_from_json_headers_and_text() {
        let mut plan = plan("/");
        let mut put = |name: &str, from| plan.requests[0].extract.insert(name.to_owned(), from);
        put("a", Extract::Json("/items/1/id".into()));
        put("b", Extract::Header("Location".into()));
        put("c", Extract::Pattern("token=([a-z]+)".into()));
        put("d", Extract::Json("/none".into()));
        let names = Names::of(&plan).unwrap();
        let takings = Taking::all(&plan.requests[0], &names).unwrap();
        let kept = Kept {
            head: b"HTTP/1.1 200 OK\r\nlocation: /there \r\n\r\n".to_vec(),
            body: br#"{"items": [0, {"id": 12}], "x": "token=abc"}"#.to_vec(),
        };
        let mut values = vec![String::new(); names.len()];
        let found: Vec<bool> = takings.iter().map(|taking| taking.take(&kept, &mut values)).collect();
        assert_eq!(found, [true, true, true, false]);
        assert_eq!(values[2..], ["12", "/there", "abc", ""]);
    }
}
