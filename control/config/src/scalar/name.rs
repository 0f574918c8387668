//! Names of routes, of policy sets and of listeners.

use super::ScalarError;

/// Checks the name of a policy set or a route.
pub(crate) fn name(text: &str) -> Result<String, ScalarError> {
    let odd = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ' '));
    if let Some(odd) = text.chars().position(odd) {
        return Err(ScalarError::new("{} is not a name").part(odd, 1));
    }
    if text.trim() != text || text.is_empty() || text.chars().count() > 128 {
        return Err(ScalarError::new("{} is not a name")
            .help("a name has 1 to 128 characters and no blank at its ends"));
    }
    Ok(text.to_owned())
}

/// Parses the name of a listener.
pub(crate) fn listener_name(text: &str) -> Result<String, ScalarError> {
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if let Some(odd) = text.chars().position(|c| !known(c)) {
        let fault = ScalarError::new("{} is not a name").part(odd, 1);
        return Err(fault.help("the name of a listener has letters, digits, `_`, `-` and `.`"));
    }
    if text.is_empty() || text.len() > 128 {
        return Err(
            ScalarError::new("{} is not a name").help("the name of a listener has 1 to 128 characters")
        );
    }
    Ok(text.to_owned())
}
