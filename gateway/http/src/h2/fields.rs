//! Fields of heads and trailers that the gateway has written, for whoever sends them as HTTP/2.

use crate::chars::{plain_token_end, text_end};

/// The fields of lines that were read or written by this gateway, each with its CRLF: name and value.
pub fn fields(lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < lines.len() {
            let (field, next) = usual(lines, at).unwrap_or_else(|| any(lines, at));
            at = next;
            if field.is_some() {
                return field;
            }
        }
        None
    })
}

/// A field, if a line is one, and where the next line begins.
type Line<'a> = (Option<(&'a [u8], &'a [u8])>, usize);

/// The line that begins here, if it is as nearly all are: with a name of letters, digits, `-` and `_`. Looks at sixteen
/// bytes at a time.
#[inline]
fn usual(lines: &[u8], at: usize) -> Option<Line<'_>> {
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

/// The same of any line.
fn any(lines: &[u8], at: usize) -> Line<'_> {
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
