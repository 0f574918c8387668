//! Splits replacement texts with capture groups of a regular expression: `$1`, `${1}`, `$name` and `${name}`;
//! `$$` is a dollar sign.
//!
//! Rewrites and redirects share this syntax, which is also the syntax of the `regex` crate.

use super::{ScalarError, path};

/// One piece of a replacement text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplacementPiece {
    /// Literal text.
    Text(String),
    /// A capture group, by number or name.
    Group(String),
}

/// A redirect's complete `Location` with capture groups. The scheme and the authority contain none, because a
/// client could then choose the host that the redirect leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocationReplacement {
    /// Scheme and authority, such as `https://example.com`; empty for a path alone.
    pub origin: String,
    /// The path, percent-encoded.
    pub path: Vec<ReplacementPiece>,
    /// Query and fragment, from the `?` or `#`.
    pub tail: Vec<ReplacementPiece>,
}

/// A piece and its position in the text, in characters.
struct PlacedPiece {
    piece: ReplacementPiece,
    start: usize,
    length: usize,
}

/// A reference to a capture group and its position in the text, in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupReference {
    /// Number or name of the group.
    pub group: String,
    /// Position of the reference in characters.
    pub start: usize,
    /// Its length in characters.
    pub length: usize,
}

/// Splits a path with capture groups. Its literal text is percent-encoded like any path.
///
/// # Errors
/// Returns a message about the first character that a path cannot contain.
pub fn path_replacement(text: &str) -> Result<Vec<ReplacementPiece>, String> {
    in_path(text).map_err(|fault| fault.message.replacen("{}", "the path", 1))
}

/// Splits a complete `Location` with capture groups.
///
/// # Errors
/// Returns a message about a capture group in the authority, or a character that a URL cannot contain.
pub fn location_replacement(text: &str) -> Result<LocationReplacement, String> {
    in_location(text).map_err(|fault| fault.message.replacen("{}", "the location", 1))
}

/// Splits any text with capture groups.
#[must_use]
pub fn text_replacement(text: &str) -> Vec<ReplacementPiece> {
    split(text).into_iter().map(|placed| placed.piece).collect()
}

/// Returns every reference to a capture group.
pub fn references(text: &str) -> Vec<GroupReference> {
    let reference = |placed: PlacedPiece| match placed.piece {
        ReplacementPiece::Group(group) => {
            Some(GroupReference { group, start: placed.start, length: placed.length })
        }
        ReplacementPiece::Text(_) => None,
    };
    split(text).into_iter().filter_map(reference).collect()
}

/// Returns the literal text; `None` if there are references.
pub fn plain(text: &str) -> Option<String> {
    let pieces = split(text).into_iter().map(|placed| match placed.piece {
        ReplacementPiece::Text(text) => Some(text),
        ReplacementPiece::Group(_) => None,
    });
    pieces.collect()
}

/// Works like [`path_replacement`], but returns faults with positions.
pub fn in_path(text: &str) -> Result<Vec<ReplacementPiece>, ScalarError> {
    pieces(split(text), path::piece)
}

/// Works like [`location_replacement`], but returns faults with positions.
pub fn in_location(text: &str) -> Result<LocationReplacement, ScalarError> {
    let (path_at, tail_at) = parts(text);
    let chars = |bytes: usize| text[..bytes].chars().count();
    let (path_start, tail_start) = (chars(path_at), chars(tail_at));
    if let Some(reference) = references(text).into_iter().find(|reference| reference.start < path_start) {
        let fault = ScalarError::new("{} has a group in its host").part(reference.start, reference.length);
        return Err(
            fault.help("a client could choose the destination: end the host with a `/` before the group")
        );
    }
    let (path, tail) = (&text[path_at..tail_at], &text[tail_at..]);
    Ok(LocationReplacement {
        origin: plain(&text[..path_at]).unwrap_or_default(),
        path: pieces(split(path), path::piece).map_err(|fault| fault.shifted(path_start))?,
        tail: pieces(split(tail), |text| Ok(text.to_owned())).map_err(|fault| fault.shifted(tail_start))?,
    })
}

/// Returns the start and the end of the path in a `Location`, in bytes.
fn parts(text: &str) -> (usize, usize) {
    let authority = match text.find("://") {
        Some(scheme) if !text.starts_with('/') => scheme + 3,
        _ if text.starts_with("//") => 2,
        _ => 0,
    };
    let path = text[authority..].find(['/', '?', '#']).map_or(text.len(), |at| authority + at);
    let tail = text[path..].find(['?', '#']).map_or(text.len(), |at| path + at);
    (path, tail)
}

fn pieces(
    placed: Vec<PlacedPiece>,
    encode: impl Fn(&str) -> Result<String, ScalarError>,
) -> Result<Vec<ReplacementPiece>, ScalarError> {
    let piece = |placed: PlacedPiece| match placed.piece {
        ReplacementPiece::Text(text) => {
            encode(&text).map(ReplacementPiece::Text).map_err(|fault| fault.shifted(placed.start))
        }
        group @ ReplacementPiece::Group(_) => Ok(group),
    };
    placed.into_iter().map(piece).collect()
}

/// Splits a text into pieces. A `$` that starts no reference is literal. `$$` is a piece of its own, so that
/// positions stay exact.
fn split(text: &str) -> Vec<PlacedPiece> {
    let mut out: Vec<PlacedPiece> = Vec::new();
    let mut done = 0;
    let mut rest = text;
    let mut push = |piece, done: &mut usize, written: usize| {
        out.push(PlacedPiece { piece, start: *done, length: written });
        *done += written;
    };
    while let Some(found) = rest.find('$') {
        let (before, from) = rest.split_at(found);
        if !before.is_empty() {
            push(ReplacementPiece::Text(before.to_owned()), &mut done, before.chars().count());
        }
        let (piece, written) = dollar(from);
        push(piece, &mut done, from[..written].chars().count());
        rest = &from[written..];
    }
    if !rest.is_empty() {
        push(ReplacementPiece::Text(rest.to_owned()), &mut done, rest.chars().count());
    }
    out
}

/// Parses the piece at a `$`. Returns it with its length in bytes.
fn dollar(text: &str) -> (ReplacementPiece, usize) {
    let literal = |written| (ReplacementPiece::Text("$".to_owned()), written);
    let after = &text[1..];
    if after.starts_with('$') {
        return literal(2);
    }
    if let Some(inside) = after.strip_prefix('{') {
        return match inside.split_once('}') {
            Some((name, _)) if !name.is_empty() => (ReplacementPiece::Group(name.to_owned()), name.len() + 3),
            _ => literal(1),
        };
    }
    let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
    match &after[..end] {
        "" => literal(1),
        name => (ReplacementPiece::Group(name.to_owned()), end + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> ReplacementPiece {
        ReplacementPiece::Text(text.to_owned())
    }

    fn group(name: &str) -> ReplacementPiece {
        ReplacementPiece::Group(name.to_owned())
    }

    #[test]
    fn references_are_found() {
        let of = |text: &str| references(text).into_iter().map(|one| one.group).collect::<Vec<_>>();
        assert_eq!(of("/$1/${2}/$id/$$9/${name}x/$1x"), ["1", "2", "id", "name", "1x"]);
        assert!(of("/$/$-/${}/${1/$$").is_empty());
        let places = references("/é/$1/${id}");
        assert_eq!(places.iter().map(|one| (one.start, one.length)).collect::<Vec<_>>(), [(3, 2), (6, 5)]);
        assert_eq!((plain("/a$$b$").as_deref(), plain("/$1")), (Some("/a$b$"), None));
    }

    #[test]
    fn texts_of_a_path_are_encoded() {
        assert_eq!(in_path("/a b/é/%7e/$1%2f"), Ok(vec![text("/a%20b/%C3%A9/~/"), group("1"), text("%2F")]));
        // An escape cannot become part of a reference.
        assert_eq!(in_path("/$%31"), Ok(vec![text("/"), text("$"), text("1")]));
        for (bad, at) in [("/$1\t", 3), ("/$1?x", 3), ("/é$1#", 4), ("/$1%2", 3), ("/$1\\", 3)] {
            assert_eq!(in_path(bad).unwrap_err().part.map(|(start, _)| start), Some(at), "{bad}");
        }
    }

    #[test]
    fn a_location_has_no_groups_in_its_host() {
        let location = in_location("https://x.example/a/$1?b=$2#c").unwrap();
        assert_eq!(location.origin, "https://x.example");
        assert_eq!(location.path, [text("/a/"), group("1")]);
        assert_eq!(location.tail, [text("?b="), group("2"), text("#c")]);
        let location = in_location("/$1").unwrap();
        assert_eq!((location.origin.as_str(), location.tail.len()), ("", 0));
        assert_eq!(in_location("https://x.example?a=$1").unwrap().path, []);
        for (bad, start) in [
            ("https://x.example$1", 17),
            ("https://$1/a", 8),
            ("https://x.example:$1/", 18),
            ("https://u@$1.example/", 10),
            ("//$1/x", 2),
            ("$1://x/", 0),
        ] {
            assert_eq!(in_location(bad).unwrap_err().part.map(|(start, _)| start), Some(start), "{bad}");
        }
    }
}
