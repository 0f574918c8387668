//! The page does not offer actions that the token's role does not permit.

use tollgate_tests::{Browser, Gateway, Origin};

use super::editing::at;
use super::view;

const READER: &str = "reader-reader-reader";
const WRITER: &str = "writer-writer-writer";

pub(super) fn give(browser: &Browser, token: &str) {
    browser.wait("document.querySelector('dialog input[name=token]')");
    browser.fill("dialog input[name=token]", token);
    browser.click("dialog button.primary");
    browser.wait("!document.querySelector('dialog') && document.querySelector('main .card')");
}

#[test]
fn a_token_that_may_only_read_is_offered_no_change() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let gateway = Gateway::start(&format!(
        "store: $DIR/store\nroutes: [{{name: fixed, match: /fixed, respond: file}}]\nupstreams: {{shop: \"{}\"}}\n\
         admin: {{bind: $ADMIN, tokens: {{a: {{role: read, token: {READER}}}, b: {{role: write, token: {WRITER}}}}}}}\n",
        origin.address()
    ));
    let browser = Browser::start("en");
    browser.open(&format!("http://{}/", gateway.admin_address()));
    give(&browser, READER);
    // The page shows this once the API has reported the role.
    at(&browser, "routes/fixed");
    browser.wait_text("This token may only read.");
    for kind in ["routes", "upstreams"] {
        view(&browser, kind);
        browser.wait(&format!("document.querySelector('#{kind}') || document.querySelector('main .card')"));
        assert!(!browser.holds("document.querySelector('main a.button.primary')"), "{kind} can be added");
    }
    browser.click("button.forget");
    give(&browser, WRITER);
    view(&browser, "routes");
    browser.wait("document.querySelector('main a.button.primary')");
}
