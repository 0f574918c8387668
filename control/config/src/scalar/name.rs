//! Names of routes and of policy sets.

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
