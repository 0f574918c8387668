//! The normal form of a path: for any bytes, it is its own normal form, and no server can read it in two
//! ways.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_route::{EncodedSlash, Normalised, PathRules, Semicolon, normalise};

fuzz_target!(|path: &[u8]| {
    for merge_slashes in [true, false] {
        for encoded_slash in [EncodedSlash::Reject, EncodedSlash::Keep] {
            for semicolon in [Semicolon::Keep, Semicolon::Reject] {
                check(path, &PathRules { merge_slashes, encoded_slash, semicolon });
            }
        }
    }
});

fn check(path: &[u8], rules: &PathRules) {
    let mut out = b"left over from the request before".to_vec();
    let form = match normalise(path, rules, &mut out) {
        Err(_) => return,
        Ok(Normalised::Unchanged) => path,
        Ok(Normalised::Changed) => &out,
    };

    assert!(form.len() <= path.len(), "longer than what came in");
    let mut again = Vec::new();
    assert_eq!(normalise(form, rules, &mut again), Ok(Normalised::Unchanged), "has another normal form");

    assert_eq!(form.first(), Some(&b'/'));
    assert!(form.iter().all(|byte| byte.is_ascii_graphic() && !b"?#\\".contains(byte)));
    assert!(rules.semicolon == Semicolon::Keep || !form.contains(&b';'), "a semicolon is refused");
    let segments: Vec<&[u8]> = form[1..].split(|byte| *byte == b'/').collect();
    assert!(!segments.iter().any(|segment| matches!(*segment, b"." | b"..")), "a dot segment is left");
    if rules.merge_slashes {
        let inner = &segments[..segments.len() - 1];
        assert!(!inner.iter().any(|segment| segment.is_empty()), "an empty segment is left");
    }

    for (at, _) in form.iter().enumerate().filter(|(_, byte)| **byte == b'%') {
        let digits = form.get(at + 1..at + 3).expect("an escape is whole");
        assert!(
            digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'A'..=b'F')),
            "one spelling of an escape"
        );
        assert_ne!(digits, b"00", "NUL is never data");
        if rules.semicolon == Semicolon::Reject {
            assert!(digits != b"3B", "an encoded semicolon is refused");
        }
        if rules.encoded_slash == EncodedSlash::Reject {
            assert!(digits != b"2F" && digits != b"5C", "an encoded slash is refused");
        }
    }
}
