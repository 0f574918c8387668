//! Paths with `{name}` segments. They become regular expressions with one named capture group per segment.

use super::PathMatch;
use crate::scalar::{ScalarError, path};

/// Converts a template to a regular expression. `{name}` matches one segment that is not empty; `/*` at the
/// end matches everything below.
pub(super) fn template(text: &str) -> Result<PathMatch, ScalarError> {
    let (base, below) = match text.strip_suffix("/*") {
        Some(base) => (base, true),
        None => (text, false),
    };
    if !base.starts_with('/') {
        return path::path(text).map(PathMatch::Exact);
    }
    let mut pattern = String::new();
    let mut names: Vec<&str> = Vec::new();
    let mut at = 1;
    for segment in base[1..].split('/') {
        let length = segment.chars().count();
        pattern.push('/');
        if let Some(name) = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            if !is_name(name) {
                let fault =
                    ScalarError::new("{} has a segment that is not a valid `{name}`").part(at, length);
                return Err(fault.help("a name is a letter, and then letters, digits and `_`"));
            }
            if names.contains(&name) {
                return Err(ScalarError::new("{} has two segments of the same name").part(at, length));
            }
            names.push(name);
            pattern.push_str(&format!("(?<{name}>[^/]+)"));
        } else if let Some(odd) = segment.chars().position(|c| matches!(c, '{' | '}' | '*')) {
            let fault = ScalarError::new("{} has a `{`, `}` or `*` within a segment").part(at + odd, 1);
            return Err(fault.help("`{name}` replaces a whole segment; use `{path: {regex: ...}}` for more"));
        } else {
            let literal = path::path(&format!("/{segment}")).map_err(|fault| fault.shifted(at - 1))?;
            pattern.push_str(&regex::escape(&literal[1..]));
        }
        at += length + 1;
    }
    if below {
        pattern.push_str("(?:/.*)?");
    }
    Ok(PathMatch::Regex(pattern))
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_become_expressions() {
        let regex = |text: &str| match template(text) {
            Ok(PathMatch::Regex(pattern)) => Ok(pattern),
            Ok(other) => panic!("{other:?}"),
            Err(fault) => Err(fault.part),
        };
        assert_eq!(regex("/users/{id}").as_deref(), Ok("/users/(?<id>[^/]+)"));
        assert_eq!(regex("/{a}/é.x/{b}/*").as_deref(), Ok("/(?<a>[^/]+)/%C3%A9\\.x/(?<b>[^/]+)(?:/.*)?"));
        for (bad, part) in [
            ("/users/{1d}", Some((7, 4))),
            ("/users/{}", Some((7, 2))),
            ("/{a}/{a}", Some((5, 3))),
            ("/é/x{a}", Some((4, 1))),
            ("/{a}/*/b", Some((5, 1))),
            ("/{a}/b c", Some((6, 1))),
        ] {
            assert_eq!(regex(bad), Err(part), "{bad}");
        }
    }
}
