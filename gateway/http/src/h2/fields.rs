//! Iterates over field lines that the gateway has read or written, to send them in HTTP/2.

use crate::chars::{plain_token_end, text_end};

/// Iterates over the names and values of field lines, each with its CRLF. The gateway has read or written
/// them, so they are valid; a line that is no field is skipped.
pub fn fields(lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < lines.len() {
            let (field, next) = parse_plain(lines, at).unwrap_or_else(|| parse_any(lines, at));
            at = next;
            if field.is_some() {
                return field;
            }
        }
        None
    })
}

/// A line's field, if the line is one, and the offset of the next line.
type ParsedLine<'a> = (Option<(&'a [u8], &'a [u8])>, usize);

/// Parses the line at `at` if its name consists of letters, digits, `-` and `_`, as in nearly all lines.
/// Examines sixteen bytes at a time.
#[inline]
fn parse_plain(lines: &[u8], at: usize) -> Option<ParsedLine<'_>> {
    let colon = plain_token_end(lines, at);
    if colon == at || lines.get(colon) != Some(&b':') {
        return None;
    }
    let end = text_end(lines, colon + 1);
    if !lines.get(end..)?.starts_with(b"\r\n") {
        return None;
    }
    Some((Some((&lines[at..colon], lines[colon + 1..end].trim_ascii())), end + 2))
}

/// The same for any line.
fn parse_any(lines: &[u8], at: usize) -> ParsedLine<'_> {
    let rest = &lines[at..];
    let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    let field = rest[..end].strip_suffix(b"\r").and_then(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    });
    (field, at + end + 1)
}

#[cfg(test)]
mod tests {
    use super::fields;

    #[test]
    fn names_and_values() {
        let lines = b"A: b\r\nc:d:e \r\nempty:\r\nodd!name: \xff\r\nno field\r\n\r\n";
        let found: Vec<_> = fields(lines).collect();
        let expected: [(&[u8], &[u8]); 4] =
            [(b"A", b"b"), (b"c", b"d:e"), (b"empty", b""), (b"odd!name", b"\xff")];
        assert_eq!(found, expected);
    }
}
