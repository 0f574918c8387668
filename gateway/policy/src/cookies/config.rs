//! The settings of `cookies`.

use std::sync::Arc;

use tollgate_config::section::{Fields, KeySpec, Problem, Reader, ScalarError, Section, Word, header};

use super::CookieRules;
use crate::Planned;
use crate::policy_config::{Compilation, PolicyConfig, policy_key};
use crate::texts::cookie;

/// Changes the cookies that responses set. A missing key leaves that attribute as the upstream sets it.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "cookies_policy", noun = "`cookies`", check = check)]
pub(crate) struct CookieSettings {
    /// Names of the cookies that change. Default: all.
    #[key(
        expected = "the name of a cookie", pattern = ".", loose,
        each = cookie, what = "a cookie", bounded, also = ["name"],
    )]
    names: Vec<String>,
    /// Cookies to remove.
    #[key(
        expected = "the name of a cookie", pattern = ".", loose,
        each = cookie, what = "a cookie", bounded, also = ["delete"],
    )]
    remove: Vec<String>,
    /// Whether browsers send them over TLS only (`Secure`).
    secure: Option<bool>,
    /// Whether they are hidden from scripts (`HttpOnly`).
    #[key(also = ["httponly"])]
    http_only: Option<bool>,
    /// From which sites browsers send them (`SameSite`).
    #[key(also = ["samesite"])]
    same_site: Option<SameSite>,
    /// Their `Domain`.
    #[key(expected = "a value", loose, off, parse = attribute)]
    domain: Option<Option<String>>,
    /// Their `Path`.
    #[key(expected = "a value", loose, off, parse = attribute)]
    path: Option<Option<String>>,
}

/// `same_site`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Word)]
enum SameSite {
    Strict,
    Lax,
    None,
    /// The attribute is removed.
    Off,
}

impl PolicyConfig for CookieSettings {
    const KEY: KeySpec = policy_key::<Self>("cookies", "Changes the cookies that responses set.").aliases(&[
        "cookie",
        "set_cookie",
        "proxy_cookie_flags",
    ]);

    fn compile(&self, _: &mut Compilation<'_>) -> Arc<dyn Planned> {
        let same_site = self.same_site.map(|same_site| match same_site {
            SameSite::Strict => Some("Strict".to_owned()),
            SameSite::Lax => Some("Lax".to_owned()),
            SameSite::None => Some("None".to_owned()),
            SameSite::Off => None,
        });
        let flags = [("Secure", self.secure), ("HttpOnly", self.http_only)];
        let attributes =
            [("SameSite", same_site), ("Domain", self.domain.clone()), ("Path", self.path.clone())];
        Arc::new(CookieRules {
            names: self.names.clone(),
            remove: self.remove.clone(),
            flags: flags.into_iter().filter_map(|(name, on)| Some((name, on?))).collect(),
            attributes: attributes.into_iter().filter_map(|(name, value)| Some((name, value?))).collect(),
        })
    }
}

fn check(reader: &mut Reader, fields: &Fields<'_>, cookies: &mut CookieSettings) {
    if *cookies == (CookieSettings { names: cookies.names.clone(), ..CookieSettings::default() }) {
        let problem = Problem::error(fields.at, "`cookies` changes nothing");
        reader.problems.push(problem.help("write `cookies: {secure: on, same_site: lax}`"));
    }
    // Browsers reject this combination (RFC 6265bis, 5.7).
    if cookies.same_site == Some(SameSite::None)
        && cookies.secure != Some(true)
        && let Some(field) = fields.get("same_site")
    {
        let problem = Problem::error(field.at, "browsers reject `same_site: none` without `secure: on`");
        reader.problems.push(problem.help("add `secure: on`"));
    }
}

fn attribute(text: &str) -> Result<String, ScalarError> {
    match header::value(text)? {
        value if value.contains(';') => {
            Err(ScalarError::new("{} has a `;`, which would start another attribute"))
        }
        value => Ok(value),
    }
}
