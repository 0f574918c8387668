//! Long lists: the gateway pages them, the address keeps the page, and no page is high.

use std::fmt::Write as _;

use tollgate_tests::{Browser, Gateway, Origin, refused_address};

use super::editing::at;
use super::{clean, opened, view};

/// The most pixels that a page may be high.
const HEIGHT_MAX: u64 = 2_000;

/// Starts a gateway with 1,000 routes and 200 upstreams, of which one in fifty refuses connections.
pub(super) fn large(origin: &Origin) -> Gateway {
    let mut yaml = "workers: 2\nroutes:\n".to_owned();
    for number in 0..1_000 {
        let _ = writeln!(
            yaml,
            "  - {{name: route-{number:04}, match: {{host: shop{number}.example, path: \"/items/{number}/*\"}}, to: up-{:03}}}",
            number % 200
        );
    }
    let _ = writeln!(yaml, "  - {{name: plain, match: \"/plain/*\", to: up-000}}\nupstreams:");
    for number in 0..200 {
        let endpoint = if number % 50 == 9 { refused_address() } else { origin.address() };
        let _ = writeln!(
            yaml,
            "  up-{number:03}: {{endpoints: [\"{endpoint}\"], health: {{tcp: on, interval: 10m, timeout: 5s}}}}"
        );
    }
    Gateway::start(&yaml)
}

fn height(browser: &Browser) -> u64 {
    let height = browser.script("return document.documentElement.scrollHeight");
    height.as_u64().expect("a height")
}

fn rows(count: usize) -> String {
    format!("document.querySelectorAll('table.cards > tbody > tr:not(.unfolded)').length === {count}")
}

#[test]
fn a_thousand_routes_and_two_hundred_upstreams() {
    let origin = Origin::named("a");
    let gateway = large(&origin);
    let mut client = gateway.client();
    for number in [99, 50, 50] {
        client.ask(format!("GET /items/{number}/x HTTP/1.1\r\nHost: shop{number}.example\r\n\r\n"));
    }
    let browser = opened(&gateway, "en-US");
    browser.wait_text("1,001 routes");
    assert!(height(&browser) <= HEIGHT_MAX, "the overview is {} high", height(&browser));

    view(&browser, "routes");
    browser.wait(&rows(25));
    // By requests, the busiest first.
    assert!(browser.text("tbody tr th").starts_with("route-0050"), "{}", browser.text("tbody tr th"));
    assert!(height(&browser) <= HEIGHT_MAX, "the routes are {} high", height(&browser));
    browser.click("thead th:first-child button");
    browser.wait("document.querySelector('tbody tr th').innerText.startsWith('plain')");
    browser.click(".pager [data-page=next]");
    browser.wait("document.querySelector('tbody tr th').innerText.startsWith('route-0024')");
    browser.wait("document.querySelector('.pager').innerText.includes('26–50 of 1,001')");
    let hash = browser.script("return location.hash");
    assert!(
        hash.as_str().is_some_and(|hash| hash.contains("sort=name") && hash.contains("page=2")),
        "{hash}"
    );
    // The address brings the same rows again, and the way back leads to them too.
    let address = browser.script("return location.href");
    // The pager is at the end of the page, and the first row then under the header.
    let _ = browser.script("scrollTo(0, 0)");
    browser.click("tbody tr a");
    browser.wait("location.hash === '#routes/route-0024' && document.querySelector('#resource')");
    let _ = browser.script("history.back()");
    browser.wait("document.querySelector('tbody tr th')?.innerText.startsWith('route-0024')");
    browser.open(address.as_str().expect("an address"));
    browser.wait("document.querySelector('tbody tr th')?.innerText.startsWith('route-0024')");
    browser.fill("input[type=search]", "shop77.example");
    browser.wait(&rows(1));
    assert!(browser.text("[role=status].quiet").contains("1 of 1,001 routes"));
    assert!(browser.holds("location.hash.includes('q=shop77.example') && !location.hash.includes('page')"));

    view(&browser, "upstreams");
    browser.wait(&rows(25));
    assert!(height(&browser) <= HEIGHT_MAX, "the upstreams are {} high", height(&browser));
    browser.choose(".of-state select", "unhealthy");
    browser.wait(&rows(4));
    assert!(browser.holds(
        "[...document.querySelectorAll('tbody tr')].every((row) => row.innerText.includes('0 of 1'))"
    ));
    assert!(!browser.holds("document.querySelector('tr.unfolded')"), "rows are folded");
    browser.click("#upstream-up-059 button.unfold");
    browser.wait("document.querySelector('tr.unfolded')?.innerText.includes('unhealthy')");
    assert!(
        browser.holds("document.querySelector('#upstream-up-059 button.unfold').ariaExpanded === 'true'")
    );
    assert!(browser.holds("location.hash.includes('state=unhealthy') && location.hash.includes('up-059')"));
    view(&browser, "capacity");
    browser.wait(&rows(25));
    assert!(height(&browser) <= HEIGHT_MAX, "the capacity is {} high", height(&browser));

    browser.size(390, 800);
    for name in ["overview", "routes", "upstreams", "capacity"] {
        view(&browser, name);
        browser.wait("document.querySelectorAll('table.cards > tbody > tr').length > 0");
        assert!(height(&browser) <= HEIGHT_MAX, "on a telephone {name} is {} high", height(&browser));
    }
    clean(&browser, &gateway);
}

/// With 1,000 routes, the page shows something, and has the rows of its list, within a second. The best of some loads
/// counts, because tests share the machine. On a machine that is too busy even for a page of plain text, the time of
/// that page is the unit.
#[test]
fn the_first_paint_is_within_a_second() {
    let origin = Origin::named("a");
    let gateway = large(&origin);
    let browser = opened(&gateway, "en-US");
    let time = |of: &str| browser.script(&format!("return {of}")).as_f64().expect("a time");
    let painted = || {
        browser.wait("performance.getEntriesByName('first-contentful-paint').length === 1");
        time("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    };
    let (mut plain, mut paint, mut list) = (0.0_f64, f64::MAX, f64::MAX);
    for _ in 0..6 {
        browser.open(&format!("http://{}/cost", gateway.admin_address()));
        plain = plain.max(painted());
        browser.open(&format!("http://{}/dashboard/#routes", gateway.admin_address()));
        browser.wait(&rows(25));
        paint = paint.min(painted());
        list = list.min(time(
            "performance.getEntriesByType('resource').find((one) => one.name.includes('live/routes')).responseEnd",
        ));
        if list < 1_000.0 {
            break;
        }
    }
    eprintln!("first paint after {paint:.0} ms, the list after {list:.0} ms, plain text after {plain:.0} ms");
    let most = (8.0 * plain).max(1_000.0);
    assert!(paint < most && list < most, "first paint {paint} ms, list {list} ms, plain text {plain} ms");
}

/// An endpoint that was never contacted is neither good nor bad.
#[test]
fn an_endpoint_that_was_never_contacted_is_grey() {
    let origin = Origin::named("a");
    let gateway = Gateway::start(&format!(
        "routes: [{{name: items, match: \"/items/*\", to: shop}}, {{name: spare, match: /spare, to: spare}}]\n\
         upstreams: {{shop: \"{}\", spare: \"{}\"}}\n",
        origin.address(),
        refused_address()
    ));
    let browser = opened(&gateway, "en-US");
    let pill = |text: &str, class: &str| {
        browser.wait(&format!(
            "[...document.querySelectorAll('.pill')].some((pill) => pill.innerText === '{text}' && pill.className === 'pill {class}')"
        ));
    };
    browser.wait("document.querySelectorAll('.health li').length === 2");
    pill("not yet contacted", "");
    assert!(!browser.holds("document.querySelector('.health .pill.good')"), "{}", browser.text(".health"));
    gateway.client().get("/items/1");
    pill("1 of 1 available", "good");
    at(&browser, "upstreams");
    browser.wait("document.querySelectorAll('tr.unfolded').length === 2");
    pill("available", "good");
    pill("not yet contacted", "");
    clean(&browser, &gateway);
}
