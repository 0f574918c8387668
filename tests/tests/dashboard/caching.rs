//! The view of the cache: its figures, the stored responses, and the purge with its confirmation.

use serde_json::json;
use tollgate_tests::{Browser, Gateway, Origin, api, eventually};

use super::{accessible, clean, opened, view};

const READER: &str = "reader-reader-reader";
const WRITER: &str = "writer-writer-writer";

fn origin() -> Origin {
    Origin::fixed(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nSurrogate-Key: shop\r\nContent-Length: 2\r\n\r\nok",
    )
}

fn gateway(origin: &Origin, file: &str) -> Gateway {
    Gateway::start(&format!(
        "routes: [{{name: shop, match: \"/*\", to: \"{}\", policies: {{cache: on}}}}]\n{file}\n",
        origin.address()
    ))
}

#[test]
fn the_stored_responses_are_shown_and_purged_after_a_question() {
    let origin = origin();
    let gateway = gateway(&origin, "");
    for target in ["/a", "/a", "/a", "/b?x=1"] {
        gateway.client().get(target);
    }
    let browser = opened(&gateway, "en-US");
    view(&browser, "cache");
    browser.wait("document.querySelectorAll('table.cache tbody tr').length === 2");
    browser.wait("document.querySelector('table.cache tbody tr code').innerText === 'http://test.example/a'");
    for text in ["Hit ratio", "50\u{a0}%", "of 256\u{a0}MiB", "shop · shop", "2 responses"] {
        browser.wait_text(text);
    }
    accessible(&browser, "the cache");
    browser.size(390, 800);
    accessible(&browser, "the cache on a small screen");
    browser.size(1280, 900);
    browser.choose("select[name=sort]", "bytes");
    browser.fill("input[name=begin]", "http://test.example/b");
    browser.wait("document.querySelectorAll('table.cache tbody tr').length === 1");
    browser.fill("input[name=begin]", "");
    browser.wait("document.querySelectorAll('table.cache tbody tr').length === 2");

    // A question first; `Cancel` keeps everything.
    browser.click("table.cache tbody tr:first-child button");
    browser.wait("document.querySelector('dialog[open]')");
    accessible(&browser, "the question before a purge");
    browser.click("dialog .buttons button:last-child");
    browser.wait("!document.querySelector('dialog')");
    assert_eq!(browser.script("return document.querySelectorAll('table.cache tbody tr').length"), 2);
    browser.choose("select[name=what]", "prefix");
    browser.fill("input[name=value]", "http://test.example/b");
    browser.click("form.purge button");
    browser.wait("document.querySelector('dialog')?.innerText.includes('http://test.example/b')");
    browser.click("dialog button.danger");
    browser.wait_text("1 stored responses purged.");
    browser.wait("document.querySelectorAll('table.cache tbody tr').length === 1");
    browser.choose("select[name=what]", "all");
    browser.click("form.purge button");
    browser.click("dialog button.danger");
    browser.wait_text("No stored response matches.");
    assert!(!browser.holds("document.querySelector('table.cache')"));
    clean(&browser, &gateway);
    gateway.client().get("/a");
    assert_eq!(origin.count(), 3, "the purged response was fetched again");
}

#[test]
fn the_disk_tier_is_shown_with_its_state_and_hits() {
    let origin = origin();
    let mut gateway = gateway(&origin, "cache: {memory: 16MiB, disk: {path: $DIR/cache, size: 64MiB}}");
    let disk = |gateway: &Gateway| api::json_of(&api::call(gateway, "GET", "/cache", "", ""))["disk"].clone();
    let await_ready = |gateway: &Gateway| {
        eventually("the disk tier", || disk(gateway)["state"] == json!("ready"));
    };
    await_ready(&gateway);
    gateway.client().get("/a");
    eventually("the write", || disk(&gateway)["objects"] == json!(1));
    gateway.kill_and_restart();
    await_ready(&gateway);
    gateway.client().get("/a");
    gateway.client().get("/a");
    let browser = opened(&gateway, "en-US");
    view(&browser, "cache");
    for text in ["Hits on disk", "serves", "of 64.0\u{a0}MiB", "Files", "Not written"] {
        browser.wait_text(text);
    }
    assert!(!browser.holds("document.querySelector('#cache-disk .alert')"));
    accessible(&browser, "the cache with its disk tier");
    eventually("the metrics", || {
        let metrics = gateway.metrics();
        metrics.sum("tollgate_cache_objects", "tier=\"disk\"") == Some(1.0)
            && metrics.sum("tollgate_cache_capacity_bytes", "tier=\"disk\"") == Some(f64::from(64 << 20))
            && metrics.sum("tollgate_cache_disk_serving", "") == Some(1.0)
    });
    let answer = api::call(
        &gateway,
        "POST",
        "/explain",
        api::JSON,
        &json!({ "method": "GET", "url": "http://test.example/a" }).to_string(),
    );
    let stores = &api::json_of(&answer)["stores"];
    assert_eq!(
        (&stores["disk"]["state"], &stores["memory"]),
        (&json!("ready"), &json!(16 << 20)),
        "{stores}"
    );
    clean(&browser, &gateway);
}

#[test]
fn a_disk_tier_that_is_off_says_since_when_and_why() {
    let origin = origin();
    let first = gateway(&origin, "cache: {memory: 16MiB, disk: {path: $DIR/cache, size: 64MiB}}");
    let folder = first.directory().join("cache");
    let path = folder.display();
    let file = format!("cache: {{memory: 16MiB, disk: {{path: \"{path}\", size: 64MiB}}}}");
    first.client().get("/a");
    let second = gateway(&origin, &file);
    second.client().get("/a");
    let browser = opened(&second, "en-US");
    view(&browser, "cache");
    for text in ["waits for the directory", "another process uses the folder", "Off since"] {
        browser.wait_text(text);
    }
    clean(&browser, &second);
}

#[test]
fn the_cache_speaks_chinese() {
    let origin = origin();
    let gateway = gateway(&origin, "cache: {memory: 16MiB, disk: {path: $DIR/cache, size: 64MiB}}");
    gateway.client().get("/a");
    let browser = opened(&gateway, "zh-CN");
    view(&browser, "cache");
    for text in ["命中率", "已存储的响应", "清除缓存", "磁盘命中", "正常服务"] {
        browser.wait_text(text);
    }
    clean(&browser, &gateway);
}

#[test]
fn a_token_that_may_only_read_sees_figures_and_no_urls() {
    let origin = origin();
    let gateway = gateway(
        &origin,
        &format!(
            "admin: {{bind: $ADMIN, tokens: {{a: {{role: read, token: {READER}}}, b: {{role: write, token: {WRITER}}}}}}}"
        ),
    );
    gateway.client().get("/a");
    let browser = Browser::start("en");
    browser.open(&format!("http://{}/dashboard/#cache", gateway.admin_address()));
    super::roles::give(&browser, READER);
    browser.wait_text("Stored URLs are shown only to a token with the role write.");
    browser.wait_text("Hit ratio");
    assert!(!browser.holds("document.querySelector('form.purge')"));
    browser.click("button.forget");
    super::roles::give(&browser, WRITER);
    browser.wait("document.querySelector('form.purge') && document.querySelectorAll('table.cache tbody tr').length === 1");
}
