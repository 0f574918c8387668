//! The URL of a service.

use crate::scalar::ScalarError;

/// Parses the URL of a service.
pub fn service_url(text: &str) -> Result<String, ScalarError> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let Some(rest) = rest else {
        return Err(ScalarError::new("{} is not an `http` or `https` URL"));
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let odd = |c: char| !c.is_ascii_graphic() || "\"<>\\^`{|}#".contains(c);
    if authority.is_empty() || authority.contains('@') || text.chars().any(odd) {
        return Err(ScalarError::new("{} is not a valid URL").help("`https://host:port/path`"));
    }
    // The client that requests the URL needs a path.
    Ok(if path.is_empty() { format!("{text}/") } else { text.to_owned() })
}
