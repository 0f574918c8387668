//! Converts a plugin's settings from JSON to types, and reports problems with their position.
//!
//! [`settings`] rephrases the errors of serde: without terms of Rust, and without values, which may be
//! secret.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

/// A problem of a plugin's settings. Text in backquotes is the user's, or meant to be typed literally.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsProblem {
    /// The position in the settings as a JSON pointer (RFC 6901); empty: the settings as a whole.
    pub pointer: String,
    /// The problem in one line without a full stop.
    pub message: String,
    /// The expected value: "a whole number", "one of `a` and `b`".
    pub expected: Option<String>,
    /// Advice on how to fix the problem.
    pub help: Option<String>,
    /// The accepted words; the report suggests the one nearest to the user's word.
    pub words: Vec<String>,
    /// Whether the key itself is wrong instead of its value.
    pub key: bool,
}

impl SettingsProblem {
    /// Creates a problem at a JSON pointer: `/window/from`, `/allow/0`, or the empty string for the whole.
    #[must_use]
    pub fn at(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        let (pointer, message) = (pointer.into(), message.into());
        Self { pointer, message, expected: None, help: None, words: Vec::new(), key: false }
    }

    /// Adds the expected value.
    #[must_use]
    pub fn expected(mut self, what: impl Into<String>) -> Self {
        self.expected = Some(what.into());
        self
    }

    /// Adds advice on how to fix the problem.
    #[must_use]
    pub fn help(mut self, what: impl Into<String>) -> Self {
        self.help = Some(what.into());
        self
    }
}

/// All problems of a plugin's settings, so that users can fix them in one pass. `?` converts a single
/// problem.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsProblems(Vec<SettingsProblem>);

impl SettingsProblems {
    /// Adds a problem.
    pub fn push(&mut self, problem: SettingsProblem) {
        self.0.push(problem);
    }

    /// Returns the value if there are no problems.
    ///
    /// # Errors
    /// The problems, if there are any.
    pub fn or<T>(self, value: T) -> Result<T, Self> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }

    /// Returns the problems in the order of their discovery.
    #[must_use]
    pub fn as_slice(&self) -> &[SettingsProblem] {
        &self.0
    }
}

impl From<SettingsProblem> for SettingsProblems {
    fn from(problem: SettingsProblem) -> Self {
        Self(vec![problem])
    }
}

/// Deserializes settings with serde. Give the type `#[serde(deny_unknown_fields)]`: an unknown key is most
/// likely misspelt, and the report then suggests the nearest one.
///
/// # Errors
/// The first mismatch with its position; serde reports only one.
pub fn settings<T: DeserializeOwned>(value: &Value) -> Result<T, SettingsProblems> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().clone();
        rephrase_error(&path, &error.into_inner().to_string(), value).into()
    })
}

/// Rephrases a serde error.
fn rephrase_error(path: &Path, error: &str, settings: &Value) -> SettingsProblem {
    let pointer = pointer(path);
    let (message, expected) = match error.split_once(", expected ") {
        Some((message, expected)) => (message, Some(expected)),
        None => (error, None),
    };
    let quoted = |text: &str| text.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let words = expected.map(quoted).unwrap_or_default();
    let name = quoted(message).into_iter().next().unwrap_or_default();
    let mut problem = if message.starts_with("unknown field") {
        // Depending on the type, serde's path ends with the unknown key or before it.
        let end = format!("/{}", escaped(&name));
        let within = pointer.strip_suffix(&end).unwrap_or(&pointer);
        let here = [within, &end].concat();
        let pointer = if settings.pointer(&here).is_some() { here } else { pointer };
        SettingsProblem { key: true, ..SettingsProblem::at(pointer, format!("unknown key `{name}`")) }
    } else if message.starts_with("missing field") {
        SettingsProblem { key: true, ..SettingsProblem::at(pointer, format!("there is no `{name}`")) }
    } else if message.starts_with("unknown variant") {
        SettingsProblem::at(pointer, format!("`{name}` is none of the words that may stand here"))
    } else if let Some(kind) = message.strip_prefix("invalid type: ") {
        SettingsProblem::at(pointer, format!("this is {}", describe_found(kind)))
    } else if message.starts_with("invalid value: ") {
        SettingsProblem::at(pointer, "this value does not fit")
    } else {
        SettingsProblem::at(pointer, message)
    };
    problem.expected = expected.map(|expected| match words.as_slice() {
        [] => describe_expected(expected).to_owned(),
        words => any_of(words),
    });
    problem.words = words;
    problem
}

/// Describes the type that serde found, without the value, which may be secret.
fn describe_found(kind: &str) -> &'static str {
    match kind.split(' ').next().unwrap_or_default() {
        "string" => "a text",
        "integer" => "a whole number",
        "floating" => "a number",
        "boolean" => "`true` or `false`",
        "map" => "a mapping",
        "sequence" => "a list",
        "null" => "empty",
        _ => "of another type",
    }
}

/// Describes the type that serde expected, without Rust terms.
fn describe_expected(expected: &str) -> &str {
    match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" | "u64" | "u128" | "usize" => "a whole number, at least 0",
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "`true` or `false`",
        "a string" | "a borrowed string" => "a text",
        "a sequence" => "a list",
        "a map" => "a mapping",
        other if other.starts_with("struct ") => "a mapping",
        other => other,
    }
}

/// Formats words as "`a`, `b` or `c`".
fn any_of(words: &[String]) -> String {
    let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

/// Escapes a key for a JSON pointer.
pub(super) fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn pointer(path: &Path) -> String {
    let mut out = String::new();
    for segment in path.iter() {
        match segment {
            Segment::Seq { index } => out.push_str(&format!("/{index}")),
            Segment::Map { key } => out.push_str(&format!("/{}", escaped(key))),
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Whole {
        #[expect(dead_code, reason = "only read")]
        message: String,
        #[serde(default)]
        #[expect(dead_code, reason = "only read")]
        parts: Vec<Part>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Part {
        #[serde(rename = "a/b")]
        #[expect(dead_code, reason = "only read")]
        count: u64,
        #[expect(dead_code, reason = "only read")]
        kind: Option<Kind>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        Red,
        Green,
    }

    fn problem(value: &Value) -> SettingsProblem {
        settings::<Whole>(value).expect_err("it is not good").as_slice()[0].clone()
    }

    #[test]
    fn valid_settings_are_read() {
        let value =
            json!({"message": "a", "parts": [{"a/b": 1, "kind": "red"}, {"a/b": 2, "kind": "green"}]});
        settings::<Whole>(&value).expect("it is good");
    }

    #[test]
    fn an_unknown_key_is_reported_with_the_known_ones() {
        let found = problem(&json!({"mesage": "a"}));
        assert_eq!((found.pointer.as_str(), found.message.as_str()), ("/mesage", "unknown key `mesage`"));
        assert_eq!(found.expected.as_deref(), Some("`message` or `parts`"));
        assert_eq!(found.words, ["message", "parts"]);
        assert!(found.key);
        let found = problem(&json!({"message": "a", "parts": [{"a/b": 1}, {"a/b": 1, "x~y": 2}]}));
        assert_eq!(found.pointer, "/parts/1/x~0y");
    }

    #[test]
    fn a_missing_key_is_reported_at_its_mapping() {
        let found = problem(&json!({"message": "a", "parts": [{}]}));
        assert_eq!((found.pointer.as_str(), found.message.as_str()), ("/parts/0", "there is no `a/b`"));
        assert_eq!(problem(&json!({})).pointer, "");
    }

    #[test]
    fn a_wrong_type_is_reported_with_the_expected_one() {
        let found = problem(&json!({"message": "a", "parts": [{"a/b": "many"}]}));
        assert_eq!(found.pointer, "/parts/0/a~1b");
        assert_eq!(found.message, "this is a text");
        assert_eq!(found.expected.as_deref(), Some("a whole number, at least 0"));
        assert_eq!(problem(&json!("x")).expected.as_deref(), Some("a mapping"));
        let found = problem(&json!({"message": "a", "parts": [{"a/b": 1, "kind": "gren"}]}));
        assert_eq!(found.expected.as_deref(), Some("`red` or `green`"));
        assert_eq!(found.message, "`gren` is none of the words that may stand here");
    }
}
