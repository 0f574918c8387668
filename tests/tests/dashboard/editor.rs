//! The editor of a resource, as a person uses it by keyboard, and the forms of common edits.

use serde_json::json;
use tollgate_tests::{Authority, Browser, Gateway, Origin};

use super::editing::{api, apply, at, stored, write};
use super::{accessible, clean, opened};
use crate::tls::Files;

/// Types into the focused editor.
fn types(browser: &Browser, keys: &str) {
    browser.keys(".CodeMirror textarea", keys);
}

/// Waits until the editor's text is this.
fn wait_value(browser: &Browser, text: &str) {
    browser.wait(&format!("document.querySelector('.CodeMirror').CodeMirror.getValue() === {}", json!(text)));
}

#[test]
fn the_editor_completes_and_checks() {
    let (one, two) = (Origin::named("one"), Origin::named("two"));
    let gateway = stored(&one, &two);
    let browser = opened(&gateway, "en-US");
    at(&browser, "routes/+");
    browser.fill("input[name=name]", "typed");
    write(&browser, "");
    let _ = browser.script("document.querySelector('.CodeMirror').CodeMirror.focus()");
    // Ctrl+Space lists the keys of a route, each with its description.
    types(&browser, "\u{E009} \u{E000}");
    browser.wait("[...document.querySelectorAll('.CodeMirror-hint strong')].some((one) => one.innerText === 'respond')");
    browser.wait(
        "[...document.querySelectorAll('.CodeMirror-hint span')].every((one) => one.innerText.length > 0)",
    );
    accessible(&browser, "the completion");
    // Typing narrows the list, and Enter takes the first entry.
    types(&browser, "resp");
    browser.wait("document.querySelectorAll('.CodeMirror-hint').length === 1");
    types(&browser, "\u{E007}");
    wait_value(&browser, "respond: ");
    types(&browser, "hello\u{E007}mat");
    browser.wait("document.querySelector('.CodeMirror-hint-active strong')?.innerText === 'match'");
    types(&browser, "\u{E007}/typed\u{E007}");
    wait_value(&browser, "respond: hello\nmatch: /typed\n");
    // The gateway checks the text without a click, and the line is marked.
    types(&browser, "polices: x");
    browser.wait(
        "document.querySelector('.CodeMirror .wrong .CodeMirror-linenumber')?.innerText === '3' && \
         document.querySelector('#text-problems').innerText.includes('unknown key `polices`')",
    );
    accessible(&browser, "an error");
    write(&browser, "respond: hello\nmatch: /typed\n");
    browser
        .wait("!document.querySelector('#text-problems') && !document.querySelector('.CodeMirror .wrong')");
    // Tab indents; Escape and Tab leave the editor.
    types(&browser, "\u{E004}");
    wait_value(&browser, "  respond: hello\nmatch: /typed\n");
    browser.wait("document.querySelector('.CodeMirror').contains(document.activeElement)");
    // Without a problem, whose button would be the next stop.
    write(&browser, "respond: hello\nmatch: /typed\n");
    browser.wait("!document.querySelector('#text-problems')");
    types(&browser, "\u{E00C}\u{E004}");
    browser.wait("document.activeElement.matches('form.text button.primary')");
    browser.click("form.text button.primary");
    apply(&browser, &["added: +respond: hello"]);
    assert_eq!(gateway.client().get("/typed").text(), "hello");
    let complaints = browser.complaints();
    assert!(complaints.iter().all(|line| line.contains("422")), "{complaints:?}");
}

#[test]
fn a_plain_field_stands_in_for_an_editor_that_cannot_be_loaded() {
    let (one, two) = (Origin::named("one"), Origin::named("two"));
    let gateway = stored(&one, &two);
    let browser = opened(&gateway, "en-US");
    // As if the library did not arrive.
    let _ = browser.script("document.head.append = (element) => setTimeout(() => element.onerror())");
    at(&browser, "routes/+");
    browser.fill("input[name=name]", "plain");
    browser.fill("textarea[name=text]", "match: /plain\nrespond: field\n");
    browser.click("form.text button.primary");
    apply(&browser, &["added: +respond: field"]);
    assert_eq!(gateway.client().get("/plain").text(), "field");
}

#[test]
fn a_route_is_duplicated_and_a_slider_sets_the_share_of_a_canary() {
    let (one, two) = (Origin::named("one"), Origin::named("two"));
    let gateway = stored(&one, &two);
    api(&gateway, "PUT", "/routes/first", &json!({"match": "/first", "respond": "both"}).to_string());
    let browser = opened(&gateway, "en-US");
    at(&browser, "routes/first");
    browser.wait("document.querySelector('.CodeMirror')?.CodeMirror.getValue().includes('/first')");
    browser.click("button.copy");
    browser.wait("location.hash === '#routes/+' && document.querySelector('input[name=name]')");
    browser.wait("document.querySelector('.CodeMirror')?.CodeMirror.getValue().includes('/first')");
    browser.fill("input[name=name]", "second");
    write(&browser, "match: /second\nto: [one, two]\n");
    browser.click("form.text button.primary");
    apply(&browser, &["added: +match: /second"]);
    // 50 steps of the slider to the left, from one half to nothing.
    browser.wait("document.querySelector('input[name=share]')?.value === '50'");
    browser.keys("input[name=share]", "\u{E012}".repeat(40).as_str());
    browser.wait("document.querySelector('input[name=weight-1]').value === '10'");
    browser.click("form.weights button.primary");
    apply(&browser, &["added: + weight: 90", "added: + weight: 10"]);
    assert_eq!(api(&gateway, "GET", "/routes/second", "")["to"][1]["weight"], 10);
    clean(&browser, &gateway);
}

#[test]
fn an_endpoint_drains_by_a_click() {
    let (one, two) = (Origin::named("one"), Origin::named("two"));
    let gateway = stored(&one, &two);
    let (first, second) = (one.address().to_string(), two.address().to_string());
    api(&gateway, "PUT", "/upstreams/both", &json!([first, second]).to_string());
    api(&gateway, "PUT", "/routes/split", "{\"match\": \"/split/*\", \"to\": \"both\"}");
    let browser = opened(&gateway, "en-US");
    at(&browser, "upstreams/both");
    browser.click(&format!("button[aria-label='Drain {first}']"));
    apply(&browser, &["added: + drain: \"on\""]);
    let before = one.requests().len();
    for _ in 0..20 {
        assert_eq!(gateway.client().get("/split/x").status, 200);
    }
    assert_eq!(one.requests().len(), before, "the drained endpoint got a request");
    browser.click(&format!("button[aria-label='Use {first} again']"));
    apply(&browser, &["removed: − drain: \"on\""]);
    assert_eq!(api(&gateway, "GET", "/upstreams/both", ""), json!([first, second]));
    clean(&browser, &gateway);
}

#[test]
fn a_generated_key_is_shown_once_and_opens_the_route() {
    let gateway = Gateway::start(
        "store: $DIR/store\nroutes: [{name: locked, match: /locked, respond: open, policies: {api_key: on}}]\n",
    );
    let browser = opened(&gateway, "en-US");
    at(&browser, "consumers/+");
    browser.fill("input[name=name]", "alice");
    browser.click("button.make-key");
    browser.wait("document.querySelector('input.made-key')?.value.length === 43");
    let key = browser.script("return document.querySelector('input.made-key').value");
    browser.click("form.text button.primary");
    browser.wait("document.querySelector('dialog .diff')");
    browser.click("dialog button.primary");
    browser.wait("location.hash === '#consumers/alice' && !document.querySelector('input.made-key')");
    let ask = |key: &str| {
        gateway.client().ask(format!("GET /locked HTTP/1.1\r\nHost: a\r\nX-API-Key: {key}\r\n\r\n")).status
    };
    assert_eq!((ask(key.as_str().expect("a text")), ask("another")), (200, 401));
    let forms = browser.script(
        "return import('/dashboard/forms.js').then(({ withKey }) => ['', 'api_keys: a\\n', 'api_keys: [a, b]\\n', \
         'groups: x\\napi_keys:\\n  - a\\n', 'groups: [dev]\\napi_keys: sha256:\\n'].map((text) => withKey(text, 'NEW')))",
    );
    assert_eq!(
        forms,
        json!([
            "api_keys: NEW\n",
            "api_keys: [a, NEW]\n",
            "api_keys: [a, b, NEW]\n",
            "groups: x\napi_keys:\n  - NEW\n  - a\n",
            "groups: [dev]\napi_keys: NEW\n"
        ])
    );
    clean(&browser, &gateway);
}

#[test]
fn a_certificate_is_uploaded_from_files() {
    let (files, authority) = (Files::new(), Authority::new());
    files.put("first", &authority.issue(&["first.example"]));
    files.put("next", &authority.issue(&["next.example"]));
    let gateway = Gateway::start(&format!(
        "listen: {{bind: $LISTEN, tls: {{{}}}}}\nstore: $DIR/store\nroutes: [{{match: /x, respond: x}}]\n",
        files.pair("first")
    ));
    let browser = opened(&gateway, "en-US");
    at(&browser, "certificates/+");
    browser.fill("input[name=name]", "next");
    browser.wait("document.querySelector('.CodeMirror')");
    for (field, file) in [("certificate", "next.pem"), ("key", "next.key")] {
        browser.keys(&format!("input[name=file-{field}]"), files.path().join(file).to_str().expect("a path"));
        browser.wait(&format!(
            "document.querySelector('.CodeMirror').CodeMirror.getValue().match(/^{field}: [|]\\n(  .*\\n)+  -----END/m)"
        ));
    }
    browser.click("form.text button.primary");
    browser.wait("document.querySelector('dialog .diff')");
    browser.click("dialog button.primary");
    browser.wait("location.hash === '#certificates/next'");
    // The listener has both now.
    at(&browser, "listeners");
    for text in ["first.example", "next.example", "TLS 1.2 or later", "HTTP/2, HTTP/1.1"] {
        browser.wait_text(text);
    }
}
