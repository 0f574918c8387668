//! Regular expressions.

use regex::{Regex, RegexBuilder};

use super::ScalarError;

/// Maximum size of a compiled pattern in bytes. Without it, `(a{1000}){1000}` could exhaust the memory.
const COMPILED_MAX_BYTES: usize = 1 << 20;

/// Compiles a pattern in the form in which it is used: against the whole text if `whole`.
pub fn regex(text: &str, whole: bool) -> Result<Regex, ScalarError> {
    if text.is_empty() {
        return Err(ScalarError::new("{} is not a pattern").help("remove the condition to match everything"));
    }
    // The pattern is compiled alone first: `a)(b` is invalid even if a surrounding group would balance it.
    let alone =
        RegexBuilder::new(text).size_limit(COMPILED_MAX_BYTES).build().map_err(|error| fault(&error))?;
    if !whole {
        return Ok(alone);
    }
    RegexBuilder::new(&format!("^(?:{text})$"))
        .size_limit(COMPILED_MAX_BYTES)
        .build()
        .map_err(|error| fault(&error))
}

/// Checks a pattern that must match a whole text, and returns it as written.
pub fn whole(text: &str) -> Result<String, ScalarError> {
    regex(text, true).map(|_| text.to_owned())
}

fn fault(error: &regex::Error) -> ScalarError {
    match error {
        // The last line of the error names the mistake. The lines before it repeat the pattern, which may be
        // a secret.
        regex::Error::Syntax(text) => {
            let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
            let fault = ScalarError::new(format!("{{}} is not a regular expression: {reason}"));
            if text.contains("look-around") || text.contains("backreferences") {
                fault.help("patterns run in linear time, so look-around and backreferences are not supported")
            } else {
                fault
            }
        }
        regex::Error::CompiledTooBig(_) => ScalarError::new("{} is too large once compiled")
            .help("use smaller repetitions: the limit is 1 MiB"),
        _ => ScalarError::new("{} is not a regular expression"),
    }
}

/// Returns whether the pattern has a capture group with this name or number.
pub fn has_group(pattern: &Regex, name: &str) -> bool {
    match name.parse::<usize>() {
        Ok(number) => number < pattern.captures_len(),
        Err(_) => pattern.capture_names().flatten().any(|group| group == name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_checked_and_bounded() {
        assert!(regex("/v[0-9]+", true).unwrap().is_match("/v12"));
        assert!(!regex("/a|/b", true).unwrap().is_match("/a/b"));
        for text in ["", "(", "a)(b", "(?=x)", "(a{1000}){1000}", "[z-a]"] {
            assert!(regex(text, true).is_err(), "{text}");
        }
        let fault = regex("secret(", true).unwrap_err();
        assert!(!fault.message.contains("secret"), "{}", fault.message);
    }

    #[test]
    fn groups_of_replacements() {
        let pattern = regex("/(a)/(?<id>b)", false).unwrap();
        for (name, known) in
            [("0", true), ("2", true), ("id", true), ("3", false), ("1x", false), ("name", false)]
        {
            assert_eq!(has_group(&pattern, name), known, "{name}");
        }
    }
}
