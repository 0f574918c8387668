//! Rewrites of path and host, and redirects.
//!
//! Every path made here goes through the rules of `docs/paths.md` before it is used. A literal path is
//! checked when the plan is made, and a path with groups when the request is known.

use regex::bytes::Regex;
use tollgate_config::{LocationReplacement, ReplacementPiece, text_replacement};
use tollgate_policy::{percent_encode, without_parameters};
use tollgate_route::{Normalised, PathError, PathPattern, PathRules, normalise_rewritten};

use crate::HostRewrite;

/// How a request is rewritten before it is forwarded.
#[derive(Clone, Debug, Default)]
pub struct Rewrite {
    /// The change of path and query; `None`: they are kept.
    pub path: Option<PathRewrite>,
    /// The `Host` sent upstream; `None`: the client's is kept.
    pub host: Option<HostRewrite>,
}

/// A new path, or other query parameters.
#[derive(Clone, Debug)]
pub enum PathRewrite {
    /// This path, in normal form, replaces the whole path.
    Full(String),
    /// The prefix that the route matched is replaced.
    Prefix {
        /// Length of the prefix that the route matches.
        matched: usize,
        /// The replacement, in normal form and without a trailing slash.
        with: String,
    },
    /// A path made of the groups of the route's own pattern.
    Groups {
        /// The route's pattern.
        pattern: PathPattern,
        /// The new path.
        to: Replacement,
        /// The rules that the new path must obey.
        rules: PathRules,
    },
    /// Every match of a pattern is replaced.
    Regex {
        /// The pattern.
        pattern: Regex,
        /// The replacement text, with groups.
        replace: Replacement,
        /// The rules that the new path must obey.
        rules: PathRules,
    },
    /// Query parameters are set, and the path may change too. It is a variant of the path's change, so that a request
    /// without either is tested once.
    Query(Box<QueryRewrite>),
}

/// Query parameters that replace the parameters of the same names in a request.
#[derive(Clone, Debug)]
pub struct QueryRewrite {
    /// The change of the path.
    path: Option<PathRewrite>,
    /// The route's pattern, if a value has groups of it.
    pattern: Option<PathPattern>,
    /// Names, decoded, and values.
    parameters: Vec<(Vec<u8>, Replacement)>,
}

impl QueryRewrite {
    /// Makes it from names and values. The error is the name of a group that the pattern does not have.
    pub(crate) fn new(
        path: Option<PathRewrite>,
        pattern: Option<PathPattern>,
        parameters: &[(String, String)],
    ) -> Result<Self, String> {
        let parameter = |(name, value): &(String, String)| {
            let number = |group: &str| pattern.as_ref().and_then(|pattern| pattern.group(group));
            let mut value = Replacement::new(text_replacement(value), number)?;
            for part in &mut value.0 {
                if let ReplacementPart::Text(text) = part {
                    let mut encoded = Vec::new();
                    percent_encode(text, &mut encoded);
                    *text = encoded.into();
                }
            }
            Ok((name.clone().into_bytes(), value))
        };
        let parameters = parameters.iter().map(parameter).collect::<Result<_, String>>()?;
        Ok(Self { path, pattern, parameters })
    }

    /// Returns the query for a request with this path in normal form and this query.
    #[must_use]
    pub fn query(&self, path: &[u8], query: &[u8]) -> Vec<u8> {
        let mut out = without_parameters(query, self.parameters.iter().map(|(name, _)| name.as_slice()));
        let captures = self.pattern.as_ref().and_then(|pattern| pattern.captures(path));
        let group = |number| captures.as_ref().map_or(&b""[..], |captures| captures.get(number));
        for (name, value) in &self.parameters {
            if !out.is_empty() {
                out.push(b'&');
            }
            percent_encode(name, &mut out);
            out.push(b'=');
            value.fill(
                group,
                |text, captured| {
                    if captured { in_query(text, &mut out) } else { out.extend_from_slice(text) }
                },
            );
        }
        out
    }
}

/// A text with references to groups, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replacement(Box<[ReplacementPart]>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum ReplacementPart {
    Text(Box<[u8]>),
    Group(usize),
}

impl Replacement {
    /// Makes a replacement. `number` maps the name of a group to its number; the error is the first name for
    /// which it returns `None`.
    pub(crate) fn new(
        pieces: Vec<ReplacementPiece>,
        number: impl Fn(&str) -> Option<usize>,
    ) -> Result<Self, String> {
        let piece = |piece| match piece {
            ReplacementPiece::Text(text) => Ok(ReplacementPart::Text(text.into_bytes().into())),
            ReplacementPiece::Group(name) => number(&name).map(ReplacementPart::Group).ok_or(name),
        };
        pieces.into_iter().map(piece).collect::<Result<_, _>>().map(Self)
    }

    fn fill<'g>(&self, group: impl Fn(usize) -> &'g [u8], mut put: impl FnMut(&[u8], bool)) {
        for piece in &self.0 {
            match piece {
                ReplacementPart::Text(text) => put(text, false),
                ReplacementPart::Group(number) => put(group(*number), true),
            }
        }
    }

    /// Returns an error if the literal text makes a bad path whatever the groups hold. The sample puts text
    /// before and after it, because a literal at either end may be only part of a segment.
    pub(crate) fn check(&self, rules: &PathRules) -> Result<(), PathError> {
        let mut sample = b"/x".to_vec();
        self.fill(|_| b"x", |text, _| sample.extend_from_slice(text));
        sample.push(b'x');
        normalise_rewritten(&sample, rules, &mut Vec::new()).map(|_| ())
    }
}

impl PathRewrite {
    /// Writes the path that replaces `path`, in normal form; nothing if the path is kept.
    ///
    /// # Errors
    /// The groups made something that is not a path, or a path that the gateway refuses in requests.
    pub fn apply(&self, path: &[u8], out: &mut Vec<u8>) -> Result<(), PathError> {
        out.clear();
        match self {
            Self::Query(rewrite) => {
                return rewrite.path.as_ref().map_or(Ok(()), |change| change.apply(path, out));
            }
            Self::Full(path) => out.extend_from_slice(path.as_bytes()),
            Self::Prefix { matched, with } => {
                let rest = path.get(*matched..).unwrap_or_default();
                out.extend_from_slice(with.as_bytes());
                // If `/v1` is replaced by the root, `/v1/x` becomes `/x`, and `/v1` becomes `/`.
                if rest.is_empty() && out.is_empty() {
                    out.push(b'/');
                }
                out.extend_from_slice(rest);
            }
            Self::Groups { pattern, to, rules } => {
                // A request that the route accepted without its pattern has no groups, for example the
                // preflight of another method.
                let captures = pattern.captures(path);
                let group = |number| captures.as_ref().map_or(&b""[..], |captures| captures.get(number));
                to.fill(group, |text, _| out.extend_from_slice(text));
                return into_normal_form(out, rules);
            }
            Self::Regex { pattern, replace, rules } => {
                let mut done = 0;
                for captures in pattern.captures_iter(path) {
                    let Some(whole) = captures.get(0) else { continue };
                    out.extend_from_slice(&path[done..whole.start()]);
                    let group = |number| captures.get(number).map_or(&b""[..], |group| group.as_bytes());
                    replace.fill(group, |text, _| out.extend_from_slice(text));
                    done = whole.end();
                }
                out.extend_from_slice(&path[done..]);
                return into_normal_form(out, rules);
            }
        }
        Ok(())
    }
}

/// Brings a path made of groups to its normal form. Adds a slash if it does not begin with one.
fn into_normal_form(path: &mut Vec<u8>, rules: &PathRules) -> Result<(), PathError> {
    if path.first() != Some(&b'/') {
        path.insert(0, b'/');
    }
    let mut normal = Vec::new();
    if normalise_rewritten(path, rules, &mut normal)? == Normalised::Changed {
        *path = normal;
    }
    Ok(())
}

/// A redirect's whole `Location`.
#[derive(Clone, Debug)]
pub enum Location {
    /// This text.
    Fixed(String),
    /// A text that contains groups of the route's own pattern.
    Groups(Box<LocationGroups>),
}

/// A `Location` that contains groups of the route's own pattern in its path, query or fragment.
#[derive(Clone, Debug)]
pub struct LocationGroups {
    pattern: PathPattern,
    /// Scheme and authority; empty if the `Location` begins with a path.
    origin: String,
    path: Replacement,
    /// Query and fragment.
    tail: Replacement,
    rules: PathRules,
}

impl LocationGroups {
    /// Makes it from the parts of the text. The error is the name of a group that the pattern does not have.
    pub(crate) fn new(
        split: LocationReplacement,
        pattern: PathPattern,
        rules: PathRules,
    ) -> Result<Self, String> {
        let LocationReplacement { origin, path, tail } = split;
        let path = Replacement::new(path, |name| pattern.group(name))?;
        let tail = Replacement::new(tail, |name| pattern.group(name))?;
        Ok(Self { pattern, origin, path, tail, rules })
    }

    /// Returns an error if the literal text of its path makes a bad path whatever the groups hold.
    pub(crate) fn check(&self) -> Result<(), PathError> {
        self.path.check(&self.rules)
    }

    /// Appends the `Location` for a request's path.
    ///
    /// # Errors
    /// The path that the groups made is refused, or would lead to another host.
    pub fn fill(&self, path: &[u8], out: &mut Vec<u8>) -> Result<(), PathError> {
        let captures = self.pattern.captures(path);
        let group = |number| captures.as_ref().map_or(&b""[..], |captures| captures.get(number));
        let mut made = Vec::new();
        self.path.fill(group, |text, _| made.extend_from_slice(text));
        // A path may be empty after an authority (RFC 3986, section 3.3).
        if !made.is_empty() || self.origin.is_empty() {
            into_normal_form(&mut made, &self.rules)?;
        }
        if self.origin.is_empty() && made.starts_with(b"//") {
            return Err(PathError::NetworkPath);
        }
        out.extend_from_slice(self.origin.as_bytes());
        out.extend_from_slice(&made);
        self.tail.fill(
            group,
            |text, captured| {
                if captured { in_query(text, out) } else { out.extend_from_slice(text) }
            },
        );
        Ok(())
    }
}

/// Copies a part of a path into a query. Escapes the bytes that separate values there, so that it stays one
/// value.
fn in_query(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        match byte {
            b'&' => out.extend_from_slice(b"%26"),
            b'+' => out.extend_from_slice(b"%2B"),
            b';' => out.extend_from_slice(b"%3B"),
            _ => out.push(*byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_config::{location_replacement, path_replacement};
    use tollgate_route::EncodedSlash;

    use super::*;

    fn apply(rewrite: &PathRewrite, path: &str) -> Result<String, PathError> {
        let mut out = b"left over".to_vec();
        rewrite.apply(path.as_bytes(), &mut out)?;
        Ok(String::from_utf8(out).expect("a path is ASCII"))
    }

    fn regex(pattern: &str, replace: &str, rules: PathRules) -> PathRewrite {
        let pattern = Regex::new(pattern).expect("a pattern");
        let number = |name: &str| {
            name.parse().ok().or_else(|| pattern.capture_names().position(|group| group == Some(name)))
        };
        let replace = Replacement::new(path_replacement(replace).expect("a path"), number).expect("groups");
        PathRewrite::Regex { pattern, replace, rules }
    }

    #[test]
    fn prefixes_keep_whole_segments() {
        let to = |with: &str| PathRewrite::Prefix { matched: "/v1".len(), with: with.to_owned() };
        for (with, path, expected) in [
            ("/v2", "/v1/users", "/v2/users"),
            ("/v2", "/v1", "/v2"),
            ("", "/v1/users", "/users"),
            ("", "/v1", "/"),
        ] {
            assert_eq!(apply(&to(with), path).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn a_rewritten_path_is_in_normal_form() {
        for (pattern, replace, path, expected) in [
            ("^/s/(.*)$", "/a b/$1", "/s/x", Ok("/a%20b/x")),
            ("^/s/(.*)$", "/é/$1", "/s/x%20y", Ok("/%C3%A9/x%20y")),
            ("^/a/(?<rest>.*)$", "${rest}", "/a/b/c", Ok("/b/c")),
            ("^/a/(?<rest>.*)$", "/$$/$rest", "/a/b", Ok("/$/b")),
            ("^/s(.*)$", "/x/$1", "/s/y", Ok("/x/y")),
            ("-", ".", "/a-b-", Ok("/a.b.")),
            ("x", "yy", "/xax", Ok("/yyayy")),
            ("^/v1/(.*)-(.*)$", "/pub/$1$2", "/v1/.-./x", Err(PathError::DotSegment)),
            ("-", "", "/a/.-", Err(PathError::DotSegment)),
            ("25", "", "/%252e%252e/a", Err(PathError::DotSegment)),
            ("25", "", "/%252fa", Err(PathError::EncodedSlash)),
            ("25", "", "/%2500", Err(PathError::Nul)),
            ("20", "", "/a%20b", Err(PathError::BadEscape)),
        ] {
            let rewrite = regex(pattern, replace, PathRules::default());
            assert_eq!(
                apply(&rewrite, path).as_deref(),
                expected.as_ref().copied(),
                "{pattern} {replace} {path}"
            );
        }
        let keep =
            PathRules { encoded_slash: EncodedSlash::Keep, merge_slashes: false, ..PathRules::default() };
        assert_eq!(apply(&regex("25", "", keep), "/%252fa").as_deref(), Ok("/%2Fa"));
        assert_eq!(apply(&regex("^/s(.*)$", "/x/$1", keep), "/s/y").as_deref(), Ok("/x//y"));
    }

    #[test]
    fn set_parameters_replace_the_requests_own() {
        let made = |parameters: &[(&str, &str)], path: &str, query: &str| {
            let pattern = PathPattern::new("/v(?<v>[0-9]+)/(.*)").expect("a pattern");
            let parameters: Vec<_> =
                parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let rewrite = QueryRewrite::new(None, Some(pattern), &parameters).expect("groups");
            String::from_utf8(rewrite.query(path.as_bytes(), query.as_bytes())).expect("text")
        };
        for (parameters, path, query, expected) in [
            (&[("id", "$2")][..], "/v3/77", "", "id=77"),
            (&[("id", "$2"), ("v", "x-$v")], "/v3/77", "a=1&id=8&%69d=9;v=1&b", "a=1&b&id=77&v=x-3"),
            (&[("id", "$2")], "/v3/a&b+c;d/e%20f", "", "id=a%26b%2Bc%3Bd/e%20f"),
            (&[("a b", "é&=$$")], "/v3/x", "", "a%20b=%C3%A9%26%3D%24"),
            (&[("id", "$2")], "/other", "id=1", "id="),
        ] {
            assert_eq!(made(parameters, path, query), expected, "{parameters:?} {path} {query}");
        }
        assert_eq!(QueryRewrite::new(None, None, &[("a".into(), "$1".into())]).unwrap_err(), "1");
    }

    #[test]
    fn a_text_is_checked_without_a_request() {
        let check = |replace: &str| {
            let replace = Replacement::new(path_replacement(replace).expect("a path"), |_| Some(1));
            replace.expect("groups").check(&PathRules::default())
        };
        for good in ["/a/$1", ".", "$1/..x", "/a b/é", "//$1"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, error) in [
            ("/a/../$1", PathError::DotSegment),
            ("/a/%2e/$1", PathError::DotSegment),
            ("/a%2F$1", PathError::EncodedSlash),
            ("/$1%0d%0a", PathError::ControlByte),
        ] {
            assert_eq!(check(bad), Err(error), "{bad}");
        }
    }

    #[test]
    fn locations_are_filled() {
        let fill = |pattern: &str, to: &str, path: &str, rules: PathRules| {
            let pattern = PathPattern::new(pattern).expect("a pattern");
            let location = LocationGroups::new(location_replacement(to).expect("a location"), pattern, rules);
            let mut out = b"Location: ".to_vec();
            location.expect("groups").fill(path.as_bytes(), &mut out)?;
            Ok(String::from_utf8(out).expect("text"))
        };
        let open = PathRules { merge_slashes: false, ..PathRules::default() };
        for (pattern, to, path, rules, expected) in [
            ("/s/(.*)", "https://x.example/$1", "/s/a/b%20c", open, Ok("https://x.example/a/b%20c")),
            (
                "/s/(.*)",
                "https://x.example/?q=$1&r=1#$1",
                "/s/a&b+c;d",
                open,
                Ok("https://x.example/?q=a%26b%2Bc%3Bd&r=1#a%26b%2Bc%3Bd"),
            ),
            ("/s/(.*)", "https://x.example?q=$1", "/s/a", open, Ok("https://x.example?q=a")),
            ("/go(/.*)", "/$1", "/go/evil.example", PathRules::default(), Ok("/evil.example")),
            ("/go(/.*)", "/$1", "/go/evil.example", open, Err(PathError::NetworkPath)),
            (
                "/go(/.*)",
                "https://x.example/$1",
                "/go/evil.example",
                open,
                Ok("https://x.example//evil.example"),
            ),
            ("/go/(.*)-(.*)", "https://x.example/a/$1$2/b", "/go/.-.", open, Err(PathError::DotSegment)),
        ] {
            let expected = expected.map(|location| format!("Location: {location}"));
            assert_eq!(fill(pattern, to, path, rules), expected, "{pattern} {to} {path}");
        }
    }
}
