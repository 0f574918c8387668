//! `intercept`: requests that the gateway answers before they reach an endpoint.

use tollgate_tests::Gateway;

const RULES: &str = r#"
routes:
  - match: /*
    respond: passed
    policies:
      intercept:
        - {path: "^/blocked", body: "not here"}
        - {path: "^/query$", location: "/{query.to}"}
        - {path: "^/old/(.*)$", replace: "/new/$1", status: 308, keep_query: on}
        - {path: "^/away/(.*)$", replace: "https://b.example/x/$1"}
        - {path: "25", replace: ""}
"#;

#[test]
fn a_redirect_leads_where_the_rule_says() {
    let gateway = Gateway::start(RULES);
    for (target, status, location) in [
        ("/other", 200, None),
        ("/blocked/x", 403, None),
        ("/old/a%20b?c=d", 308, Some("/new/a%20b?c=d")),
        ("/away/a", 302, Some("https://b.example/x/a")),
        // A browser would read these as another host.
        (r"/query?to=\evil.example", 302, Some("/evil.example")),
        ("/query?to=/evil.example", 302, Some("/evil.example")),
        (r"/query?to=/\/evil.example", 302, Some("/evil.example")),
    ] {
        let response = gateway.client().get(target);
        assert_eq!((response.status, response.header("Location")), (status, location), "{target}");
        let response = gateway.http2().get(target);
        assert_eq!((response.status, response.header("Location")), (status, location), "HTTP/2: {target}");
    }
}

#[test]
fn a_replacement_keeps_to_the_rules_of_paths() {
    let gateway = Gateway::start(RULES);
    for target in ["/%252e/a", "/a%252fb", "/%2500"] {
        let response = gateway.client().get(target);
        assert_eq!(
            (response.status, response.header("Tollgate-Reason")),
            (400, Some("bad_path")),
            "{target}"
        );
    }
}
