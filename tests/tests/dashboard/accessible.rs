//! The page by axe-core, in every view and state, and by keyboard: where dialogs put the focus.

use std::path::PathBuf;

use serde_json::{Value, json};
use tollgate_tests::{Browser, Gateway, Origin, binary};

use super::editing::{at, write};
use super::{Traffic, VIEWS, gateway, opened, view};

const ENTER: &str = "\u{E007}";
const ESCAPE: &str = "\u{E00C}";

/// Returns the source of axe-core, which `scripts/install-axe` installs in the target directory of the
/// gateway's binary.
fn axe() -> String {
    let target = binary().parent().and_then(|profile| profile.parent()).expect("a target folder").to_owned();
    let file: PathBuf = target.join("tools/axe/node_modules/axe-core/axe.min.js");
    std::fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("{}: {error}; run scripts/install-axe", file.display()))
}

/// Asserts that axe-core finds no violation on the page as it is now.
fn check(browser: &Browser, axe: &str, state: &str) {
    if !browser.holds("window.axe") {
        let _ = browser.script(axe);
    }
    let found = browser.script(
        "return axe.run(document, { resultTypes: ['violations'] }).then((all) => all.violations.map((one) => \
         `${one.impact} ${one.id}: ` + one.nodes.slice(0, 3).map((node) => `${node.html.slice(0, 160)} (${node.failureSummary})`).join(' | ')))",
    );
    assert_eq!(found, json!([]), "{state}");
}

/// Each of the combinations of colours and widths.
fn looks(browser: &Browser, mut look: impl FnMut(&str)) {
    for (dark, width) in [(false, 1280), (true, 1280), (false, 390), (true, 390)] {
        browser.dark(dark);
        browser.size(width, 900);
        browser.wait(&format!(
            "document.documentElement.dataset.theme === '{}'",
            if dark { "dark" } else { "light" }
        ));
        look(&format!("{width} wide, dark: {dark}"));
    }
}

#[test]
fn axe_finds_nothing_in_any_view() {
    let (axe, origin) = (axe(), Origin::named("a"));
    let gateway = gateway(&origin);
    let _traffic = Traffic::start(&gateway, &["/items/1", "/broken", "/nowhere"]);
    let browser = opened(&gateway, "en-US");
    browser.wait("document.querySelectorAll('[aria-labelledby=busiest] tbody tr').length > 2");
    looks(&browser, |look| {
        for name in VIEWS {
            view(&browser, name);
            browser.wait("!document.querySelector('main').innerText.includes('Loading')");
            check(&browser, &axe, &format!("{name}, {look}"));
        }
        at(&browser, "routes/split");
        browser.wait("document.querySelector('#resource')");
        check(&browser, &axe, &format!("a route, {look}"));
        at(&browser, "upstreams/shop");
        browser.wait("document.querySelector('#upstream-shop') && document.querySelector('#resource')");
        check(&browser, &axe, &format!("an upstream, {look}"));
    });
}

#[test]
fn axe_finds_nothing_in_states_of_error() {
    let (axe, origin) = (axe(), Origin::named("a"));
    let gateway = Gateway::start(&format!(
        "store: $DIR/store\nroutes: [{{name: fixed, match: /fixed, respond: file}}]\nupstreams: {{shop: \"{}\"}}\n",
        origin.address()
    ));
    let put = tollgate_tests::api::put;
    put(
        &gateway,
        "/routes/split",
        &json!({ "match": "/split/*", "to": [{ "upstream": "shop", "weight": 2 }] }),
    );
    put(
        &gateway,
        "/routes/split",
        &json!({ "match": "/split/*", "to": [{ "upstream": "shop", "weight": 3 }] }),
    );
    let browser = opened(&gateway, "en-US");
    looks(&browser, |look| {
        // A text with mistakes, shown with their help.
        at(&browser, "routes/+");
        browser.fill("input[name=name]", "new");
        write(&browser, "match: /new\nrespnd: x\n");
        browser.click("form.text button.primary");
        browser.wait("document.querySelector('#text-problems')?.innerText.includes('did you mean')");
        check(&browser, &axe, &format!("a text with a mistake, {look}"));
        at(&browser, "explain");
        browser.fill("input[name=url]", "ftp://example.com/");
        browser.click("form.explain button.primary");
        browser.wait("document.querySelector('label.url .field-problem')");
        check(&browser, &axe, &format!("a wrong question, {look}"));
        at(&browser, "changes/1..2");
        browser.wait("document.querySelector('.diff')");
        check(&browser, &axe, &format!("a difference, {look}"));
        browser.click("button[aria-label='Roll back to version 1']");
        browser.wait("document.querySelector('dialog .diff')");
        check(&browser, &axe, &format!("a dialog, {look}"));
        browser.keys("dialog button.icon", ESCAPE);
        browser.wait("!document.querySelector('dialog')");
        at(&browser, "routes/nothing");
        browser.wait("document.querySelector('.empty-title')");
        check(&browser, &axe, &format!("no such route, {look}"));
    });
    drop(gateway);
    browser.wait_text("Disconnected");
    looks(&browser, |look| check(&browser, &axe, &format!("without the gateway, {look}")));
}

fn focused(browser: &Browser, selector: &str) {
    browser.wait(&format!("document.activeElement.matches({})", Value::from(selector)));
}

#[test]
fn dialogs_put_the_focus_where_enter_is_safe() {
    let gateway = Gateway::start(
        "store: $DIR/store\nroutes: []\nadmin: {bind: $ADMIN, tokens: {a: {role: write, token: writer-writer-writer}}}\n",
    );
    let browser = Browser::start("en");
    browser.open(&format!("http://{}/", gateway.admin_address()));
    // The field, also after a wrong token. Enter sends it.
    focused(&browser, "dialog input[name=token]");
    browser.keys("dialog input[name=token]", &format!("wrong{ENTER}"));
    browser.wait("document.querySelector('#token-problem')");
    focused(&browser, "dialog input[name=token]");
    browser.fill("dialog input[name=token]", &format!("writer-writer-writer{ENTER}"));
    browser.wait("!document.querySelector('dialog') && document.querySelector('main .card')");

    for text in ["first", "second"] {
        let place = if text == "first" { "routes/+" } else { "routes/a" };
        at(&browser, place);
        let known = if text == "first" { "match" } else { "first" };
        browser.wait(&format!(
            "document.querySelector('form.text button.primary') && document.querySelector('.CodeMirror')?.CodeMirror.getValue().includes('{known}')"
        ));
        if text == "first" {
            focused(&browser, "input[name=name]");
            browser.fill("input[name=name]", "a");
        }
        write(&browser, &format!("match: /a\nrespond: {text}\n"));
        browser.click("form.text button.primary");
        // A change that can be rolled back: Enter applies it.
        focused(&browser, "dialog .buttons button.primary");
        browser.keys("dialog .buttons button.primary", ENTER);
        browser.wait("!document.querySelector('dialog') && location.hash === '#routes/a'");
    }
    assert_eq!(gateway.client().get("/a").text(), "second");
    at(&browser, "changes");
    browser.click("button[aria-label='Roll back to version 1']");
    focused(&browser, "dialog .buttons button:not(.primary)");
    browser.keys("dialog .buttons button:not(.primary)", ENTER);
    browser.wait("!document.querySelector('dialog')");
    focused(&browser, "button[aria-label='Roll back to version 1']");
    assert_eq!(gateway.client().get("/a").text(), "second", "nothing was rolled back");
    // Escape closes, and the focus returns.
    browser.click("button[aria-label='Roll back to version 1']");
    focused(&browser, "dialog .buttons button:not(.primary)");
    browser.keys("dialog .buttons button:not(.primary)", ESCAPE);
    browser.wait("!document.querySelector('dialog')");
    focused(&browser, "button[aria-label='Roll back to version 1']");
}

/// The header has the tabs, the version and the uptime at the widths of laptops, with one left edge.
#[test]
fn the_header_fits_laptops_and_telephones() {
    let origin = Origin::named("a");
    let gateway = gateway(&origin);
    let browser = opened(&gateway, "en-US");
    let edge = |selector: &str| {
        let edge = browser
            .script(&format!("return document.querySelector('{selector}').getBoundingClientRect().left"));
        edge.as_f64().expect("an edge")
    };
    for width in [1280, 1366, 1920] {
        browser.size(width, 768);
        let cut = browser.script(
            "return [...document.querySelectorAll('nav.tabs a, .where > *, .switches select')].filter((one) => { \
               const place = one.getBoundingClientRect(); \
               return place.width === 0 || place.left < 0 || place.right > innerWidth }).map((one) => one.innerText)",
        );
        assert_eq!(cut, json!([]), "at {width}");
        browser.wait("/\\d+\\.\\d+\\.\\d+/.test(document.querySelector('.where').innerText) && document.querySelector('.where').innerText.includes('up ')");
        let height =
            browser.script("return document.querySelector('.top').offsetHeight").as_u64().expect("a height");
        assert!(height <= 96, "the header is {height} high at {width}");
        let (brand, tabs, content) = (edge(".brand"), edge("nav.tabs a"), edge("main .tiles"));
        assert!(
            (brand - content).abs() < 1.5 && (tabs - content).abs() < 1.5,
            "{brand} {tabs} {content} at {width}"
        );
    }
    browser.size(390, 800);
    // The tabs go on beyond the edge, which cuts one, and the present one comes into sight.
    at(&browser, "changes");
    browser.wait(
        "(() => { const place = document.querySelector('nav.tabs [aria-current]').getBoundingClientRect(); \
           return place.left >= 0 && place.right <= innerWidth })()",
    );
    assert!(browser.holds("document.querySelector('nav.tabs').scrollWidth > innerWidth"));
    for name in VIEWS {
        view(&browser, name);
        browser.wait("!document.querySelector('main').innerText.includes('Loading')");
        let cut = browser.script(
            "return [...document.querySelectorAll('main td, main th, main button, main a, main input')].filter((one) => { \
               const place = one.getBoundingClientRect(); \
               return place.width > 1 && place.right > innerWidth + 1 && !one.closest('table.cards > thead') && !one.closest('.scroll')?.matches(':not(:has(table.cards))') }) \
             .map((one) => one.outerHTML.slice(0, 120))",
        );
        assert_eq!(cut, json!([]), "{name} at 390");
    }
}
