//! Paths of files.
//!
//! Every key that takes a file's path uses this parser. A text that other programs read as a destination
//! (`syslog:`, `http://`, `|command`) is never accepted as a file name.

use std::path::PathBuf;

use super::ScalarError;

/// Checks the path of a file and returns it as written.
pub(crate) fn file_path(text: &str) -> Result<PathBuf, ScalarError> {
    if text.is_empty() {
        return Err(ScalarError::new("{} is not a path"));
    }
    if text.chars().any(char::is_control) {
        return Err(ScalarError::new("{} is not the path of a file"));
    }
    if text.starts_with('|') {
        return Err(ScalarError::new("{} is a command; commands are not supported").part(0, 1));
    }
    if text.starts_with("~/") {
        let fault = ScalarError::new("{} begins with `~`, which only a shell replaces").part(0, 1);
        return Err(fault.help("write the absolute path"));
    }
    if let Some(scheme) = scheme(text) {
        let fault = ScalarError::new("{} is not the path of a file").part(0, scheme.len() + 1);
        return Err(match text.split_at(scheme.len() + 1) {
            ("file:", path) if path.starts_with('/') => {
                fault.suggest(format!("write `/{}`", path.trim_start_matches('/')))
            }
            (_, rest) if rest.starts_with("//") => fault,
            _ => fault.suggest(format!("write `./{text}` for a file of this name")),
        });
    }
    Ok(PathBuf::from(text))
}

/// Returns the scheme of a text that looks like a URI (RFC 3986, section 3.1): a word and a colon, with no
/// `/` before it.
pub(crate) fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once(':')?;
    let begins = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
    let fits = |c: char| c.is_ascii_alphanumeric() || "+.-_".contains(c);
    (begins && scheme.chars().all(fits)).then_some(scheme)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        for text in ["/var/log/a.log", "a.log", "./a:b", "/var/a:b", "dir/x:y", "../x", "1:2", "a b.pem"] {
            assert_eq!(file_path(text), Ok(PathBuf::from(text)), "{text}");
        }
    }

    #[test]
    fn destinations_of_other_programs_are_no_paths() {
        for text in [
            "syslog:server=127.0.0.1:514",
            "syslog+udp://127.0.0.1:514",
            "memory:32m:debug",
            "http://127.0.0.1/x",
            "unix:/dev/log",
            "fd:3",
            "C:\\logs\\a.log",
            "|/usr/bin/rotatelogs /var/log/a",
            "~/a.log",
            "",
            "a\nb",
        ] {
            assert!(file_path(text).is_err(), "{text}");
        }
        let suggestion = |text: &str| file_path(text).unwrap_err().suggestion;
        assert_eq!(suggestion("file:///var/log/a").as_deref(), Some("write `/var/log/a`"));
        assert_eq!(suggestion("a:b.log").as_deref(), Some("write `./a:b.log` for a file of this name"));
    }
}
