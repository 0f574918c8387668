//! Variables of nginx in values of annotations.

/// A text in which the gateway fills in parts of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The text with the gateway's placeholders.
    pub text: String,
    /// Whether the request's query follows.
    pub keeps_query: bool,
}

/// A piece of a text.
enum Piece<'a> {
    Text(&'a str),
    Variable(&'a str),
}

/// Returns whether a text has variables.
pub fn has_variables(text: &str) -> bool {
    text.contains('$')
}

/// Returns the names of a text's variables.
pub fn names(text: &str) -> impl Iterator<Item = &str> {
    pieces(text).into_iter().filter_map(|piece| match piece {
        Piece::Text(_) => None,
        Piece::Variable(name) => Some(name),
    })
}

/// Converts a text with variables to one with the gateway's placeholders.
///
/// # Errors
/// Returns the variable that has no counterpart.
pub fn template(text: &str) -> Result<Template, String> {
    // The whole target of the request is its path and its query, which only the end of a `Location` can have.
    let ends = ["$request_uri", "$escaped_request_uri", "$uri$is_args$args", "$uri$is_args$query_string"];
    let end = ends.into_iter().find(|end| text.ends_with(end));
    let start = end.and_then(|end| text.strip_suffix(end)).unwrap_or(text);
    let mut out = Template { text: String::new(), keeps_query: end.is_some() };
    for piece in pieces(start) {
        match piece {
            Piece::Text(text) => out.text.push_str(&text.replace('{', "{{").replace('}', "}}")),
            Piece::Variable(name) => out.text.push_str(&placeholder(name)?),
        }
    }
    if end.is_some() {
        out.text.push_str("{path}");
    }
    Ok(out)
}

/// Returns the placeholder for a variable.
fn placeholder(variable: &str) -> Result<String, String> {
    let field = |name: &str| name.replace('_', "-");
    Ok(match variable {
        "host" | "http_host" | "best_http_host" => "{host}".to_owned(),
        "uri" | "document_uri" => "{path}".to_owned(),
        "args" | "query_string" => "{query}".to_owned(),
        "scheme" | "pass_access_scheme" => "{scheme}".to_owned(),
        "remote_addr" => "{client}".to_owned(),
        "request_method" => "{method}".to_owned(),
        "req_id" | "request_id" => "{request_id}".to_owned(),
        other => match other.split_once('_') {
            Some(("http", name)) => format!("{{header.{}}}", field(name)),
            Some(("cookie", name)) => format!("{{cookie.{name}}}"),
            Some(("arg", name)) => format!("{{query.{name}}}"),
            _ => return Err(format!("the variable ${other} has no counterpart here")),
        },
    })
}

/// Splits a text at its variables, `$name` or `${name}`.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        let braced = after.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let (name, after) = match braced {
            Some((name, after)) => (name, after),
            None => {
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                after.split_at(after.find(|c| !is_name(c)).unwrap_or(after.len()))
            }
        };
        if !before.is_empty() {
            pieces.push(Piece::Text(before));
        }
        pieces.push(Piece::Variable(name));
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    pieces
}

/// Replaces the variables that are fixed for a host of an Ingress.
///
/// # Errors
/// Returns the variable that depends on the request.
pub fn for_host(text: &str, host: &str, scheme: &str) -> Result<String, String> {
    let mut out = String::new();
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Variable("host" | "http_host" | "best_http_host" | "server_name")
                if !host.is_empty() && !host.starts_with('*') =>
            {
                out.push_str(host);
            }
            Piece::Variable("scheme" | "pass_access_scheme") => out.push_str(scheme),
            Piece::Variable(name) => return Err(format!("the variable ${name} is not fixed for a host")),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_become_placeholders() {
        for (text, expected, keeps_query) in [
            ("https://a.example/", "https://a.example/", false),
            ("https://a.example$request_uri", "https://a.example{path}", true),
            ("https://$host/x/{y}?c=$remote_addr", "https://{host}/x/{{y}}?c={client}", false),
            (
                "$scheme://a.example/${http_x_user}/$cookie_a",
                "{scheme}://a.example/{header.x-user}/{cookie.a}",
                false,
            ),
        ] {
            let expected = Template { text: expected.to_owned(), keeps_query };
            assert_eq!(template(text), Ok(expected), "{text}");
        }
        assert!(template("https://a.example$request_uri/x").is_err());
        assert!(template("https://$unknown/").is_err());
    }

    #[test]
    fn some_variables_are_fixed_for_a_host() {
        let fixed = |text| for_host(text, "a.example", "https");
        assert_eq!(fixed("https://$host/oauth2/auth"), Ok("https://a.example/oauth2/auth".to_owned()));
        assert_eq!(fixed("$scheme://${http_host}x"), Ok("https://a.examplex".to_owned()));
        assert!(fixed("http://auth/$request_uri").is_err());
        assert!(for_host("https://$host/", "*.example", "https").is_err());
        assert!(for_host("https://$host/", "", "https").is_err());
    }
}
