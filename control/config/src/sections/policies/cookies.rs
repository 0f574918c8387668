//! `cookies`: changes the cookies that responses set.

use super::cookie;
use crate::scalar::field as header;
use crate::section::{Field, Fields, Problem, Reader, ScalarError, Section, Shape, Text};

static NAME: Text = Text { expected: "the name of a cookie", pattern: Some("."), loose: true };
static VALUE: Text = Text { expected: "a value", pattern: None, loose: true };

/// Changes the cookies that responses set. A missing key leaves that attribute as the upstream sets it.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "cookies_policy", noun = "`cookies`", check = check)]
pub struct Cookies {
    /// Names of the cookies that change. Default: all.
    #[key(text = NAME, each = cookie, what = "a cookie", bounded, also = ["name"])]
    pub names: Vec<String>,
    /// Cookies to remove.
    #[key(text = NAME, each = cookie, what = "a cookie", bounded, also = ["delete"])]
    pub remove: Vec<String>,
    /// Whether browsers send them over TLS only (`Secure`).
    pub secure: Option<bool>,
    /// Whether they are hidden from scripts (`HttpOnly`).
    #[key(also = ["httponly"])]
    pub http_only: Option<bool>,
    /// From which sites browsers send them (`SameSite`).
    #[key(
        shape = Shape::Word(&["strict", "lax", "none", "off"]), read = same_site,
        also = ["samesite"]
    )]
    pub same_site: Option<Option<String>>,
    /// Their `Domain`.
    #[key(off, text = VALUE, parse = attribute)]
    pub domain: Option<Option<String>>,
    /// Their `Path`.
    #[key(off, text = VALUE, parse = attribute)]
    pub path: Option<Option<String>>,
}

fn check(reader: &mut Reader, fields: &Fields<'_>, cookies: &mut Cookies) {
    if *cookies == (Cookies { names: cookies.names.clone(), ..Cookies::default() }) {
        let problem = Problem::error(fields.at, "`cookies` changes nothing");
        reader.problems.push(problem.help("write `cookies: {secure: on, same_site: lax}`"));
    }
    // Browsers reject this combination (RFC 6265bis, 5.7).
    if cookies.same_site == Some(Some("None".to_owned()))
        && cookies.secure != Some(true)
        && let Some(field) = fields.get("same_site")
    {
        let problem = Problem::error(field.at, "browsers reject `same_site: none` without `secure: on`");
        reader.problems.push(problem.help("add `secure: on`"));
    }
}

fn same_site(reader: &mut Reader, field: Field<'_>) -> Option<Option<String>> {
    reader.word(Some(field)).map(|word| match word {
        "strict" => Some("Strict".to_owned()),
        "lax" => Some("Lax".to_owned()),
        "none" => Some("None".to_owned()),
        _ => None,
    })
}

fn attribute(text: &str) -> Result<String, ScalarError> {
    match header::value(text)? {
        value if value.contains(';') => {
            Err(ScalarError::new("{} has a `;`, which would start another attribute"))
        }
        value => Ok(value),
    }
}
