//! `check` refuses fallbacks that can never apply, and `explain` shows the others.

use tollgate_tests::tollgate;

use crate::tls::Files;

const UPSTREAMS: &str = "upstreams:\n  a: \"10.0.0.1:80\"\n  backup: \"10.0.0.2:80\"\n  guarded:\n    endpoints: \"10.0.0.3:80\"\n    policies: {ip: {allow: 10.0.0.0/8}}\n";

fn file(files: &Files, fallback: &str) -> String {
    let path = files.path().join("tollgate.yaml");
    let text =
        format!("listen: 127.0.0.1:0\nadmin: off\nroutes:\n- to: a\n  fallback: {fallback}\n{UPSTREAMS}");
    std::fs::write(&path, text).expect("written");
    path.to_str().expect("text").to_owned()
}

#[test]
fn each_mistake_has_its_place() {
    let files = Files::new();
    for (fallback, about) in [
        ("{to: bakup}", "there is no upstream `bakup`"),
        ("{to: bakup}", "did you mean `backup`?"),
        ("{to: a}", "this fallback leads back to `a`"),
        ("[{on: 502, to: backup}, {on: 503, to: backup}]", "the fallbacks lead to `backup` twice"),
        ("{to: guarded}", "the policies of upstream `guarded` would not be met"),
        ("{on: 200, to: backup}", "`200` is not an error status"),
        ("{on: 4xx-, to: backup}", "`4xx-` is not a status"),
        ("{on: 599-500, to: backup}", "`599-500` starts with the larger status"),
        ("{on: [], to: backup}", "`on` is an empty list"),
        ("[]", "`fallback` is an empty list"),
        ("{on: 5xx}", "a fallback has none of `to` or `respond`"),
        ("{to: backup, respond: sorry}", "`respond`"),
        ("{respond: sorry, path: /x}", "`path` conflicts with `respond`"),
        ("{to: backup, status: 200}", "`status` needs `path`"),
        ("{to: backup, path: x}", "`x` is not a path"),
        ("{to: backup, path: '/{code}'}", "has an unknown placeholder"),
        ("{to: backup, path: /a%2Fb}", "this makes a path that is refused"),
        ("{to: backup, path: /x, status: 204}", "an answer with this status has no body"),
        ("{on: 5xx, tto: backup}", "did you mean `to`?"),
        ("{on: 5xx, respond: {status: 99}}", "99"),
    ] {
        let ran = tollgate(&["check", &file(&files, fallback)]);
        assert_ne!(ran.code, Some(0), "{fallback}: {ran:?}");
        assert!(ran.err.contains(about), "{fallback}: {about} is not in\n{}", ran.err);
        assert!(ran.err.contains("tollgate.yaml:5:") && ran.err.contains('^'), "{fallback}: {}", ran.err);
    }
    let ran = tollgate(&["check", &file(&files, "[{on: 5xx, respond: sorry}, {on: 503, to: backup}]")]);
    assert!(ran.err.contains("this fallback is never reached") && ran.code == Some(0), "{ran:?}");
}

#[test]
fn explain_shows_them() {
    let files = Files::new();
    let path = file(
        &files,
        "[{to: backup}, {on: 404, to: backup, path: '/{status}.html'}, {on: 4xx, to: backup, path: /x, status: 200}, \
         {on: [500-599, 410], respond: sorry}]",
    );
    let ran = tollgate(&["explain", &path, "GET", "http://h/"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for line in [
        "fallback  on 502-504: the request goes to upstream backup",
        "          on 404: a page, GET /{status}.html of upstream backup",
        "          on 400-499: a page, GET /x of upstream backup, with status 200",
        "          on 410, 500-599: a fixed response",
    ] {
        assert!(ran.out.contains(line), "{line:?} is not in\n{}", ran.out);
    }
}
