//! `Cache-Control` and targeted fields: the directives survive writing and parsing, and a line that is split in two lines
//! at a comma between them reads the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_cache::{Directive, ResponseControl, directives};

fuzz_target!(|input: &[u8]| {
    let read: Vec<Directive<'_>> = directives(input).collect();
    let mut text = Vec::new();
    for directive in &read {
        write(&mut text, directive);
    }
    assert_eq!(directives(&text).collect::<Vec<_>>(), read, "what is written is read");

    let whole = ResponseControl::of_cache_control([input].into_iter());
    assert_eq!(ResponseControl::of_cache_control([&text[..]].into_iter()), whole);
    if read.iter().any(|directive| directive.is("no-store")) {
        assert!(whole.no_store, "another directive hides it");
    }
    for seconds in [whole.max_age, whole.s_maxage, whole.stale_while_revalidate, whole.stale_if_error] {
        assert!(seconds.is_none_or(|seconds| seconds <= 1 << 31));
    }
    let line = |directive| {
        let mut line = Vec::new();
        write(&mut line, directive);
        line
    };
    let lines: Vec<Vec<u8>> = read.iter().map(line).collect();
    assert_eq!(ResponseControl::of_cache_control(lines.iter().map(|line| &line[..])), whole);

    if let Some(targeted) = ResponseControl::of_targeted(&[input]) {
        assert!(targeted.is_targeted && input.is_ascii());
        let spaced = [b"  ", input, b" \t"].concat();
        assert_eq!(
            ResponseControl::of_targeted(&[&spaced]),
            Some(targeted),
            "white space around it does not count"
        );
    }
});

fn write(out: &mut Vec<u8>, directive: &Directive<'_>) {
    out.extend_from_slice(directive.name);
    if let Some(value) = &directive.value {
        out.extend_from_slice(b"=\"");
        for byte in value.iter() {
            if matches!(byte, b'"' | b'\\') {
                out.push(b'\\');
            }
            out.push(*byte);
        }
        out.push(b'"');
    }
    out.extend_from_slice(b", ");
}
