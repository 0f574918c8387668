//! Pages with the history of a route and an upstream, listeners with their certificates, and live requests.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tollgate_tests::{Authority, Gateway, Origin};

use super::editing::{api, at};
use super::{Traffic, accessible, clean, gateway, opened, view};
use crate::tls::Files;

#[test]
fn a_route_and_an_upstream_have_charts_of_the_last_hour() {
    let origin = Origin::named("a");
    let gateway = gateway(&origin);
    let _traffic = Traffic::start(&gateway, &["/items/1", "/broken", "/nowhere"]);
    let browser = opened(&gateway, "en-US");
    at(&browser, "routes/items");
    browser.wait("document.querySelectorAll('.history-part .chart canvas').length === 2");
    browser.wait(
        "[...document.querySelectorAll('.history-part .chart')][0].querySelector('.plot').ariaLabel.includes('2xx: now ') && \
         parseFloat(document.querySelector('.history-part .legend-value').innerText) > 0",
    );
    for text in ["Requests by status", "Latency", "Endpoints", "no answer"] {
        browser.wait_text(text);
    }
    // The endpoints of its upstream, with their state.
    browser.wait(&format!(
        "document.querySelector('[aria-labelledby=route-endpoints]').innerText.includes('{}')",
        origin.address()
    ));
    for scale in ["log", "clip", "linear"] {
        browser.choose("select[name=scale]", scale);
        browser.wait("document.querySelectorAll('.history-part .chart canvas').length === 2");
    }
    browser.choose("select[name=span]", "3600");
    browser.wait("document.querySelector('.history-part .plot').ariaLabel.includes('last 60 min')");
    browser.click("button[aria-label='Zoom in']");
    browser.wait("document.querySelector('.history-part .plot').ariaLabel.includes('last 30 min')");
    browser.click(".history-tools .zoom button:last-child");
    browser.wait("document.querySelector('.history-part .plot').ariaLabel.includes('last 60 min')");
    accessible(&browser, "a route");
    browser.size(390, 800);
    accessible(&browser, "a route on a small screen");

    // Failed attempts of an upstream, with their reasons.
    at(&browser, "upstreams/gone");
    browser.wait("document.querySelector('[aria-labelledby=history-reasons]')?.innerText.includes('connection_refused')");
    accessible(&browser, "an upstream");
    clean(&browser, &gateway);

    let of = |query: &str| api(&gateway, "GET", &format!("/live/history{query}"), "");
    let items = of("?scope=route&name=items");
    let rows = items["time"].as_array().expect("times").len();
    assert!(rows > 0 && items["codes"]["2xx"].as_array().is_some_and(|all| all.len() == rows), "{items}");
    assert!(items["requests"].as_array().is_some_and(|all| all.iter().any(|one| one.as_f64() > Some(1.0))));
    let gone = of("?scope=upstream&name=gone");
    assert!(
        gone["failures"].as_array().is_some_and(|all| all.iter().any(|one| one.as_f64() > Some(0.0))),
        "{gone}"
    );
    assert!(gone["reasons"]["connection_refused"].as_u64() > Some(0), "{gone}");
    let all = of("");
    assert!(all["attempts"].as_array().is_some_and(|all| !all.is_empty()) && all["kept"] == true, "{all}");
    assert_eq!(of("?scope=route&name=none")["kept"], false);
    assert_eq!(of(&format!("?after={}", all["time"][0]))["time"][0], all["time"][1]);
    for (query, word) in
        [("scope=all", "`gateway`, `route` or `upstream`"), ("scope=route", "missing"), ("name=x", "needs")]
    {
        let answer = gateway.admin(&format!("/api/v1/live/history?{query}"));
        assert!(answer.status == 400 && answer.text().contains(word), "{query}: {}", answer.text());
    }
}

#[test]
fn listeners_are_shown_with_certificates_and_their_expiry() {
    let (files, authority) = (Files::new(), Authority::new());
    files.put("good", &authority.issue_until(&["good.example", "www.good.example"], 90));
    files.put("soon", &authority.issue_until(&["soon.example"], 3));
    files.write("ca.pem", &authority.pem());
    let path = files.path().display();
    let gateway = Gateway::start(&format!(
        "listen:\n  - {{bind: $LISTEN, tls: {{certificates: [{{{}}}, {{{}}}], min_version: 1.3, \
         client_certificates: {{ca: {path}/ca.pem}}}}}}\n  - {{bind: \"127.0.0.1:0\", http2: off, redirect_to_https: on}}\n\
         admin: {{bind: $ADMIN, prometheus: \"http://127.0.0.1:9090/\"}}\nroutes: [{{match: /x, respond: x}}]\n",
        files.pair("good"),
        files.pair("soon")
    ));
    let browser = opened(&gateway, "en-US");
    view(&browser, "listeners");
    for text in ["good.example", "soon.example", "TLS 1.3 or later", "plain text", "HTTP/2, HTTP/1.1"] {
        browser.wait_text(text);
    }
    browser.wait_text("Clients need a certificate of");
    browser.wait("document.querySelector('.certificate .pill.good').innerText.match(/expires in (89|90) d/)");
    browser.wait("document.querySelector('.certificate .pill.warn').innerText.match(/expires in [23] d/)");
    accessible(&browser, "listeners");
    browser.size(390, 800);
    accessible(&browser, "listeners on a small screen");
    clean(&browser, &gateway);

    assert_eq!(api(&gateway, "GET", "", "")["prometheus"], "http://127.0.0.1:9090");
    let found = api(&gateway, "GET", "/listeners", "");
    let (secure, plain) = (&found["items"][0], &found["items"][1]);
    assert_eq!(secure["protocols"], json!(["h2", "http/1.1"]));
    assert_eq!((&plain["protocols"], &plain["tls"]), (&json!(["http/1.1"]), &Value::Null));
    assert_eq!(plain["redirect_to_https"], json!({"status": 308, "port": 443}));
    let certificate = &secure["tls"]["certificates"][0];
    assert_eq!(certificate["names"], json!(["DNS:good.example", "DNS:www.good.example"]));
    assert!(certificate["file"].as_str().is_some_and(|file| file.ends_with("good.pem")), "{certificate}");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
    let left = certificate["not_after"].as_f64().expect("a time") - now;
    assert!((88.0..91.0).contains(&(left / 86_400.0)), "{left}");
    assert_eq!(secure["tls"]["client"]["required"], true);
    assert!(secure["tls"]["client"]["authorities"][0]["subject"].as_str().is_some_and(|it| !it.is_empty()));
    assert!(!found.to_string().contains("PRIVATE"));
}

#[test]
fn live_requests_appear_step_by_step() {
    let origin = Origin::named("a");
    let gateway = gateway(&origin);
    let _traffic = Traffic::start(&gateway, &["/items/1?key=secret", "/broken", "/nowhere"]);
    let browser = opened(&gateway, "en-US");
    view(&browser, "requests");
    browser.fill("input[name=route]", "items");
    browser.click("form.requests button.primary");
    browser.wait("document.querySelectorAll('table.requests tbody tr').length > 2");
    assert!(browser.holds("[...document.querySelectorAll('table.requests tbody tr')].every((row) => row.innerText.includes('items'))"));
    assert!(!browser.text("table.requests").contains("secret"));
    browser.click("button.pause");
    browser.wait_text("Paused,");
    let shown = browser.script("return document.querySelectorAll('table.requests tbody tr').length");
    browser.click("table.requests tbody button.link");
    browser.wait("document.querySelector('.steps')?.innerText.includes('attempt')");
    for text in ["connection", "route", "response", "end"] {
        assert!(browser.text(".steps").contains(text), "{text} in {}", browser.text(".steps"));
    }
    accessible(&browser, "live requests");
    // The page stopped following: the list does not move, and the gateway has no follower.
    tollgate_tests::eventually("no follower", || {
        gateway.metrics().sum("tollgate_trace_followers", "") == Some(0.0)
    });
    let after = browser.script("return document.querySelectorAll('table.requests tbody tr').length");
    assert_eq!(after.as_u64(), shown.as_u64().map(|rows| rows + 1), "the steps are a row too");
    // A status, and an invalid one.
    browser.fill("input[name=route]", "");
    browser.click("form.requests .buttons button:nth-child(2)");
    browser.fill("input[name=status]", "502");
    browser.click("form.requests button.primary");
    browser.wait("document.querySelector('table.requests tbody tr')?.innerText.includes('/broken')");
    assert!(!browser.text("table.requests").contains("/items"));
    browser.size(390, 800);
    accessible(&browser, "live requests on a small screen");
    browser.fill("input[name=status]", "many");
    browser.click("form.requests button.primary");
    browser.wait("document.querySelector('main [role=alert]')?.innerText.includes('status')");
    let complaints = browser.complaints();
    assert!(complaints.iter().all(|line| line.contains("400")), "{complaints:?}");
}
