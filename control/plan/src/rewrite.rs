//! Rewrites of path and host.

use regex::bytes::Regex;

use crate::HostRewrite;

/// What of a request is rewritten before it is forwarded.
#[derive(Clone, Debug, Default)]
pub struct Rewrite {
    /// The path.
    pub path: Option<PathRewrite>,
    /// The `Host` sent upstream.
    pub host: Option<HostRewrite>,
}

/// A new path. The query is kept.
#[derive(Clone, Debug)]
pub enum PathRewrite {
    /// This path, whatever it was.
    Full(String),
    /// The first bytes, which the route's prefix took, are replaced.
    Prefix {
        /// Length of the prefix that the route matches.
        matched: usize,
        /// What stands in its place, without a trailing slash.
        with: String,
    },
    /// Every match of a pattern is replaced.
    Regex {
        /// The pattern.
        pattern: Regex,
        /// What replaces it, with groups.
        replace: String,
    },
}

impl PathRewrite {
    /// Writes the path that stands in for `path`. Says whether it is one: a pattern can put dots together that were
    /// apart, and no request may climb by a rewrite.
    #[must_use]
    pub fn apply(&self, path: &[u8], out: &mut Vec<u8>) -> bool {
        out.clear();
        match self {
            Self::Full(path) => out.extend_from_slice(path.as_bytes()),
            Self::Prefix { matched, with } => {
                let rest = path.get(*matched..).unwrap_or_default();
                out.extend_from_slice(with.as_bytes());
                // `/v1` to the root: `/v1/x` becomes `/x`, and `/v1` becomes `/`.
                if rest.is_empty() && out.is_empty() {
                    out.push(b'/');
                }
                out.extend_from_slice(rest);
            }
            Self::Regex { pattern, replace } => {
                out.extend_from_slice(&pattern.replace_all(path, replace.as_bytes()));
            }
        }
        // Whatever a pattern made of it, it stays a path, and one line.
        if out.first() != Some(&b'/') {
            out.insert(0, b'/');
        }
        out.retain(|byte| byte.is_ascii_graphic() && !matches!(byte, b'#' | b'?'));
        let climbs = |segment: &[u8]| {
            let name = segment.split(|byte| *byte == b';').next().unwrap_or_default();
            matches!(name, b"." | b"..")
        };
        !out.split(|byte| *byte == b'/').any(climbs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(rewrite: &PathRewrite, path: &str) -> String {
        let mut out = Vec::new();
        assert!(rewrite.apply(path.as_bytes(), &mut out));
        String::from_utf8(out).expect("a path is ASCII")
    }

    #[test]
    fn prefixes_keep_whole_segments() {
        let to = |with: &str| PathRewrite::Prefix { matched: "/v1".len(), with: with.to_owned() };
        assert_eq!(apply(&to("/v2"), "/v1/users"), "/v2/users");
        assert_eq!(apply(&to("/v2"), "/v1"), "/v2");
        assert_eq!(apply(&to(""), "/v1/users"), "/users");
        assert_eq!(apply(&to(""), "/v1"), "/");
    }

    #[test]
    fn patterns_cannot_leave_the_path() {
        let regex = |pattern: &str, replace: &str| PathRewrite::Regex {
            pattern: Regex::new(pattern).expect("a pattern"),
            replace: replace.to_owned(),
        };
        assert_eq!(apply(&regex("^/user/([0-9]+)$", "/u?id=$1 x"), "/user/7"), "/uid=7x");
        assert_eq!(apply(&regex("^/a/(?<rest>.*)$", "${rest}"), "/a/b/c"), "/b/c");
        let joined = regex("^/v1/(.*)-(.*)$", "/pub/$1$2");
        assert!(!joined.apply(b"/v1/.-./x", &mut Vec::new()), "/pub/../x");
    }
}
