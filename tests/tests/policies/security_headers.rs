//! `security_headers`: response fields that restrict browsers.

use tollgate_tests::{Gateway, Origin};

#[test]
fn fields_that_the_upstream_omits_are_set() {
    let origin =
        Origin::fixed("HTTP/1.1 200 OK\r\nx-frame-options: SAMEORIGIN\r\nContent-Length: 2\r\n\r\nhi");
    let gateway = Gateway::with(&origin, "policies: {security_headers: on}");
    for answer in [gateway.client().get("/"), gateway.http2().get("/")] {
        assert_eq!(answer.headers.all("X-Frame-Options"), ["SAMEORIGIN"]);
        assert_eq!(answer.headers.get("X-Content-Type-Options"), Some("nosniff"));
        assert_eq!(answer.headers.get("Referrer-Policy"), Some("strict-origin-when-cross-origin"));
        assert_eq!(answer.headers.get("Content-Security-Policy"), Some("frame-ancestors 'none'"));
    }
    let policy = "policies: {security_headers: {overwrite: on, frame_options: deny, referrer_policy: off, \
        content_security_policy: \"default-src 'self'\", opener_policy: same-origin}}";
    let gateway = Gateway::with(&origin, policy);
    let answer = gateway.client().get("/");
    assert_eq!(answer.headers.all("X-Frame-Options"), ["DENY"]);
    assert_eq!(answer.headers.get("Content-Security-Policy"), Some("default-src 'self'"));
    assert_eq!(answer.headers.get("Cross-Origin-Opener-Policy"), Some("same-origin"));
    assert!(!answer.headers.has("Referrer-Policy"));
}
