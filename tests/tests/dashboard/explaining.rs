//! The policies that would evaluate a request, in their order, and their verdicts.

use tollgate_tests::Gateway;

use super::{accessible, clean, opened, view};

#[test]
fn policies_are_shown_in_order_with_their_verdicts() {
    let gateway = Gateway::start(
        "routes:\n  - {name: inner, match: \"/inner/*\", respond: here, policies: {ip: {allow: [10.0.0.0/8]}, \
         rate_limit: {rate: 3/s}}}\npolicies: {headers: {response: {set: {X-Served-By: us}}}}\n",
    );
    let browser = opened(&gateway, "en-US");
    let verdicts = |from: &str| {
        view(&browser, "explain");
        browser.fill("input[name=url]", "/inner/1");
        browser.fill("input[name=from]", from);
        browser.click("form.explain button.primary");
        browser.wait("document.querySelector('table.policies')");
        // Waits for the answer to this question; the previous one is still on the page.
        let refused = if from.starts_with("10.") { "" } else { "!" };
        browser.wait(&format!("{refused}!document.querySelector('.verdict .alert.bad')"));
        let rows = browser.script(
            "return [...document.querySelectorAll('table.policies tbody tr')].map((row) => \
             [row.children[0], row.children[1], row.children[4]].map((cell) => cell.innerText.trim()).join(' '))",
        );
        serde_json::from_value::<Vec<String>>(rows).expect("texts")
    };
    let inside = verdicts("10.1.2.3");
    assert_eq!(inside, ["1 ip continues", "2 rate_limit continues", "3 headers continues"]);
    let outside = verdicts("192.0.2.1");
    assert_eq!(outside[0], "1 ip ends here");
    assert_eq!(outside[1], "2 rate_limit not reached");
    accessible(&browser, "explain");
    clean(&browser, &gateway);
}
