//! The normal form of a path. It is computed once, before matching and authorisation, and sent upstream
//! unchanged.
//!
//! A request is dangerous if the gateway authorises one path and the origin serves another. So every path
//! that servers may interpret differently is refused, and all other spellings of a path become the same
//! bytes. `docs/paths.md` lists the rule of each byte.

mod class;
mod error;
mod fast_path;

pub use error::PathError;

use crate::escape;
use class::{CLASS, Class};

/// Rules for the spellings on whose meaning servers disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathRules {
    /// Whether `//` becomes `/`. Default true, as in nginx: file servers and most routers do the same.
    pub merge_slashes: bool,
    /// Treatment of `%2F` and `%5C`.
    pub encoded_slash: EncodedSlash,
    /// Treatment of `;` and `%3B`.
    pub semicolon: Semicolon,
}

impl PathRules {
    /// The rules that accept every path that any rules accept. A path that they change is not in normal form
    /// under any rules.
    pub const LENIENT: Self =
        Self { merge_slashes: false, encoded_slash: EncodedSlash::Keep, semicolon: Semicolon::Keep };
}

impl Default for PathRules {
    fn default() -> Self {
        Self { merge_slashes: true, encoded_slash: EncodedSlash::Reject, semicolon: Semicolon::Keep }
    }
}

/// Treatment of `%2F` and `%5C` in a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EncodedSlash {
    /// The path is refused.
    #[default]
    Reject,
    /// They are data: kept encoded, with upper-case digits, and never a separator.
    Keep,
}

/// Treatment of `;` and `%3B` in a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Semicolon {
    /// They are data, and two different characters.
    #[default]
    Keep,
    /// The path is refused, because a servlet container cuts off `;` and the rest of the segment.
    Reject,
}

/// Location of the normal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Normalised {
    /// The path itself is in normal form.
    Unchanged,
    /// The normal form was written to `out`.
    Changed,
}

/// Converts `path`, without query, to its normal form.
///
/// A path that is already in normal form, as nearly all are, costs one pass over its bytes and writes
/// nothing. For all others, `out` is cleared and receives the normal form. The normal form is never longer
/// than `path`, so a reused buffer stops allocating. After [`Normalised::Unchanged`] and after an error, the
/// content of `out` is unspecified.
///
/// Time is linear in the path's length. The result is its own normal form under the same rules.
///
/// # Errors
/// Returns [`PathError`] if servers could interpret the path differently, or if it is not a path.
pub fn normalise(path: &[u8], rules: &PathRules, out: &mut Vec<u8>) -> Result<Normalised, PathError> {
    normalise_with(path, rules, Dots::Remove, out)
}

/// Like [`normalise`], for a path that a rewrite or a redirect produced. A dot segment is an error here: the
/// parts that a client chose must not climb out of the path that the configuration put around them.
///
/// # Errors
/// As for [`normalise`], and [`PathError::DotSegment`].
pub fn normalise_rewritten(
    path: &[u8],
    rules: &PathRules,
    out: &mut Vec<u8>,
) -> Result<Normalised, PathError> {
    normalise_with(path, rules, Dots::Refuse, out)
}

fn normalise_with(
    path: &[u8],
    rules: &PathRules,
    dots: Dots,
    out: &mut Vec<u8>,
) -> Result<Normalised, PathError> {
    if rules.semicolon == Semicolon::Reject && has_semicolon(path) {
        return Err(PathError::Semicolon);
    }
    if is_surely_normal(path, rules) {
        return Ok(Normalised::Unchanged);
    }
    rewrite(path, rules, dots, out)?;
    Ok(if out == path { Normalised::Unchanged } else { Normalised::Changed })
}

/// Treatment of dot segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dots {
    /// They are removed (RFC 3986, section 5.2.4).
    Remove,
    /// The path is refused.
    Refuse,
}

/// Returns whether the path contains a `;`, raw or escaped.
fn has_semicolon(path: &[u8]) -> bool {
    memchr::memchr2_iter(b';', b'%', path)
        .any(|at| path[at] == b';' || escape::decode(&path[at..]) == Some(b';'))
}

/// Returns whether one pass over the path proves that it is in normal form. `false` proves nothing: rare
/// cases (a segment that starts with a dot, an escaped slash, any error) are left to [`rewrite`], the only
/// implementation of the rules.
fn is_surely_normal(path: &[u8], rules: &PathRules) -> bool {
    path.first() == Some(&b'/')
        && (fast_path::is_plain(path, rules.merge_slashes) || is_normal_with_escapes(path, rules))
}

/// Like [`is_surely_normal`], for paths that may hold escapes.
fn is_normal_with_escapes(path: &[u8], rules: &PathRules) -> bool {
    let mut at = 0;
    while let Some(&byte) = path.get(at) {
        match CLASS[usize::from(byte)] {
            Class::Unreserved | Class::Data => at += 1,
            Class::Slash => match path.get(at + 1) {
                Some(b'.') => return false,
                Some(b'/') if rules.merge_slashes => return false,
                _ => at += 1,
            },
            Class::Percent => match escape::decode(&path[at..]) {
                Some(byte) if stays_escaped(byte) && path[at..].starts_with(&escape::encode(byte)) => at += 3,
                _ => return false,
            },
            Class::Refused(_) => return false,
        }
    }
    true
}

/// Returns whether the escape of `byte` is data under any rules.
fn stays_escaped(byte: u8) -> bool {
    match CLASS[usize::from(byte)] {
        Class::Unreserved | Class::Slash => false,
        Class::Data | Class::Percent => true,
        // Bytes above 127, delimiters and spaces are properly sent as escapes.
        Class::Refused(error) => byte == b' ' || matches!(error, PathError::NonAscii | PathError::Delimiter),
    }
}

fn rewrite(path: &[u8], rules: &PathRules, dots: Dots, out: &mut Vec<u8>) -> Result<(), PathError> {
    out.clear();
    let Some((b'/', mut rest)) = path.split_first() else { return Err(PathError::NotAbsolute) };
    out.push(b'/');
    // `out` always ends with the slash before the current segment, which starts at `start`, and the segment
    // so far.
    let mut start = 1;
    while let Some((&byte, after)) = rest.split_first() {
        match CLASS[usize::from(byte)] {
            Class::Unreserved | Class::Data => out.push(byte),
            Class::Refused(error) => return Err(error),
            Class::Percent => {
                rewrite_escape(escape::decode(rest).ok_or(PathError::BadEscape)?, rules, out)?;
                rest = &rest[3..];
                continue;
            }
            Class::Slash => {
                match end_segment(out, start, dots)? {
                    Segment::Kept => out.push(b'/'),
                    Segment::Empty if !rules.merge_slashes => out.push(b'/'),
                    // The slash before the segment remains; this one is dropped.
                    Segment::Empty | Segment::Removed => {}
                }
                start = out.len();
            }
        }
        rest = after;
    }
    end_segment(out, start, dots).map(|_| ())
}

fn rewrite_escape(byte: u8, rules: &PathRules, out: &mut Vec<u8>) -> Result<(), PathError> {
    match CLASS[usize::from(byte)] {
        Class::Unreserved => out.push(byte),
        _ if stays_escaped(byte) => out.extend_from_slice(&escape::encode(byte)),
        Class::Refused(PathError::Nul) => return Err(PathError::Nul),
        Class::Refused(PathError::Backslash) if rules.encoded_slash == EncodedSlash::Reject => {
            return Err(PathError::EncodedBackslash);
        }
        Class::Slash if rules.encoded_slash == EncodedSlash::Reject => return Err(PathError::EncodedSlash),
        Class::Slash | Class::Refused(PathError::Backslash) => out.extend_from_slice(&escape::encode(byte)),
        _ => return Err(PathError::ControlByte),
    }
    Ok(())
}

/// Result of ending a segment.
enum Segment {
    Empty,
    Kept,
    Removed,
}

/// Ends the segment `out[start..]`, whose escapes are in normal form. Removes it if it is a dot segment (RFC
/// 3986, section 5.2.4), and refuses it if an origin might interpret it as one.
fn end_segment(out: &mut Vec<u8>, start: usize, dots: Dots) -> Result<Segment, PathError> {
    match &out[start..] {
        b"" => Ok(Segment::Empty),
        b"." | b".." if dots == Dots::Refuse => Err(PathError::DotSegment),
        b"." => {
            out.truncate(start);
            Ok(Segment::Removed)
        }
        b".." => {
            // `start` follows a slash; the text between that slash and the previous one is the parent.
            let parent = memchr::memrchr(b'/', &out[..start - 1]).ok_or(PathError::AboveRoot)?;
            out.truncate(parent + 1);
            Ok(Segment::Removed)
        }
        segment if are_dots_with_parameters(segment) => Err(PathError::PathParameterDots),
        segment if has_dots_at_encoded_slash(segment) => Err(PathError::EncodedSlashDots),
        _ => Ok(Segment::Kept),
    }
}

/// Returns whether the segment is `.` or `..` followed by a path parameter (RFC 3986, section 3.3).
fn are_dots_with_parameters(segment: &[u8]) -> bool {
    let parameters = segment.strip_prefix(b"..").or_else(|| segment.strip_prefix(b"."));
    parameters.is_some_and(|text| text.starts_with(b";") || text.starts_with(b"%3B"))
}

/// Returns whether an origin that decodes `%2F` or `%5C` before it removes dot segments would find one in
/// this segment.
fn has_dots_at_encoded_slash(segment: &[u8]) -> bool {
    let are_dots = |piece: &[u8]| matches!(piece, b"." | b"..") || are_dots_with_parameters(piece);
    let mut begin = 0;
    for at in memchr::memchr_iter(b'%', segment) {
        if segment[at..].starts_with(b"%2F") || segment[at..].starts_with(b"%5C") {
            if are_dots(&segment[begin..at]) {
                return true;
            }
            begin = at + 3;
        }
    }
    // Without an encoded slash the whole segment is one piece, and the caller knows that it is not dots.
    are_dots(&segment[begin..])
}

#[cfg(test)]
mod tests;
