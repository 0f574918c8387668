//! Tests that no form of a secret is shown.

use super::*;
use crate::position::lines;

/// Returns the lines of a text without its secrets.
fn masked(text: &str) -> Vec<String> {
    let secrets = Secrets::of(text);
    let page = lines(text);
    let line = |index: usize| secrets.mask(&page, index as u32 + 1).map(|masked| masked.text);
    page.iter().enumerate().map(|(index, own)| line(index).unwrap_or_else(|| (*own).to_owned())).collect()
}

#[test]
fn secrets_of_every_form_are_masked() {
    for (text, shown) in [
        ("etcd: {password: a-b-c, user: u}", "etcd: {password: ***, user: u}"),
        ("etcd: {password: \"a\\\"b\" , user: u}", "etcd: {password: *** , user: u}"),
        ("etcd: {password: 'a''b', user: u} # x", "etcd: {password: ***, user: u} # x"),
        ("{\"etcd\":{\"password\":\"a\",\"user\":\"u\"}}", "{\"etcd\":{\"password\":***,\"user\":\"u\"}}"),
        ("etcd: {password: ${PASSWORD}}", "etcd: {password: ${PASSWORD}}"),
        ("routes: [{jwt: a, basic: on}]", "routes: [{jwt: ***, basic: ***}]"),
        ("policies: {basic: a, hmac: [a], jwt: off}", "policies: {basic: ***, hmac: [***], jwt: off}"),
        ("admin: {tokens: [a]}", "admin: {tokens: [***]}"),
        ("consumers: {jwt: {groups: a}}", "consumers: {jwt: {groups: a}}"),
        (
            "routes: [{match: {headers: {Authorization: a, X-Env: b, x-api-key: {exact: c}}}}]",
            "routes: [{match: {headers: {Authorization: ***, X-Env: b, x-api-key: {***: ***}}}}]",
        ),
        ("upstreams: {authorization: a:1}", "upstreams: {authorization: a:1}"),
        (
            "policies: {headers: {request: {set: {Cookie: a=b}}}, canary: {cookie: b}}",
            "policies: {headers: {request: {set: {Cookie: ***}}}, canary: {cookie: b}}",
        ),
        ("etcd: {password: \"${A}b\"}", "etcd: {password: ***}"),
        ("etcd: {password: 12345}", "etcd: {password: ***}"),
        ("etcd: {password: !!str a}", "etcd: {password: ***}"),
        ("etcd: {password: &a b, user: *a}", "etcd: {password: ***, user: *a}"),
        ("etcd: {pasword: a}", "etcd: {pasword: ***}"),
        ("etcd: {password: [a, {b: c}]}", "etcd: {password: [***, {***: ***}]}"),
        ("\u{feff}etcd: {password: a}", "etcd: {password: ***}"),
        ("upstreams: {token: {endpoints: a:1}}", "upstreams: {token: {endpoints: a:1}}"),
        ("routes: [{to: \"http://u:p@h:1\"}]", "routes: [{to: ***}]"),
        ("routes: [{to: \"http://u@h:1\"}]", "routes: [{to: \"http://u@h:1\"}]"),
        ("x-a: \"\u{2028}//u:p@h\"", "x-a: ***"),
        ("etcd: {password:a, user: u}", "etcd: {***, user: u}"),
        (
            "policies: {plugins: {p: {api-token: a, size: 1}}}",
            "policies: {plugins: {p: {api-token: ***, size: 1}}}",
        ),
        ("x-a: {client_secret: a, size: 1}", "x-a: {client_secret: ***, size: 1}"),
        ("certificates: {a: {key: k.pem}}", "certificates: {a: {key: k.pem}}"),
    ] {
        assert_eq!(masked(text), [shown], "{text}");
    }
}

#[test]
fn secrets_of_several_lines_are_masked_to_their_end() {
    for end in ["\n", "\r\n", "\r"] {
        let text = [
            "consumers:",
            "  ann:",
            "    hmac_keys:",
            "      a: |",
            "        secret",
            "",
            "        secret",
            "      b: 'secret",
            "        secret'",
            "      c: secret",
            "        secret",
            "    groups: x",
        ]
        .join(end);
        let shown = masked(&text);
        let rest: Vec<&str> = shown[3..].iter().map(|line| line.trim_start()).collect();
        assert_eq!(
            rest,
            ["a: |", "***", "", "***", "b: ***", "***", "c: ***", "***", "groups: x"],
            "{end:?}"
        );
    }
}

#[test]
fn after_a_syntax_error_names_tell_what_is_secret() {
    let broken = |lines: &[&str]| masked(&["listen: \"a\" b", lines.join("\n").as_str()].join("\n"));
    for (lines, last) in [
        (&["  password: a"][..], "  password: ***"),
        (&["  \"client_secret\" : \"a"], "  \"client_secret\" : ***"),
        (&["  user: u, pasword: a, b: c"], "  user: u, pasword: ***"),
        (&["  hmac_keys:", "    a: \"b"], "    a: ***"),
        (&["  hmac_keys:", "    - b"], "    ***"),
        (&["\"password\":", "\"a\""], "***"),
        (&["  to: redis://u:p@h:1"], "  to: redis://***@h:1"),
        (&["  key: |", "  -----BEGIN PRIVATE KEY-----", "  MIIE"], "  ***"),
        (&["  listen: 127.0.0.1:80"], "  listen: 127.0.0.1:80"),
    ] {
        assert_eq!(broken(lines).last().map(String::as_str), Some(last), "{lines:?}");
    }
}

#[test]
fn carets_move_with_their_values() {
    let text = "etcd: {password: abcdefgh, user: u, password: i}";
    let secrets = Secrets::of(text);
    let line = secrets.mask(&[text], 1).expect("secrets");
    assert_eq!(line.text, "etcd: {password: ***, user: u, password: ***}");
    let moved = |column, length| {
        let at = line.moved(At { file: 0, line: 1, column, length });
        (at.column, at.length)
    };
    assert_eq!(moved(8, 8), (8, 8), "a key before");
    assert_eq!(moved(18, 8), (18, 3), "a secret");
    assert_eq!(moved(20, 1), (18, 3), "a part of it");
    assert_eq!(moved(28, 4), (23, 4), "a key after it");
    assert_eq!(moved(8, 40), (8, 37), "all");
}

#[test]
fn words_of_a_problem_do_not_repeat_a_secret() {
    let known = [Zeroizing::new("\"swordfish\"".to_owned())];
    for (text, shown) in [
        ("`swordfish` is no `secret`", "`***` is no `secret`"),
        ("`*swordfish` is no `base64:`", "`***` is no `base64:`"),
        ("`sword…` ends in `fish`", "`***` ends in `***`"),
    ] {
        assert_eq!(concealed(text, &known), shown);
    }
}
