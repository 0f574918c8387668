//! Files of `htpasswd`: one user per line, with the hash of a password.
//!
//! [`parse`] reads what nginx and Apache read: `name:hash`, perhaps with a comment after a further colon, and lines that
//! begin with `#`. A user whose hash the gateway does not verify is left out and reported, as such a user cannot sign
//! in; the other users of the file can.

use super::is_password_hash;

/// The users of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Htpasswd<'f> {
    /// Names with their hashes. The first line of a name counts, as in nginx and Apache.
    pub users: Vec<(&'f str, &'f str)>,
    /// Users whose passwords cannot be verified.
    pub rejected: Vec<Rejected<'f>>,
}

/// A user whose password cannot be verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rejected<'f> {
    /// The number of the line, from 1.
    pub line: usize,
    pub name: &'f str,
}

/// Parses a file.
///
/// # Errors
/// The reason why it is not such a file, with the line. The reason repeats no hash.
pub(super) fn parse(file: &[u8]) -> Result<Htpasswd<'_>, String> {
    let mut out = Htpasswd::default();
    let text = std::str::from_utf8(file).map_err(|error| {
        let line = file[..error.valid_up_to()].split(|byte| *byte == b'\n').count();
        format!("line {line} is not UTF-8")
    })?;
    let mut known = std::collections::HashSet::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let (name, rest) = text.split_once(':').ok_or_else(|| format!("line {line} has no colon"))?;
        let hash = rest.split(':').next().unwrap_or_default();
        // The name is sent upstream in a field.
        if name.is_empty() || name.chars().any(char::is_control) {
            return Err(format!("line {line} does not begin with the name of a user"));
        }
        if !known.insert(name) {
            continue;
        }
        match is_password_hash(hash) {
            true => out.users.push((name, hash)),
            false => out.rejected.push(Rejected { line, name }),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "$apr1$Zk3v$zrUHnc3neMu1SxlYRVyIb.";

    #[test]
    fn a_file_as_htpasswd_writes_it() {
        let file =
            format!("# staff\n\nann:{HASH}\r\nbob:{HASH}:since 2019\n  \nann:{{SHA}}x\nold:lQhul89CPXQlE\n");
        let parsed = parse(file.as_bytes()).expect("a file");
        assert_eq!(parsed.users, [("ann", HASH), ("bob", HASH)]);
        assert_eq!(parsed.rejected, [Rejected { line: 7, name: "old" }]);
        assert_eq!(parse(b"").expect("a file"), Htpasswd::default());
    }

    #[test]
    fn other_files_are_refused_without_repeating_them() {
        for (file, why) in [
            (&b"ann"[..], "line 1 has no colon"),
            (b"#\nann:x\nsecret\n", "line 3 has no colon"),
            (b":x\n", "line 1 does not begin with the name of a user"),
            (b"a\tb:x\n", "line 1 does not begin with the name of a user"),
            (b"ann:x\nbob:\xff\n", "line 2 is not UTF-8"),
        ] {
            assert_eq!(parse(file), Err(why.to_owned()));
        }
    }
}
