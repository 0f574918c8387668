//! Regular expressions.

use regex::{Regex, RegexBuilder};

use super::Fault;

/// Most bytes that a compiled pattern may take: `(a{1000}){1000}` must not eat the machine.
const COMPILED: usize = 1 << 20;

/// Checks a pattern as it will be used: against the whole text when `whole`.
pub(crate) fn regex(text: &str, whole: bool) -> Result<Regex, Fault> {
    if text.is_empty() {
        return Err(Fault::new("{} is no pattern").help("leave the condition away to match everything"));
    }
    // Alone first: `a)(b` is wrong even if a group around it would balance it.
    let alone = RegexBuilder::new(text).size_limit(COMPILED).build().map_err(|error| fault(&error))?;
    if !whole {
        return Ok(alone);
    }
    RegexBuilder::new(&format!("^(?:{text})$")).size_limit(COMPILED).build().map_err(|error| fault(&error))
}

fn fault(error: &regex::Error) -> Fault {
    match error {
        // The last line names the mistake; those before it repeat the pattern, which may hold a secret.
        regex::Error::Syntax(text) => {
            let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
            let fault = Fault::new(format!("{{}} is not a regular expression: {reason}"));
            if text.contains("look-around") || text.contains("backreferences") {
                fault.help("every pattern runs in linear time, so these do not exist")
            } else {
                fault
            }
        }
        regex::Error::CompiledTooBig(_) => {
            Fault::new("{} is too large once compiled").help("use smaller repetitions: the limit is 1 MiB")
        }
        _ => Fault::new("{} is not a regular expression"),
    }
}

/// The first group that a replacement names and the pattern does not have: its name.
pub(crate) fn missing_group(pattern: &Regex, replace: &str) -> Option<String> {
    let known = |name: &str| match name.parse::<usize>() {
        Ok(number) => number < pattern.captures_len(),
        Err(_) => pattern.capture_names().flatten().any(|group| group == name),
    };
    let mut rest = replace;
    while let Some(found) = rest.find('$') {
        rest = &rest[found + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            rest = after;
            continue;
        }
        let name = match rest.strip_prefix('{') {
            Some(inside) => inside.split_once('}').map(|(name, _)| name)?,
            None => {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                &rest[..end]
            }
        };
        if !name.is_empty() && !known(name) {
            return Some(name.to_owned());
        }
    }
    None
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
        assert_eq!(missing_group(&pattern, "/$1/${2}/$id/$$9"), None);
        assert_eq!(missing_group(&pattern, "/$3"), Some("3".into()));
        assert_eq!(missing_group(&pattern, "/$1x"), Some("1x".into()));
        assert_eq!(missing_group(&pattern, "/${name}"), Some("name".into()));
    }
}
