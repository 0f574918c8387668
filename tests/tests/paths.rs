//! Attack class 8: the gateway normalises the path once, before it matches, and sends the form that it
//! matched.

use tollgate_tests::{Gateway, Origin, eventually, tollgate};

/// Returns the path as a lenient origin might read it: decoded, with backslashes turned, slashes merged and
/// dots resolved, also dots with a parameter. Encoded and empty segments follow the configuration.
fn lenient(target: &str, keep: bool, merge: bool) -> String {
    let path = target.split(['?', '#']).next().unwrap_or_default().as_bytes();
    let mut decoded = Vec::new();
    let mut i = 0;
    while i < path.len() {
        let hex = path.get(i + 1..i + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if path[i] == b'%' && !(keep && matches!(byte, b'/' | b'\\')) => {
                decoded.push(byte);
                i += 3;
            }
            _ => {
                decoded.push(path[i]);
                i += 1;
            }
        }
    }
    let text = String::from_utf8_lossy(&decoded).replace('\\', "/");
    let text = text.split('\0').next().unwrap_or_default();
    let mut kept: Vec<&str> = Vec::new();
    for segment in text.split('/').skip(1) {
        match segment.split(';').next().unwrap_or_default() {
            "" if segment.is_empty() && merge => {}
            "." => {}
            ".." => drop(kept.pop()),
            _ => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

fn forbidden(path: &str) -> bool {
    path == "/admin" || path.starts_with("/admin/")
}

#[test]
fn no_spelling_of_a_guarded_path_gets_by_its_route() {
    let origin = Origin::ok();
    for paths in [
        "{}",
        "{merge_slashes: false}",
        "{encoded_slash: keep}",
        "{merge_slashes: false, encoded_slash: keep}",
    ] {
        let gateway = Gateway::start(&format!(
            "paths: {paths}\nroutes:\n  - {{match: \"/admin/*\", respond: 403}}\n  - {{match: \"/*\", to: [{}]}}\n",
            origin.address()
        ));
        let mut spellings: Vec<String> = [
            "/admin",
            "/admin/",
            "/admin/x",
            "//admin",
            "///admin//x",
            "/./admin",
            "/.//admin",
            "/x/../admin",
            "/x/..//admin",
            "/x/y/../../admin",
            "/../admin",
            "/../../admin",
            "/%2e/admin",
            "/%2E%2e/admin",
            "/x/%2e%2e/admin",
            "/x/.%2e/admin",
            "/x/%2e./admin",
            "/%61dmin",
            "/%61%64%6d%69%6e",
            "/ad%6Din",
            "/admin%2f",
            "/admin%2Fx",
            "/%2fadmin",
            "/x%2f..%2fadmin",
            "/x/..%2fadmin",
            "/x/%2e%2e%2fadmin",
            "/x/..%5cadmin",
            "/x\\..\\admin",
            "/\\admin",
            "\\admin",
            "/%5cadmin",
            "/admin%5cx",
            "/admin\\x",
            "/admin%00",
            "/admin%00x",
            "/admin%00/x",
            "/admin;x",
            "/admin;/x",
            "/;/admin",
            "/;x/admin",
            "/x/..;/admin",
            "/x/..;a=b/admin",
            "/.;/admin",
            "/x/%2e%2e;/admin",
            "/x/..%3b/admin",
            "/admin%3bx",
            "/admin/.",
            "/admin/..;/admin",
            "/admin/x/..",
            "/admin?x",
            "/admin/?x",
            "/admin%3fx",
            "/admin%23x",
            "/admin#x",
            "/x/..%00/admin",
            "/%00/admin",
            "/./../.././admin",
            "/x/./../admin",
            "/%2e%2e/%2e%2e/admin",
            "/x//../admin",
            "/x//../../admin",
            "http://test.example/admin",
            "http://test.example//admin",
            "http://test.example/x/../admin",
            "/admin%",
            "/admin%2",
            "/admin%zz",
            "/%c0%af/../admin",
            "/x/..%c0%afadmin",
            "/%u002e%u002e/admin",
            "/x/%252e%252e/admin",
            "/%2561dmin",
        ]
        .map(str::to_owned)
        .to_vec();
        // All combinations from a small grammar.
        for before in ["/", "//", "/x/../", "/x/%2e%2e/", "/x/..;/", "/x%2f../", "/./"] {
            for name in ["admin", "%61dmin", "admi%6E"] {
                for after in ["", "/", "//", "/.", "/./x", "%2f", ";a", "/x/..", "%5c..", "%00"] {
                    spellings.push(format!("{before}{name}{after}"));
                }
            }
        }
        let mut client = gateway.client();
        for spelling in &spellings {
            let before = origin.count();
            client.send(format!("GET {spelling} HTTP/1.1\r\nHost: test.example\r\n\r\n"));
            let response = client.response();
            match response.status {
                200 => {
                    let target = origin.requests().pop().expect("a request").target;
                    assert!(
                        !forbidden(&lenient(&target, paths.contains("keep"), !paths.contains("merge"))),
                        "{paths}: {spelling} reached the origin as {target}"
                    );
                }
                400 | 403 => assert_eq!(origin.count(), before, "{spelling}"),
                _ => panic!("{paths}: {spelling}: {response:?}"),
            }
            if response.says_close() {
                client = gateway.client();
            }
        }
    }
}

#[test]
fn the_normal_form_is_what_is_sent() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    for (sent, target) in [
        ("/", "/"),
        ("/a/b", "/a/b"),
        ("/a/b/", "/a/b/"),
        ("/a//b", "/a/b"),
        ("//a///b//", "/a/b/"),
        ("/a/./b", "/a/b"),
        ("/a/../b", "/b"),
        ("/a/b/..", "/a/"),
        ("/a/b/.", "/a/b/"),
        ("/%41%7e%2D%5f%2e%30", "/A~-_.0"),
        ("/%e4%b8%ad", "/%E4%B8%AD"),
        ("/a%20b", "/a%20b"),
        ("/a%3Fb", "/a%3Fb"),
        ("/a%3fb%23", "/a%3Fb%23"),
        ("/a%25b", "/a%25b"),
        ("/a%252e", "/a%252e"),
        ("/a:b@c!$&'()*+,=d", "/a:b@c!$&'()*+,=d"),
        ("/a;v=1/b", "/a;v=1/b"),
        ("/...", "/..."),
        ("/.a/..b/c..", "/.a/..b/c.."),
        ("/a?x=/../%2F%5c//&y=%00", "/a?x=/../%2F%5c//&y=%00"),
        ("/a?", "/a?"),
        ("/a??b", "/a??b"),
        ("/a/../b?c=/../d", "/b?c=/../d"),
    ] {
        let response = client.get(sent);
        assert_eq!(response.status, 200, "{sent}: {response:?}");
        let seen = origin.requests().pop().expect("a request").target;
        assert_eq!(seen, target, "{sent}");
        // The normal form is a fixed point.
        client.get(target);
        assert_eq!(origin.requests().pop().expect("a request").target, target);
    }
    gateway.reconcile(&[&origin]);
}

#[test]
fn ambiguous_paths_are_refused() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    for path in [
        "/..",
        "/a/../../b",
        "/a/.;x/b",
        "/a/%2e.%3bx/b",
        "/a%2Fb",
        "/a%2fb",
        "/a%5Cb",
        "/a%5cb",
        "/a%00",
        "/a\\b",
        "/a%",
        "/a%2",
        "/a%zz",
        "/a%2g",
        "/a/..;/b",
        "/a%0ab",
        "/a%0d",
    ] {
        let mut client = gateway.client();
        let response = client.get(path);
        assert_eq!((response.status, response.reason()), (400, "bad_path"), "{path}");
    }
    assert_eq!(origin.count(), 0);
    gateway.reconcile(&[&origin]);
}

#[test]
fn encoded_slashes_can_be_kept_as_data() {
    let origin = Origin::ok();
    let gateway = Gateway::start(&format!(
        "paths: {{encoded_slash: keep}}\nroutes:\n  - {{match: \"/one/*\", to: [{0}]}}\n  - {{match: \"/two\", respond: 204}}\n",
        origin.address()
    ));
    let mut client = gateway.client();
    assert_eq!(client.get("/one/a%2fb%5Cc").status, 200);
    assert_eq!(origin.request().target, "/one/a%2Fb%5Cc");
    // `%2F` is no separator, so the path is neither below /one nor below /two.
    assert_eq!(client.get("/one%2Fx").status, 404);
    // An origin that decodes first would leave the directory.
    for path in ["/x%2F..%2Ftwo", "/one/..%2Ftwo", "/one/x%5c%2e%2e", "/one/%2e%2e%2fadmin"] {
        let response = client.get(path);
        assert_eq!((response.status, response.reason()), (400, "bad_path"), "{path}");
    }
}

#[test]
fn slashes_can_be_kept() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "paths: {merge_slashes: false}");
    let mut client = gateway.client();
    for (sent, target) in [("/a//b///", "/a//b///"), ("/a//../b", "/a/b"), ("/a/..//b", "//b")] {
        assert_eq!(client.get(sent).status, 200);
        assert_eq!(origin.requests().pop().expect("a request").target, target);
    }
}

#[test]
fn semicolons_can_be_refused() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "paths: {semicolon: reject}");
    let (mut http1, mut http2) = (gateway.client(), gateway.http2());
    for path in ["/admin;x", "/admin;x/y", "/admin%3bx", "/admin%3B", "/;/admin", "/a/;", "/x/..;/admin"] {
        for response in [http1.get(path), http2.get(path)] {
            assert_eq!((response.status, response.reason()), (400, "bad_path"), "{path}");
        }
    }
    assert_eq!(origin.count(), 0);
    for path in ["/admin", "/a%253bx", "/a?b;c"] {
        assert_eq!(http1.get(path).status, 200);
        assert_eq!(origin.requests().pop().expect("a request").target, path);
    }
    eventually("the log to say why", || {
        gateway.records().iter().any(|record| record["detail"] == "semicolon in the path")
    });
}

#[test]
fn check_warns_where_a_semicolon_gets_by_a_policy() {
    let admin = "- {name: admin, match: /admin/*, to: 127.0.0.1:1, policies: {ip: {allow: 10.0.0.0/8}}}";
    let warns = |text: &str| {
        let directory = std::env::temp_dir().join(format!("tollgate-e2e-semicolon-{}", std::process::id()));
        std::fs::write(&directory, format!("listen: 127.0.0.1:8080\n{text}")).expect("written");
        let ran = tollgate(&["check", directory.to_str().expect("text")]);
        std::fs::remove_file(&directory).expect("removed");
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.all().contains("/admin;x")
    };
    let open = "- {name: rest, match: /*, to: 127.0.0.1:1}";
    assert!(warns(&format!("routes:\n{admin}\n{open}\n")));
    assert!(warns(&format!("routes:\n{}\n{open}\n", admin.replace("/admin/*", "/admin"))));
    assert!(!warns(&format!("paths: {{semicolon: reject}}\nroutes:\n{admin}\n{open}\n")));
    assert!(!warns(&format!("routes:\n{admin}\n")), "no route takes it");
    let guarded = open.replace('}', ", policies: {ip: {allow: 10.0.0.0/8}}}");
    assert!(!warns(&format!("routes:\n{admin}\n{guarded}\n")), "that route has the policy too");
}
