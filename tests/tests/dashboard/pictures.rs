//! The pictures of the documentation: `scripts/screenshots` runs this with `PICTURES` set to `docs/`. It takes
//! over five minutes, because the charts show five minutes.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use tollgate_tests::api::put;
use tollgate_tests::{Browser, Gateway, Origin, OriginConn, refused_address};

use super::Traffic;
use super::editing::at;

/// An origin that answers after a delay, and every hundredth request with 503.
fn slow(delay: Duration) -> Origin {
    Origin::play(move |conn: &mut OriginConn| {
        let mut count = 0;
        while conn.request().is_some() {
            count += 1;
            conn.pause(delay + Duration::from_micros(count * 7919 % 4000));
            let status = if count % 100 == 0 { "503 Service Unavailable" } else { "200 OK" };
            if !conn.send(format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nok")) {
                return;
            }
        }
    })
}

fn demo(shop: &Origin, cart: &Origin, search: &Origin) -> Gateway {
    let gateway = Gateway::start(&format!(
        "workers: 2\nstore: $DIR/store\nroutes:\n\
         \x20 - {{name: items, match: \"/items/*\", to: shop}}\n\
         \x20 - {{name: search, match: \"/search\", to: search}}\n\
         \x20 - {{name: old-shop, match: \"/shop/*\", redirect: {{path: /items/, status: 301}}}}\n\
         \x20 - {{name: status, match: /status, respond: ok}}\n\
         upstreams:\n  shop: {{endpoints: [\"{}\"], limits: {{connections: 200}}}}\n  cart: [\"{}\"]\n  \
         cart-canary: [\"{}\"]\n  search: {{endpoints: [\"{}\", \"{}\"], health: {{tcp: on}}}}\n  reports: [\"{}\"]\n",
        shop.address(),
        cart.address(),
        cart.address(),
        search.address(),
        refused_address(),
        refused_address()
    ));
    let canary = |weight: u32| json!({ "match": "/cart/*", "to": [{ "upstream": "cart", "weight": 100 - weight }, { "upstream": "cart-canary", "weight": weight }] });
    for weight in [1, 5] {
        put(&gateway, "/routes/cart", &canary(weight));
    }
    put(&gateway, "/routes/reports", &json!({ "match": "/reports/*", "to": "reports" }));
    gateway
}

fn look(browser: &Browser, dark: bool, size: (u32, u32)) {
    browser.dark(dark);
    browser.size(size.0, size.1);
    browser.wait(&format!(
        "document.documentElement.dataset.theme === '{}'",
        if dark { "dark" } else { "light" }
    ));
    // The charts are drawn again, with the figures of the next second.
    thread::sleep(Duration::from_secs(2));
}

#[test]
#[ignore = "takes five minutes, and writes into the documentation"]
fn of_the_documentation() {
    let folder = PathBuf::from(std::env::var_os("PICTURES").expect("PICTURES names the folder"));
    let minutes: u64 =
        std::env::var("PICTURES_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(310);
    let (shop, cart, search) =
        (slow(Duration::from_millis(2)), slow(Duration::from_millis(5)), slow(Duration::from_millis(12)));
    let gateway = demo(&shop, &cart, &search);
    let started = Instant::now();
    let _traffic: Vec<Traffic> = [
        &["/items/1", "/items/2", "/items/3", "/cart/7", "/items/4"][..],
        &["/items/5", "/search?q=lamp", "/items/6", "/status"],
        &["/cart/1", "/items/9", "/shop/lamp", "/search?q=chair", "/nowhere"],
    ]
    .into_iter()
    .map(|paths| Traffic::start(&gateway, paths))
    .collect();
    thread::sleep(Duration::from_secs(minutes).saturating_sub(started.elapsed()));
    let browser = Browser::start("en-US");
    let open = |browser: &Browser| {
        browser.open(&format!("http://{}/dashboard/", gateway.admin_address()));
        browser.wait(
            "document.querySelector('.health li') && document.querySelectorAll('.chart canvas').length === 4",
        );
    };
    open(&browser);
    for (dark, name) in [(false, "light"), (true, "dark")] {
        look(&browser, dark, (1360, 1000));
        browser.picture(&folder.join(format!("dashboard-{name}.png")));
    }
    at(&browser, "routes/cart");
    browser.fill("input[name=weight-1]", "20");
    browser.fill("input[name=weight-0]", "80");
    browser.click("form.weights button.primary");
    browser.wait("document.querySelector('dialog .diff')");
    look(&browser, false, (1360, 860));
    browser.picture(&folder.join("dashboard-diff.png"));
    drop(browser);
    let chinese = Browser::start("zh-CN");
    open(&chinese);
    at(&chinese, "changes/1..3");
    chinese.wait("document.querySelector('.diff')");
    look(&chinese, true, (1360, 860));
    chinese.picture(&folder.join("dashboard-zh.png"));
}
