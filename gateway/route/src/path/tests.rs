//! Cases and properties of the normal form.

use super::*;
use proptest::prelude::*;

fn with(path: &[u8], rules: PathRules) -> Result<Vec<u8>, PathError> {
    let mut out = b"left over".to_vec();
    Ok(match normalise(path, &rules, &mut out)? {
        Normalised::Unchanged => path.to_vec(),
        Normalised::Changed => {
            assert_ne!(out, path);
            out
        }
    })
}

fn normal(path: &str) -> Result<String, PathError> {
    with(path.as_bytes(), PathRules::default()).map(|path| String::from_utf8(path).unwrap())
}

fn kept(path: &str) -> Result<String, PathError> {
    let rules = PathRules { encoded_slash: EncodedSlash::Keep, ..PathRules::default() };
    with(path.as_bytes(), rules).map(|path| String::from_utf8(path).unwrap())
}

#[test]
fn normal_paths_are_unchanged() {
    for path in [
        "/",
        "/a",
        "/a/",
        "/a.b/c..d/.well-known/...",
        "/%20%E2%82%AC",
        "/a;b=c",
        "/a%3Bb",
        "/~user",
        "/%25",
        "/%2B+",
        "/a[0]{x}|^\"<>`",
        "/a:b@c!$&'()*+,=",
        "/%3F%23",
        "/%252e%252e",
        "/..foo",
        "/.foo/..bar",
    ] {
        assert_eq!(normal(path).as_deref(), Ok(path));
    }
}

#[test]
fn dot_segments_go() {
    for (path, expected) in [
        ("/.", "/"),
        ("/./", "/"),
        ("/a/.", "/a/"),
        ("/a/..", "/"),
        ("/a/b/..", "/a/"),
        ("/a/b/../", "/a/"),
        ("/a/./b", "/a/b"),
        ("/a/../b", "/b"),
        ("/a/b/../../c", "/c"),
        ("/a/%2e%2E/b", "/b"),
        ("/%2e/a", "/a"),
        ("/a/.%2e/b", "/b"),
        ("/a//../b", "/b"),
        ("/a/..//b", "/b"),
        ("/mid/content=5/../6", "/mid/6"),
    ] {
        assert_eq!(normal(path).as_deref(), Ok(expected), "{path}");
    }
}

#[test]
fn slashes_merge_when_asked() {
    assert_eq!(normal("//a///b//").as_deref(), Ok("/a/b/"));
    let rules = PathRules { merge_slashes: false, ..PathRules::default() };
    for (path, expected) in [
        ("//a///b//", "//a///b//"),
        ("/a//../b", "/a/b"),
        ("/a/..//b", "//b"),
        ("//..", "/"),
        ("/.//b", "//b"),
    ] {
        assert_eq!(with(path.as_bytes(), rules).unwrap(), expected.as_bytes(), "{path}");
    }
}

#[test]
fn escapes_take_one_spelling() {
    assert_eq!(normal("/%61%5a%7e%2d%5f%30").as_deref(), Ok("/aZ~-_0"));
    assert_eq!(normal("/%e2%82%ac%3b%2b").as_deref(), Ok("/%E2%82%AC%3B%2B"));
    assert_eq!(kept("/a%2fb%5cc").as_deref(), Ok("/a%2Fb%5Cc"));
}

#[test]
fn refused_paths() {
    use PathError::*;
    for (path, error) in [
        ("", NotAbsolute),
        ("*", NotAbsolute),
        ("a/b", NotAbsolute),
        ("http://a/", NotAbsolute),
        ("/%00", Nul),
        ("/\0", Nul),
        ("/a b", ControlByte),
        ("/a\tb", ControlByte),
        ("/%0d%0a", ControlByte),
        ("/%7f", ControlByte),
        ("/\x7f", ControlByte),
        ("/é", NonAscii),
        ("/a\\b", Backslash),
        ("/a?b", Delimiter),
        ("/a#b", Delimiter),
        ("/%", BadEscape),
        ("/%2", BadEscape),
        ("/%zz", BadEscape),
        ("/%2/a", BadEscape),
        ("/%%32e", BadEscape),
        ("/a%2Fb", EncodedSlash),
        ("/a%2fb", EncodedSlash),
        ("/a%5Cb", EncodedBackslash),
        ("/..", AboveRoot),
        ("/a/../..", AboveRoot),
        ("/%2e%2e/a", AboveRoot),
        ("//..", AboveRoot),
        ("/a/..;/b", PathParameterDots),
        ("/.;", PathParameterDots),
        ("/a/..;x=1/b", PathParameterDots),
        ("/a/%2e%2e%3bx", PathParameterDots),
        ("/a/.%3B/b", PathParameterDots),
    ] {
        assert_eq!(normal(path), Err(error), "{path:?}");
    }
}

#[test]
fn kept_slashes_hide_no_dots() {
    for path in ["/a%2F..", "/..%2Fa", "/.%2f", "/a/b%2F%2e%2e%5Cc", "/a%5C..;x", "/a%2F..%2Fb"] {
        assert_eq!(kept(path), Err(PathError::EncodedSlashDots), "{path}");
    }
    for path in ["/a%2F...", "/a%2F..b", "/%2F", "/%2F%5C"] {
        assert_eq!(kept(path).as_deref(), Ok(path));
    }
}

#[test]
fn semicolons_can_be_refused() {
    let strict = PathRules { semicolon: Semicolon::Reject, ..PathRules::default() };
    for path in ["/admin;x", "/admin;x/y", "/;/admin", "/admin%3bx", "/admin%3B", "/a/..;/b", "/;"] {
        assert_eq!(with(path.as_bytes(), strict), Err(PathError::Semicolon), "{path}");
    }
    for path in ["/admin/x", "/a%253bx", "/a%3Ab", "/a%3"] {
        assert_eq!(with(path.as_bytes(), strict), with(path.as_bytes(), PathRules::default()), "{path}");
    }
}

#[test]
fn a_rewritten_path_has_no_dot_segments() {
    let made = |path: &str| {
        let mut out = Vec::new();
        let form = normalise_rewritten(path.as_bytes(), &PathRules::default(), &mut out)?;
        Ok(if form == Normalised::Unchanged { path.to_owned() } else { String::from_utf8(out).unwrap() })
    };
    for path in ["/a/../b", "/a/.", "/a/%2e%2E/b", "/..", "/./a"] {
        assert_eq!(made(path), Err(PathError::DotSegment), "{path}");
    }
    for (path, expected) in [("/a//b", "/a/b"), ("/%61%e9", "/a%E9"), ("/a/...", "/a/..."), ("/a", "/a")] {
        assert_eq!(made(path).as_deref(), Ok(expected), "{path}");
    }
    assert_eq!(made("/a%2Fb"), Err(PathError::EncodedSlash));
}

#[test]
fn errors_differ() {
    for (at, error) in PathError::ALL.iter().enumerate() {
        assert!(PathError::ALL[..at].iter().all(|other| other.as_str() != error.as_str()));
    }
}

#[test]
fn a_long_climb_is_linear() {
    let mut path = b"/a".repeat(100_000);
    path.extend(b"/..".repeat(100_000));
    assert_eq!(with(&path, PathRules::default()).unwrap(), b"/");
}

fn rules() -> impl Strategy<Value = PathRules> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(merge_slashes, keep, semicolon)| PathRules {
        merge_slashes,
        encoded_slash: if keep { EncodedSlash::Keep } else { EncodedSlash::Reject },
        semicolon: if semicolon { Semicolon::Keep } else { Semicolon::Reject },
    })
}

/// Paths made of the relevant pieces.
fn paths() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "/", "/", "/", ".", "..", ";", "a", "b", "%2e", "%2E", "%2f", "%5C", "%3b", "%61", "%C3", "%e9",
        "%25", "%20", "|", "x",
    ]);
    prop::collection::vec(piece, 0..12).prop_map(|pieces| format!("/{}", pieces.concat()))
}

/// The definition, step by step and without regard to cost.
fn model(path: &str, rules: PathRules) -> Result<String, PathError> {
    let mut decoded = String::new();
    let mut chars = path.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            decoded.push(c);
            continue;
        }
        let hex: String = chars.by_ref().take(2).collect();
        let byte = u8::from_str_radix(&hex, 16).map_err(|_| PathError::BadEscape)?;
        match byte {
            b';' if rules.semicolon == Semicolon::Reject => return Err(PathError::Semicolon),
            b'/' if rules.encoded_slash == EncodedSlash::Reject => return Err(PathError::EncodedSlash),
            b'\\' if rules.encoded_slash == EncodedSlash::Reject => return Err(PathError::EncodedBackslash),
            b'.' | b'-' | b'_' | b'~' => decoded.push(byte as char),
            _ if byte.is_ascii_alphanumeric() => decoded.push(byte as char),
            _ => decoded.push_str(&format!("%{byte:02X}")),
        }
    }
    if rules.semicolon == Semicolon::Reject && decoded.contains(';') {
        return Err(PathError::Semicolon);
    }
    let segments: Vec<&str> = decoded[1..].split('/').collect();
    let mut kept: Vec<&str> = Vec::new();
    for (at, segment) in segments.iter().enumerate() {
        let last = at + 1 == segments.len();
        let split = segment.replace("%5C", "%2F");
        let pieces: Vec<&str> = split.split("%2F").collect();
        let parameters = |s: &str| ["..;", ".;", "..%3B", ".%3B"].iter().any(|dots| s.starts_with(dots));
        match *segment {
            "." => {}
            ".." => drop(kept.pop().ok_or(PathError::AboveRoot)?),
            s if parameters(s) => return Err(PathError::PathParameterDots),
            _ if pieces.len() > 1 && pieces.iter().any(|p| *p == "." || *p == ".." || parameters(p)) => {
                return Err(PathError::EncodedSlashDots);
            }
            "" if last || rules.merge_slashes => {}
            s => kept.push(s),
        }
        if last && matches!(*segment, "" | "." | "..") {
            kept.push("");
        }
    }
    Ok(format!("/{}", kept.join("/")))
}

proptest! {
    #[test]
    fn agrees_with_the_model(path in paths(), rules in rules()) {
        let ours = with(path.as_bytes(), rules).map(|path| String::from_utf8(path).unwrap());
        match (ours, model(&path, rules)) {
            (Ok(ours), Ok(model)) => prop_assert_eq!(ours, model),
            // If there are several errors, the order of the checks decides which is reported.
            (ours, model) => prop_assert_eq!(ours.is_err(), model.is_err()),
        }
    }

    #[test]
    fn the_normal_form_is_normal(path in paths(), rules in rules()) {
        if let Ok(once) = with(path.as_bytes(), rules) {
            let mut out = Vec::new();
            prop_assert_eq!(normalise(&once, &rules, &mut out), Ok(Normalised::Unchanged));
            prop_assert!(once.len() <= path.len());
            let text = String::from_utf8(once).unwrap();
            prop_assert!(text[1..].split('/').all(|segment| segment != "." && segment != ".."));
            prop_assert!(!rules.merge_slashes || !text.contains("//"));
        }
    }

    #[test]
    fn the_fast_path_changes_nothing(path in paths(), rules in rules()) {
        let mut out = Vec::new();
        if is_surely_normal(path.as_bytes(), &rules) {
            prop_assert_eq!(rewrite(path.as_bytes(), &rules, Dots::Refuse, &mut out), Ok(()));
            prop_assert_eq!(out, path.as_bytes());
        }
    }

    #[test]
    fn spelling_of_escapes_does_not_matter(path in paths(), rules in rules(), which in any::<u64>()) {
        // Escape some unreserved characters and flip the case of hexadecimal digits.
        let mut other = String::new();
        let mut in_escape = 0;
        for (at, c) in path.char_indices() {
            let flip = which >> (at % 64) & 1 == 1;
            match c {
                '%' => { in_escape = 2; other.push(c); }
                _ if in_escape > 0 => {
                    in_escape -= 1;
                    other.push(if flip { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() });
                }
                '.' | 'a' | 'b' | 'x' if flip => other.push_str(&format!("%{:02x}", c as u8)),
                _ => other.push(c),
            }
        }
        prop_assert_eq!(with(path.as_bytes(), rules), with(other.as_bytes(), rules));
    }

    #[test]
    fn any_bytes_at_all(path in prop::collection::vec(any::<u8>(), 0..40), rules in rules()) {
        if let Ok(once) = with(&path, rules) {
            prop_assert_eq!(with(&once, rules), Ok(once.clone()));
            prop_assert!(once.iter().all(|byte| (0x21..0x7F).contains(byte)));
        }
    }
}
