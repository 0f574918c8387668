//! Requests to the admin API, for the commands of this module.

use std::io::Read;
use std::path::Path;

use hyper::Method;
use serde_json::Value;
use tollgate_config::{KINDS, from_yaml};

use crate::admin_client::{AdminClient, AdminOptions, AdminResponse, RequestContent};

/// A gateway to send requests to.
pub struct AdminApi(AdminClient);

impl AdminApi {
    /// Uses the gateway that the command line names.
    pub fn new(remote: &AdminOptions) -> Result<Self, String> {
        AdminClient::new(remote).map(Self)
    }

    /// Returns the JSON document at a path.
    pub fn get(&self, path: &str) -> Result<Value, String> {
        self.request(&Method::GET, path, RequestContent::default())
    }

    /// Returns the text at a path.
    pub fn get_text(&self, path: &str) -> Result<String, String> {
        let body = self.0.get(path)?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// Returns whether a program listens on the address.
    pub fn is_listening(&self) -> bool {
        self.0.is_listening()
    }

    /// Sends a request and returns the JSON document of its response. If it fails, returns a readable
    /// message.
    pub fn request(&self, method: &Method, path: &str, content: RequestContent) -> Result<Value, String> {
        let answer = self.0.send(method, path, &content)?;
        if !answer.status.is_success() {
            return Err(problems(&answer).unwrap_or_else(|| self.0.error_message(&answer)));
        }
        serde_json::from_slice(&answer.body)
            .map_err(|_| format!("{} does not serve the admin API of this version", self.0.address()))
    }
}

/// Returns the problems of a configuration in a response, rendered as `check` does.
fn problems(answer: &AdminResponse) -> Option<String> {
    let value: Value = serde_json::from_slice(&answer.body).ok()?;
    let texts: Vec<_> = value["problems"].as_array()?.iter().filter_map(|it| it["text"].as_str()).collect();
    (!texts.is_empty()).then(|| texts.iter().map(|text| text.trim_end()).collect::<Vec<_>>().join("\n\n"))
}

/// Splits a kind and a name that may be written together or apart. The kind may be in the singular, or be the
/// key of the file.
pub fn split_name<'a>(what: &'a str, name: Option<&'a str>) -> (&'a str, Option<&'a str>) {
    match (what.split_once('/'), name) {
        (Some((kind, name)), None) if !name.is_empty() => (kind_name(kind), Some(name)),
        (Some((kind, _)), name) => (kind_name(kind), name),
        (None, name) => (kind_name(what), name),
    }
}

/// Returns the name of a kind in the API. Unknown words stay as they are: the gateway may know them.
fn kind_name(word: &str) -> &str {
    let kind = KINDS.iter().find(|kind| [kind.name, kind.key, kind.noun].contains(&word));
    match (kind, word) {
        (Some(kind), _) => kind.name,
        (None, "policy" | "policy_set") => "policies",
        (None, other) => other,
    }
}

/// Returns the path of a resource in the admin API.
///
/// # Errors
/// The name is missing.
pub fn resource_path(what: &str) -> Result<String, String> {
    match split_name(what, None) {
        (kind, Some(name)) => Ok(format!("/api/v1/{}/{}", percent_encode(kind), percent_encode(name))),
        (kind, None) => Err(format!("`{kind}` has no name: write `{kind}/NAME`")),
    }
}

/// Percent-encodes a text for a path or a query (RFC 3986, section 2.3). Slashes are kept.
pub fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Reads a document from a file or standard input.
pub fn read_document(file: &Path) -> Result<Value, String> {
    let (name, text) = read_text(file)?;
    parse_document(&name, &text)
}

/// Reads a file or standard input. Returns the name for messages, and the text.
pub fn read_text(file: &Path) -> Result<(String, String), String> {
    let mut text = String::new();
    let (name, result) = match file == Path::new("-") {
        true => ("standard input".to_owned(), std::io::stdin().lock().read_to_string(&mut text).map(drop)),
        false => (file.display().to_string(), std::fs::read_to_string(file).map(|read| text = read)),
    };
    result.map_err(|error| format!("cannot read {name}: {error}"))?;
    Ok((name, text))
}

/// Parses a YAML document; JSON is YAML too.
pub fn parse_document(name: &str, text: &str) -> Result<Value, String> {
    from_yaml(text).map_err(|problems| {
        let texts: Vec<_> = problems.iter().map(|problem| problem.message.as_str()).collect();
        format!("{name} is not valid YAML or JSON: {}", texts.join("; "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_by_their_names() {
        assert_eq!(resource_path("routes/a b"), Ok("/api/v1/routes/a%20b".to_owned()));
        assert_eq!(resource_path("routes/shop/cart?x"), Ok("/api/v1/routes/shop/cart%3Fx".to_owned()));
        assert!(resource_path("routes").is_err() && resource_path("routes/").is_err());
        assert_eq!(split_name("routes", Some("a")), ("routes", Some("a")));
        assert_eq!(split_name("routes/a", None), ("routes", Some("a")));
        assert_eq!(split_name("routes", None), ("routes", None));
        assert_eq!(split_name("route/a", None), ("routes", Some("a")));
        assert_eq!(resource_path("policy/a"), Ok("/api/v1/policies/a".to_owned()));
        assert_eq!(split_name("policy_sets", Some("a")), ("policies", Some("a")));
    }
}
