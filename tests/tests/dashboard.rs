//! The dashboard in a real browser: every view with live traffic, bad input, languages and colours, and which
//! hosts it contacts.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;
use tollgate_tests::{Browser, Gateway, Origin, refused_address};

mod accessible;
mod caching;
mod editing;
mod editor;
mod explaining;
mod history;
mod lists;
mod pages;
mod pictures;

mod roles;

const VIEWS: [&str; 13] = [
    "routes",
    "upstreams",
    "listeners",
    "streams",
    "consumers",
    "certificates",
    "policies",
    "cache",
    "capacity",
    "explain",
    "requests",
    "changes",
    "overview",
];

/// Repeated requests until the drop.
struct Traffic {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Traffic {
    fn start(gateway: &Gateway, paths: &'static [&'static str]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (mut client, stopped) = (gateway.client(), stop.clone());
        let thread = thread::spawn(move || {
            for path in paths.iter().cycle() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                client.get(path);
                thread::sleep(Duration::from_millis(5));
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || ended.is_none_or(|ended| ended.is_ok()), "the traffic broke");
    }
}

fn gateway(origin: &Origin) -> Gateway {
    Gateway::start(&format!(
        "workers: 2\nroutes:\n\
         \x20 - {{name: items, match: \"/items/*\", to: shop}}\n\
         \x20 - {{name: split, match: \"/split/*\", to: [{{upstream: shop, weight: 3}}, {{upstream: other, weight: 1}}]}}\n\
         \x20 - {{name: broken, match: /broken, to: gone}}\n\
         \x20 - {{name: moved, match: /old, redirect: {{path: /new, status: 301}}}}\n\
         limits: {{connections: 500}}\n\
         upstreams:\n  shop: {{endpoints: \"{0}\", limits: {{connections: 40, requests: 20}}}}\n  other: \"{0}\"\n  gone: \"{1}\"\n",
        origin.address(),
        refused_address()
    ))
}

/// Opens the dashboard by the admin listener's address, as a person would.
fn opened(gateway: &Gateway, language: &str) -> Browser {
    let browser = Browser::start(language);
    browser.open(&format!("http://{}/", gateway.admin_address()));
    browser.wait("location.pathname === '/dashboard/' && document.querySelector('.tiles')");
    browser
}

/// Asserts that the page logged no errors and contacted only the gateway.
fn clean(browser: &Browser, gateway: &Gateway) {
    assert_eq!(browser.complaints(), Vec::<String>::new());
    let own = format!("http://{}/", gateway.admin_address());
    let others: Vec<String> = browser
        .asked()
        .into_iter()
        .filter(|url| !url.starts_with(&own) && !url.starts_with("data:") && !url.starts_with("chrome:"))
        .collect();
    assert_eq!(others, Vec::<String>::new(), "somebody else was asked");
}

fn view(browser: &Browser, name: &str) {
    browser.click(&format!("nav a[href='./#{name}']"));
    browser.wait(&format!("document.querySelector(\"nav a[href='./#{name}']\").ariaCurrent === 'page'"));
}

#[test]
fn every_view_shows_live_traffic() {
    let origin = Origin::named("a");
    let gateway = gateway(&origin);
    let _traffic =
        Traffic::start(&gateway, &["/items/1", "/items/2", "/split/x", "/broken", "/old", "/nowhere"]);
    let browser = opened(&gateway, "en-US");

    // Figures, and charts with drawn pixels.
    browser.wait("parseFloat(document.querySelector('.tile .figure').innerText) > 0");
    browser.wait("[...document.querySelectorAll('#busiest')].length === 1");
    browser.wait("document.querySelectorAll('.chart canvas').length === 4");
    browser.wait(
        "[...document.querySelectorAll('.chart')].slice(0, 2).every((chart) => { \
           const canvas = chart.querySelector('canvas'); \
           const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data; \
           const colours = new Set(); \
           for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 200) colours.add(data.slice(i, i + 3).join()); \
           return colours.size > 3 })",
    );
    browser.wait("document.querySelector('.plot').ariaLabel.includes('requests/s. all: now ')");
    browser.wait(
        "[...document.querySelectorAll('.legend-value')].some((value) => parseFloat(value.innerText) > 0)",
    );
    for text in ["items", "split", "broken", "no route", "connection_refused"] {
        browser.wait_text(text);
    }

    view(&browser, "routes");
    browser.wait(
        "[...document.querySelectorAll('tbody tr')].some((row) => row.innerText.startsWith('items') && \
                  parseFloat(row.children[1].innerText) > 0 && row.innerText.includes('ms'))",
    );
    browser.wait(
        "[...document.querySelectorAll('tbody tr')].some((row) => row.innerText.startsWith('broken') && \
                  /100\\s%/.test(row.innerText))",
    );
    browser.fill("input[type=search]", "spl");
    browser.wait("document.querySelectorAll('tbody tr').length === 1");
    browser.fill("input[type=search]", "nothing like it");
    browser.wait_text("Nothing matches");

    view(&browser, "upstreams");
    let address = origin.address().to_string();
    browser.wait_text(&address);
    browser.wait(&format!(
        "[...document.querySelectorAll('#upstream-shop')].length === 1 && \
         [...document.querySelectorAll('table.endpoints tbody tr')].some((row) => row.innerText.includes('{address}') && \
         row.innerText.includes('available') && parseFloat(row.children[4].innerText) > 0)"
    ));
    // One upstream with its definition from the file, which cannot be edited here.
    browser.click("#upstream-shop a");
    browser.wait_text("Upstream shop");
    browser.wait("document.querySelector('.CodeMirror-linenumber') && document.querySelector('.CodeMirror textarea').readOnly");
    browser.wait_text("change it there");

    view(&browser, "capacity");
    for text in ["Cores in use", "Open connections", "Open files", "Requests by HTTP/1.1", "Worker 1"] {
        browser.wait_text(text);
    }
    browser.wait(
        "[...document.querySelectorAll('#clients ~ dl dd, [aria-labelledby=clients] dd')].some((one) => one.innerText.includes('of 500'))",
    );
    browser.wait(
        "[...document.querySelectorAll('[aria-labelledby=pools] tbody tr')].some((row) => row.innerText.startsWith('shop') && \
         row.innerText.includes('of 40') && row.innerText.includes('20 requests at once'))",
    );

    view(&browser, "changes");
    browser.wait_text("names no store");
    clean(&browser, &gateway);
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for (dark, name) in [(false, "light"), (true, "dark")] {
        browser.dark(dark);
        view(&browser, "overview");
        browser.wait(&format!("document.documentElement.dataset.theme === '{name}'"));
        browser.picture(&pictures.join(format!("dashboard-{name}.png")));
    }
}

#[test]
fn explain_shows_the_route_and_rejects_invalid_requests() {
    let origin = Origin::named("a");
    let gateway = gateway(&origin);
    let browser = opened(&gateway, "en-US");
    view(&browser, "explain");
    browser.fill("input[name=url]", "/split/7?x=1");
    browser.fill("textarea", "X-Beta: yes");
    browser.click("form.explain button.primary");
    browser.wait("document.querySelector('#explain-result').innerText.includes('Taken by route')");
    let answer = browser.text("#explain-result");
    for text in ["split", "shop", "other", "75 %", "25 %", "X-Forwarded-For", "/split/7?x=1"] {
        assert!(answer.contains(text), "{text} in\n{answer}");
    }
    // The message about a mistake appears at its field, in the gateway's words.
    browser.fill("input[name=url]", "ftp://example.com/");
    browser.click("form.explain button.primary");
    browser.wait(
        "document.querySelector('label.url .field-problem')?.innerText.includes('`ftp://` is not `http://`')",
    );
    assert!(browser.holds("document.querySelector('input[name=url]').ariaInvalid === 'true'"));
    browser.fill("input[name=url]", "/split/7");
    browser.fill("textarea", "no colon here");
    browser.click("form.explain button.primary");
    browser.wait(
        "document.querySelector('label.headers .field-problem')?.innerText.includes('is not a header')",
    );
    // The browser itself logs every 422; nothing else went wrong.
    let complaints = browser.complaints();
    assert!(complaints.iter().all(|line| line.contains("422")), "{complaints:?}");
    // By keyboard only: a redirect, and a request without a route.
    browser.fill("textarea", "");
    for (url, text) in [("/old", "Redirects with 301"), ("/nowhere", "no_route")] {
        browser.fill("input[name=url]", url);
        browser.keys("input[name=url]", "\u{E007}");
        browser.wait(&format!("document.querySelector('#explain-result').innerText.includes('{text}')"));
    }
    clean(&browser, &gateway);
}

#[test]
fn two_languages_and_two_sets_of_colours() {
    let origin = Origin::named("a");
    let gateway = gateway(&origin);
    let browser = opened(&gateway, "zh-CN");
    browser.wait("document.documentElement.lang === 'zh-CN'");
    browser.wait_text("总览");
    assert_eq!(browser.script("return localStorage.length"), 0, "the browser's language is no choice");
    for name in VIEWS {
        view(&browser, name);
        // Words of the configuration and of metrics are not translated; sentences are.
        let english = browser.script("return document.body.innerText.match(/\\b(the|of|with|Requests)\\b/g)");
        assert_eq!(english, Value::Null, "{name}: {}", browser.text("body"));
    }
    browser.choose("select", "en");
    browser.wait_text("Overview");
    browser.wait("document.documentElement.lang === 'en'");
    browser.choose("label.switch:nth-of-type(2) select", "dark");
    browser.wait("document.documentElement.dataset.theme === 'dark'");
    let dark = browser.script("return getComputedStyle(document.body).backgroundColor");
    // The choice is stored for the next visit, and only a choice is.
    assert_eq!(
        browser.script("return Object.keys(localStorage).sort()"),
        serde_json::json!(["tollgate.language", "tollgate.theme"])
    );
    browser.open(&format!("http://{}/dashboard/", gateway.admin_address()));
    browser
        .wait("document.documentElement.dataset.theme === 'dark' && document.documentElement.lang === 'en'");
    browser.choose("label.switch:nth-of-type(2) select", "light");
    browser.wait("document.documentElement.dataset.theme === 'light'");
    assert_ne!(browser.script("return getComputedStyle(document.body).backgroundColor"), dark);
    clean(&browser, &gateway);
}

/// Asserts that each control has a name, ids are unique, there is one first heading, and nothing is wider
/// than the screen.
fn accessible(browser: &Browser, name: &str) {
    // Folded parts must be in order too.
    let _ =
        browser.script("document.querySelectorAll('details.fold').forEach((fold) => { fold.open = true; })");
    let nameless = browser.script(
        "return [...document.querySelectorAll('a, button, input, select, textarea, [role=img], [role=region], [role=group]')] \
         .filter((one) => !(one.ariaLabel || one.innerText?.trim() || one.labels?.[0]?.innerText.trim() \
                            || one.labels?.[0]?.textContent.trim())) \
         .map((one) => one.outerHTML.slice(0, 200))",
    );
    assert_eq!(nameless, serde_json::json!([]), "{name}");
    let twice = browser.script(
        "const ids = [...document.querySelectorAll('[id]')].map((one) => one.id); \
         return ids.filter((id, index) => ids.indexOf(id) !== index)",
    );
    assert_eq!(twice, serde_json::json!([]), "{name}");
    assert!(browser.holds("document.querySelectorAll('main h1').length === 1"), "{name}: one first heading");
    assert!(browser.holds("document.querySelector('header nav[aria-label]')"), "{name}: landmarks");
    assert!(
        browser.holds("document.documentElement.scrollWidth <= innerWidth"),
        "{name} is {} wide",
        browser.script("return document.documentElement.scrollWidth")
    );
}

/// Each control has a name, each table and chart has a text, headings and landmarks exist, and nothing is
/// wider than a telephone.
#[test]
fn it_can_be_used_by_keyboard_by_ear_and_on_a_small_screen() {
    let origin = Origin::named("a");
    let gateway = gateway(&origin);
    let _traffic = Traffic::start(&gateway, &["/items/1", "/nowhere"]);
    let browser = opened(&gateway, "en-US");
    browser.size(390, 800);
    for name in VIEWS {
        view(&browser, name);
        accessible(&browser, name);
    }
    // The first stop of the Tab key skips the navigation.
    browser.open(&format!("http://{}/dashboard/", gateway.admin_address()));
    browser.wait("document.querySelector('.tiles')");
    browser.keys("body", "\u{E004}");
    browser.wait("document.activeElement.className === 'skip'");
    browser.keys("a.skip", "\u{E007}");
    browser.wait("document.activeElement.id === 'content'");
}

#[test]
fn a_lost_gateway_is_reported() {
    let origin = Origin::named("a");
    let gateway = gateway(&origin);
    let browser = opened(&gateway, "en-US");
    browser.wait_text("Running");
    drop(gateway);
    browser.wait_text("Disconnected");
    browser.wait("[...document.querySelectorAll('[role=alert]')].some((one) => one.innerText.includes('does not answer'))");
    assert!(browser.holds("document.querySelector('.tiles')"), "what was last known stays");
}
