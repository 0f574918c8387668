//! `query`: parameters that the gateway adds to and removes from requests.

use tollgate_tests::{Gateway, Origin, http2};

const QUERY: &str =
    "policies: {query: {remove: debug, set: {tenant: \"{header.X-Tenant}\"}, add: {via: gateway}}}";

#[test]
fn parameters_come_and_go() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, QUERY);
    let mut client = gateway.client();
    for (sent, becomes) in [
        ("/a", "/a?tenant=t%26x&via=gateway"),
        ("/a?x=1&debug=2&%64ebug&tenant=other&via=me", "/a?x=1&via=me&tenant=t%26x&via=gateway"),
        ("/./b?debug", "/b?tenant=t%26x&via=gateway"),
        ("http://a/c?x", "/c?x&tenant=t%26x&via=gateway"),
    ] {
        client.ask(format!("GET {sent} HTTP/1.1\r\nHost: a\r\nX-Tenant: t&x\r\n\r\n"));
        assert_eq!(origin.requests().last().expect("a request").target, becomes, "{sent}");
    }
    gateway.http2().ask(http2::request("GET", "/d?debug=1", &[("x-tenant", "t")]));
    assert_eq!(origin.requests().last().expect("a request").target, "/d?tenant=t&via=gateway");
    gateway.reconcile(&[&origin]);
}

#[test]
fn a_query_may_go_altogether() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "policies: {query: {remove: [a, b]}}");
    gateway.client().get("/x?a=1&b=2");
    assert_eq!(origin.request().target, "/x");
}
