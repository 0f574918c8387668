//! Paths as regular expressions, and what they are rewritten to.
//!
//! If one path of a host is rewritten or is a regular expression, ingress-nginx reads all paths of the host as
//! regular expressions: without regard to case, anchored at their start only, the longest one first.

use regex::Regex;
use serde_json::{Map, Value, json};

use super::forms::{is_plain_name, is_url, unusable_path};
use super::reader::Reader;
use super::wanted::Wanted;

pub fn read(reader: &mut Reader<'_>, wanted: &mut Wanted) {
    wanted.is_regex = reader.is_on("use-regex");
    wanted.rewrite = reader.text("rewrite-target").map(str::to_owned);
    let Some(root) = reader.text("app-root") else { return };
    // A query and a fragment may follow the path.
    let path = root.split(['?', '#']).next().unwrap_or_default();
    let (url, fragment) = root.split_once('#').unwrap_or((root, ""));
    let is_text = |text: &str| is_url(&format!("http://host/{text}"));
    let has_variable = root.contains("${");
    match unusable_path(path).is_none() && is_text(url) && is_text(fragment) && !has_variable {
        true => wanted.app_root = Some(root.to_owned()),
        false => reader.invalid("app-root", format!("{root:?} is not a path")),
    }
}

/// A path as a regular expression.
pub struct Pattern {
    /// The expression for the whole path.
    pub text: String,
    /// The number of its groups.
    groups: usize,
}

/// Converts a path to a regular expression for the whole path.
///
/// # Errors
/// Returns what the gateway's expressions cannot do.
pub fn pattern(path: &str) -> Result<Pattern, String> {
    // An expression that reaches the end needs no more, and reads better.
    let is_closed = [".*", "(.*)", "$"].iter().any(|end| path.ends_with(end)) && !path.ends_with("\\$");
    let text = format!("(?i){path}{}", if is_closed { "" } else { ".*" });
    // Alternatives at the top must not take the rest with them.
    let text = if path.contains('|') {
        format!("(?i)(?:{path}){}", if is_closed { "" } else { ".*" })
    } else {
        text
    };
    match Regex::new(&text) {
        Ok(regex) => Ok(Pattern { text, groups: regex.captures_len() - 1 }),
        Err(error) => {
            let why = error.to_string();
            let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            Err(format!("the path {path:?} is not a regular expression of this gateway: {why}"))
        }
    }
}

/// Returns the text with which every path begins that an expression matches.
pub fn literal_beginning(expression: &str) -> &str {
    // Of alternatives outside groups, each may begin differently.
    let mut depth = 0_u32;
    let has_alternatives = expression.chars().any(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == '|' && depth == 0
    });
    let end = expression.find(|c: char| r".\+*?()|[]{}^$".contains(c)).unwrap_or(expression.len());
    let (beginning, rest) = expression.split_at(if has_alternatives { 0 } else { end });
    // The character before one of these may be missing.
    let is_optional = rest.starts_with(['*', '?', '{']);
    match beginning.char_indices().next_back().filter(|_| is_optional) {
        Some((last, _)) => &beginning[..last],
        None => beginning,
    }
}

/// The result of a rewrite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Another path: the keys of `rewrite`.
    Path(Map<String, Value>),
    /// Another place: the keys of `redirect`.
    Redirect(Value),
}

/// Converts `rewrite-target` for a path.
///
/// # Errors
/// Returns what has no counterpart.
pub fn target(text: &str, pattern: &Pattern) -> Result<Target, String> {
    if text.starts_with("http://") || text.starts_with("https://") {
        if !is_url(text) {
            return Err(format!("{text:?} is not a URL"));
        }
        return Ok(Target::Redirect(json!({ "status": 302, "to": groups(text, pattern)? })));
    }
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    let path = groups(path, pattern)?;
    // A group may contain the slash; the gateway merges two.
    let path = if path.starts_with('/') { path } else { format!("/{path}") };
    if let Some(why) = unusable_path(&path) {
        return Err(format!("the path {path:?} of rewrite-target is not possible: {why}"));
    }
    let mut rewrite = Map::from_iter([("path".to_owned(), path.into())]);
    let mut parameters = Map::new();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        if !is_plain_name(name) {
            return Err(format!("{name:?} in rewrite-target is not the name of a parameter"));
        }
        parameters.insert(name.to_owned(), groups(value, pattern)?.into());
    }
    if !parameters.is_empty() {
        rewrite.insert("query".to_owned(), parameters.into());
    }
    Ok(Target::Path(rewrite))
}

/// Converts references to groups: nginx's have one digit, and a group that does not exist is empty.
fn groups(text: &str, pattern: &Pattern) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let next = after.chars().next().unwrap_or_default();
        match next.to_digit(10) {
            Some(group) if group as usize <= pattern.groups => {
                let follows = after[1..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
                out.push_str(&if follows { format!("${{{group}}}") } else { format!("${group}") });
                rest = &after[1..];
            }
            Some(_) => rest = &after[1..],
            None if next.is_ascii_alphabetic() || next == '{' => {
                return Err(format!("the variable in {text:?} has no counterpart in a rewritten path"));
            }
            None => {
                out.push_str("$$");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_expressions_for_the_whole_path() {
        for (path, expected) in [
            ("/foo", "(?i)/foo.*"),
            ("/foo(/|$)(.*)", "(?i)(?:/foo(/|$)(.*))"),
            ("/v[0-9]+/(.*)", "(?i)/v[0-9]+/(.*)"),
            ("/exact$", "(?i)/exact$"),
            ("/a|/b", "(?i)(?:/a|/b).*"),
        ] {
            let pattern = pattern(path).expect(path);
            assert_eq!(pattern.text, expected);
        }
        let whole =
            Regex::new(&format!("^(?:{})$", pattern("/foo(/|$)(.*)").expect("valid").text)).expect("valid");
        for (path, group) in [("/foo", Some("")), ("/FOO/bar", Some("bar")), ("/foobar", None)] {
            assert_eq!(
                whole.captures(path).and_then(|groups| groups.get(2)).map(|group| group.as_str()),
                group
            );
        }
        for path in ["/(?=x)", "/(", r"/(a)\1"] {
            assert!(pattern(path).is_err(), "{path}");
        }
    }

    #[test]
    fn beginnings_of_expressions() {
        for (expression, beginning) in [
            ("/admin/(?!public).*", "/admin/"),
            ("/admin", "/admin"),
            ("/ab?c", "/a"),
            (r"/a\.b", "/a"),
            ("/a|/b(?=c)", ""),
            ("/a(?=b|c)", "/a"),
            ("(?<!x)/a", ""),
        ] {
            assert_eq!(literal_beginning(expression), beginning, "{expression}");
        }
    }

    #[test]
    fn targets() {
        let pattern = pattern("/foo(/|$)(.*)").expect("a pattern");
        let path = |text| match target(text, &pattern) {
            Ok(Target::Path(rewrite)) => Value::from(rewrite).to_string(),
            other => panic!("{other:?}"),
        };
        for (text, expected) in [
            ("/$2", r#"{"path":"/$2"}"#),
            ("/", r#"{"path":"/"}"#),
            ("$2", r#"{"path":"/$2"}"#),
            ("/x$2y/$9", r#"{"path":"/x${2}y/"}"#),
            ("/a$", r#"{"path":"/a$$"}"#),
            ("/a?b=$2&c", r#"{"path":"/a","query":{"b":"$2","c":""}}"#),
        ] {
            assert_eq!(path(text), expected);
        }
        for odd in ["/$host", "/a b", "/a#b", "/../x", "/%zz", "http://", "https://a b/", "/a?=b"] {
            assert!(target(odd, &pattern).is_err(), "{odd}");
        }
        let elsewhere = target("https://b.example/$2", &pattern);
        assert_eq!(elsewhere, Ok(Target::Redirect(json!({"status": 302, "to": "https://b.example/$2"}))));
    }
}
