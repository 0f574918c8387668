//! The history of changes, the difference between two versions, and the rollback.

use serde_json::json;
use tollgate_tests::Origin;

use super::editing::{api, apply, at, stored};
use super::{accessible, clean, opened, view};

#[test]
fn the_history_shows_what_was_changed_and_leads_back() {
    let (one, two) = (Origin::named("one"), Origin::named("two"));
    let gateway = stored(&one, &two);
    let browser = opened(&gateway, "en-US");
    view(&browser, "changes");
    browser.wait_text("Nothing was changed yet.");
    for (number, text) in ["first", "second", "third"].iter().enumerate() {
        api(&gateway, "PUT", "/routes/a", &json!({"match": "/a", "respond": text}).to_string());
        // The page updates without a reload.
        browser.wait(&format!("document.querySelectorAll('.history tbody tr').length === {}", number + 1));
    }
    let newest = browser.text(".history tbody tr");
    assert!(
        newest.starts_with('3') && newest.contains("local") && newest.contains("put routes/a"),
        "{newest}"
    );
    assert!(newest.contains("in force") && !newest.contains("Roll back"), "{newest}");

    // The changes of one version, and the difference between any two.
    browser.click("a[href='#changes/2']");
    browser.wait("document.querySelector('.diff')?.innerText.includes('respond: second')");
    assert!(browser.text(".diff").contains("respond: first"));
    browser.fill("input[name=from]", "1");
    browser.fill("input[name=to]", "3");
    browser.click("form.compare button");
    browser.wait("location.hash === '#changes/1..3' && document.querySelector('.diff')?.innerText.includes('respond: third')");
    assert!(!browser.text(".diff").contains("second"));
    accessible(&browser, "the history");
    at(&browser, "changes/0..9");
    browser.wait(
        "[...document.querySelectorAll('[role=alert]')].some((one) => one.innerText.includes('version 9'))",
    );

    // A rollback after a look at the difference, and the rollback of that.
    let back = "button[aria-label='Roll back to version 1']";
    browser.click(back);
    browser.wait("document.querySelector('dialog .diff')");
    assert_eq!(gateway.client().get("/a").text(), "third", "only looked at yet");
    browser.click("dialog .buttons button:not(.primary)");
    browser.wait("!document.querySelector('dialog')");
    assert_eq!(gateway.client().get("/a").text(), "third", "it was called off");
    browser.click(back);
    apply(&browser, &["removed: −respond: third", "added: +respond: first"]);
    assert_eq!(gateway.client().get("/a").text(), "first");
    browser.wait("document.querySelector('.history tbody tr').innerText.includes('rollback to version 1')");
    browser.click("button[aria-label='Roll back to version 3']");
    apply(&browser, &["removed: −respond: first", "added: +respond: third"]);
    assert_eq!(gateway.client().get("/a").text(), "third");
    // The browser itself logs the 404 of the version that does not exist.
    let complaints = browser.complaints();
    assert!(complaints.iter().all(|line| line.contains("404")), "{complaints:?}");
    clean(&browser, &gateway);
}
