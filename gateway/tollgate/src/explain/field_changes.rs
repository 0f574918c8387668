//! Compares the header fields that a client sends with the forwarded ones.

/// A field that is not forwarded as it was received.
#[derive(Debug, PartialEq, Eq)]
pub struct FieldChange {
    /// Its name as the client wrote it, or as the gateway writes it if the client did not send it.
    pub name: String,
    /// Its values as received.
    pub before: Vec<String>,
    /// Its values as sent.
    pub after: Vec<String>,
}

/// Compares two heads, each with its start line. The changes are in the order in which the fields appear.
pub fn changes(received: &str, sent: &str) -> Vec<FieldChange> {
    let mut all: Vec<FieldChange> = Vec::new();
    for (line, is_sent) in
        fields(received).map(|line| (line, false)).chain(fields(sent).map(|line| (line, true)))
    {
        let (name, value) = line;
        let index =
            all.iter().position(|change| change.name.eq_ignore_ascii_case(name)).unwrap_or_else(|| {
                all.push(FieldChange { name: name.to_owned(), before: Vec::new(), after: Vec::new() });
                all.len() - 1
            });
        let values = if is_sent { &mut all[index].after } else { &mut all[index].before };
        values.push(value.to_owned());
    }
    all.retain(|change| change.before != change.after);
    all
}

/// Returns the field lines of a head as names and values.
pub fn fields(head: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = head.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
    lines.map(|(name, value)| (name, value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_removed_replaced() {
        let received = "GET / HTTP/1.1\r\nHost: a\r\nkeep-alive: 5\r\nX-F: 1\r\nX-F: 2\r\nX-Same: s\r\n\r\n";
        let sent = "GET / HTTP/1.1\r\nHost: b\r\nX-F: 1, 2, 3\r\nX-Same: s\r\nX-New: n\r\n\r\n";
        let change = |name: &str, before: &[&str], after: &[&str]| FieldChange {
            name: name.to_owned(),
            before: before.iter().map(|value| (*value).to_owned()).collect(),
            after: after.iter().map(|value| (*value).to_owned()).collect(),
        };
        let expected = [
            change("Host", &["a"], &["b"]),
            change("keep-alive", &["5"], &[]),
            change("X-F", &["1", "2"], &["1, 2, 3"]),
            change("X-New", &[], &["n"]),
        ];
        assert_eq!(changes(received, sent), expected);
    }
}
