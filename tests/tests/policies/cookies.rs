//! `cookies`: attributes of the cookies that responses set.

use tollgate_tests::{Gateway, Origin};

#[test]
fn cookies_become_careful() {
    let origin = Origin::fixed(
        "HTTP/1.1 200 OK\r\nSet-Cookie: a=1; Path=/; samesite=None\r\nset-cookie: track=2\r\nSet-Cookie: b=3; Secure\r\n\
         Content-Length: 2\r\n\r\nhi",
    );
    let gateway = Gateway::with(
        &origin,
        "policies: {cookies: {secure: on, http_only: on, same_site: lax, remove: track}}",
    );
    let expected = ["a=1; Path=/; SameSite=Lax; Secure; HttpOnly", "b=3; SameSite=Lax; Secure; HttpOnly"];
    assert_eq!(gateway.client().get("/").headers.all("Set-Cookie"), expected);
    assert_eq!(gateway.http2().get("/").headers.all("set-cookie"), expected);
}
