//! A purge of stored responses: the body of a request to the admin API, and the record in etcd and in the fleet's
//! stream.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_cache::{Purge, PurgeMode, Store};
use tollgate_policy::KEY_SEPARATOR;
use tollgate_route::{Normalised, PathRules, normalise};

/// How long a purge waits for the disk tier to write it. Purges of one batch share this time.
pub const DISK_WAIT: Duration = Duration::from_secs(10);

/// The responses to purge.
#[derive(Debug, PartialEq, Eq)]
enum Target {
    /// One URL: the keys that begin with it and a separator.
    Key(String),
    Prefix(String),
    Tag(String),
    All,
}

/// A purge: what, and how.
#[derive(Debug, PartialEq, Eq)]
pub struct PurgeRequest {
    target: Target,
    is_soft: bool,
}

impl PurgeRequest {
    /// Parses the body of a request.
    ///
    /// # Errors
    /// Returns a readable reason why the value is invalid.
    pub fn parse(value: &Value) -> Result<Self, String> {
        const EXPECTED: &str = "give one of `key`, `prefix`, `tag` and `all: true`";
        let entries = value.as_object().ok_or("the body is not a mapping")?;
        let (mut target, mut is_soft) = (None, false);
        for (name, value) in entries {
            let text = || value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
            let text = || text().ok_or_else(|| format!("`{name}` is not a text"));
            let next = match name.as_str() {
                "key" => Target::Key(normal_url(&text()?)),
                "prefix" => Target::Prefix(normal_prefix(&text()?)),
                "tag" => Target::Tag(text()?),
                "all" if *value == json!(true) => Target::All,
                "soft" => {
                    is_soft = value.as_bool().ok_or("`soft` is neither true nor false")?;
                    continue;
                }
                _ => return Err(format!("`{}`: {EXPECTED}", name.chars().take(64).collect::<String>())),
            };
            if target.replace(next).is_some() {
                return Err(format!("the request names more than one thing: {EXPECTED}"));
            }
        }
        let target = target.ok_or_else(|| format!("the request names nothing: {EXPECTED}"))?;
        if let Target::Key(url) | Target::Prefix(url) = &target
            && !url.contains("://")
        {
            return Err(
                "no key begins so: give a URL with its scheme and host, such as `https://shop.example/x`"
                    .to_owned(),
            );
        }
        Ok(Self { target, is_soft })
    }

    /// Carries it out, and waits for at most `most` until the disk tier has written it. Returns how many responses in
    /// memory it matched, and whether it also survives a restart.
    pub fn carry_out(&self, store: &Store, most: Duration) -> (u64, bool) {
        let mode = if self.is_soft { PurgeMode::MarkStale } else { PurgeMode::Remove };
        let purge = |what: Purge<'_>| store.purge_durably(what, mode, most);
        match &self.target {
            Target::Key(url) => purge(Purge::Prefix(&[url.as_bytes(), &[KEY_SEPARATOR]].concat())),
            Target::Prefix(prefix) => purge(Purge::Prefix(prefix.as_bytes())),
            Target::Tag(tag) => purge(Purge::Tags(&[tag.as_bytes()])),
            Target::All => purge(Purge::All),
        }
    }
}

/// Returns a URL as keys have it: scheme and host in lower case, without the default port and the fragment, and with the
/// path in normal form.
fn normal_url(url: &str) -> String {
    let url = url.split('#').next().unwrap_or_default();
    let Some((mut normal, rest)) = normal_origin(url) else { return url.to_owned() };
    let path = &rest[..rest.find('?').unwrap_or(rest.len())];
    let mut out = Vec::new();
    let changed =
        matches!(normalise(path.as_bytes(), &PathRules::LENIENT, &mut out), Ok(Normalised::Changed));
    match String::from_utf8(out) {
        Ok(path) if changed => normal.push_str(&path),
        _ if path.is_empty() => normal.push('/'),
        _ => normal.push_str(path),
    }
    normal + &rest[path.len()..]
}

/// Returns the beginning of a URL as keys have it. Its path stays as written, since `/.` may begin a name.
fn normal_prefix(prefix: &str) -> String {
    normal_origin(prefix).map_or_else(|| prefix.to_owned(), |(origin, rest)| origin + rest)
}

/// Splits a URL after its host and port, and returns these with the scheme in normal form. `None`: it has no scheme.
fn normal_origin(url: &str) -> Option<(String, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let scheme = scheme.to_ascii_lowercase();
    let port = if scheme == "https" { ":443" } else { ":80" };
    let host = authority.strip_suffix(port).unwrap_or(authority).to_ascii_lowercase();
    Some((format!("{scheme}://{host}"), path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purge_names_exactly_one_thing() {
        let parse = |value: Value| PurgeRequest::parse(&value);
        let key = Target::Key("http://a/".to_owned());
        assert_eq!(parse(json!({ "key": "http://a/" })), Ok(PurgeRequest { target: key, is_soft: false }));
        assert_eq!(
            parse(json!({ "all": true, "soft": true })),
            Ok(PurgeRequest { target: Target::All, is_soft: true })
        );
        for (value, part) in [
            (json!([]), "not a mapping"),
            (json!({}), "names nothing"),
            (json!({ "soft": true }), "names nothing"),
            (json!({ "key": "a", "tag": "b" }), "more than one"),
            (json!({ "tags": "b" }), "`tags`"),
            (json!({ "tag": ["b"] }), "`tag` is not a text"),
            (json!({ "key": "" }), "`key` is not a text"),
            (json!({ "key": "/x" }), "its scheme and host"),
            (json!({ "prefix": "shop.example/x" }), "its scheme and host"),
            (json!({ "all": false }), "`all`"),
            (json!({ "all": true, "soft": 1 }), "`soft`"),
        ] {
            let message = parse(value.clone()).expect_err("invalid");
            assert!(message.contains(part), "{value}: {message}");
        }
    }

    #[test]
    fn urls_are_brought_to_the_form_of_keys() {
        for (written, key, prefix) in [
            ("http://a.example/x?b=1&A=2", "http://a.example/x?b=1&A=2", "http://a.example/x?b=1&A=2"),
            ("HTTP://A.Example:80/X", "http://a.example/X", "http://a.example/X"),
            ("https://a.example:443/x", "https://a.example/x", "https://a.example/x"),
            ("https://a.example:80/x", "https://a.example:80/x", "https://a.example:80/x"),
            ("http://a.example", "http://a.example/", "http://a.example"),
            ("http://a.example?x", "http://a.example/?x", "http://a.example?x"),
            ("http://a/x#part", "http://a/x", "http://a/x#part"),
            ("http://a/%78/./y/../z", "http://a/x/z", "http://a/%78/./y/../z"),
            ("http://a/.", "http://a/", "http://a/."),
            ("http:///x", "http:///x", "http:///x"),
            ("/x", "/x", "/x"),
        ] {
            assert_eq!((normal_url(written).as_str(), normal_prefix(written).as_str()), (key, prefix));
        }
    }
}
