//! Fields of heads and trailers that the gateway has written, for whoever sends them as HTTP/2.

/// The fields of lines that were read or written by this gateway, each with its CRLF: name and value.
pub fn fields(lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    lines.split(|byte| *byte == b'\n').filter_map(|line| {
        let line = line.strip_suffix(b"\r")?;
        let colon = line.iter().position(|byte| *byte == b':')?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

#[cfg(test)]
mod tests {
    use super::fields;

    #[test]
    fn names_and_values() {
        let lines = b"A: b\r\nc:d:e \r\nempty:\r\n\r\n";
        let found: Vec<_> = fields(lines).collect();
        let expected: [(&[u8], &[u8]); 3] = [(b"A", b"b"), (b"c", b"d:e"), (b"empty", b"")];
        assert_eq!(found, expected);
    }
}
