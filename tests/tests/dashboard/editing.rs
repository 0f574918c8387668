//! Changes of the configuration on the page: it shows the difference first, and reports a problem at its
//! field.

use serde_json::{Value, json};
use tollgate_tests::{Browser, Client, Gateway, Origin};

use super::{accessible, clean, opened, view};

/// Starts a gateway with a store and two upstreams.
pub(super) fn stored(one: &Origin, two: &Origin) -> Gateway {
    Gateway::start(&format!(
        "workers: 2\nstore: $DIR/store\nroutes: [{{name: fixed, match: /fixed, respond: file}}]\n\
         upstreams: {{one: \"{}\", two: \"{}\"}}\n",
        one.address(),
        two.address()
    ))
}

/// Sends a request to the admin API, as another person's program would.
pub(super) fn api(gateway: &Gateway, method: &str, path: &str, body: &str) -> Value {
    let mut client = Client::connect(gateway.admin_address(), std::sync::Arc::default());
    let length = body.len();
    let answer = client.ask(format!(
        "{method} /api/v1{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    ));
    assert!(answer.status < 300, "{answer:?}");
    serde_json::from_str(&answer.text()).expect("JSON")
}

/// Creates the route `split`, which sends everything to `one`.
pub(super) fn split(gateway: &Gateway) {
    let to = json!([{"upstream": "one", "weight": 1}, {"upstream": "two", "weight": 0}]);
    api(gateway, "PUT", "/routes/split", &json!({"match": "/split/*", "to": to}).to_string());
}

/// Goes to a place of the page, as a link does.
pub(super) fn at(browser: &Browser, place: &str) {
    let _ = browser.script(&format!("location.hash = {}", json!(place)));
}

/// Replaces the text of the editor. Keys would be indented by it: `the_editor_completes_and_checks` types.
pub(super) fn write(browser: &Browser, text: &str) {
    browser.wait("document.querySelector('.CodeMirror')");
    let _ = browser
        .script(&format!("document.querySelector('.CodeMirror').CodeMirror.setValue({})", json!(text)));
}

/// Waits for the dialog with the difference, which must contain these lines, and confirms it.
pub(super) fn apply(browser: &Browser, lines: &[&str]) {
    browser.wait("document.querySelector('dialog .diff')");
    let shown = browser.script(
        "return [...document.querySelectorAll('dialog .diff .line')].map((line) => line.textContent.replace(/\\s+/g, ' ').trim())",
    );
    for line in lines {
        assert!(shown.as_array().is_some_and(|all| all.contains(&json!(line))), "{line} in {shown}");
    }
    browser.click("dialog button.primary");
    browser.wait("!document.querySelector('dialog')");
    browser
        .wait("document.querySelector('.alert.good[role=status]').innerText.includes('In force: version')");
}

/// Returns how many of 40 requests went to each origin.
fn shares(gateway: &Gateway, one: &Origin, two: &Origin) -> (usize, usize) {
    let before = (one.requests().len(), two.requests().len());
    for number in 0..40 {
        // One connection for each request, so that every worker gets some.
        assert_eq!(gateway.client().get(&format!("/split/{number}")).status, 200);
    }
    (one.requests().len() - before.0, two.requests().len() - before.1)
}

#[test]
fn a_weight_that_is_changed_shifts_the_traffic_once_it_is_applied() {
    let (one, two) = (Origin::named("one"), Origin::named("two"));
    let gateway = stored(&one, &two);
    split(&gateway);
    assert_eq!(shares(&gateway, &one, &two), (40, 0));
    let browser = opened(&gateway, "en-US");
    view(&browser, "routes");
    browser.click("a[href='#routes/split']");
    browser.fill("input[name=weight-1]", "3");
    browser.wait("[...document.querySelectorAll('.weights .share')].map((one) => parseInt(one.innerText)).join() === '25,75'");
    browser.click("form.weights button.primary");
    browser.wait("document.querySelector('dialog .diff')");
    accessible(&browser, "the difference");
    assert_eq!(shares(&gateway, &one, &two), (40, 0), "only looked at yet");
    apply(&browser, &["removed: − weight: 0", "added: + weight: 3"]);
    let (left, right) = shares(&gateway, &one, &two);
    assert!((5..=15).contains(&left) && left + right == 40, "{left} and {right}, not 10 and 30");
    browser.wait_text("in the store, version 2");
    clean(&browser, &gateway);
}

#[test]
fn a_route_is_disabled_and_enabled() {
    let (one, two) = (Origin::named("one"), Origin::named("two"));
    let gateway = stored(&one, &two);
    split(&gateway);
    let browser = opened(&gateway, "en-US");
    at(&browser, "#routes/split");
    browser.wait("document.querySelector('button.switch')?.innerText === 'Disable'");
    browser.click("button.switch");
    apply(&browser, &["added: +enabled: false"]);
    assert_eq!(gateway.client().get("/split/1").status, 404);
    browser.wait("document.querySelector('button.switch')?.innerText === 'Enable'");
    accessible(&browser, "a disabled route");
    at(&browser, "#routes?state=disabled");
    browser.wait("document.querySelector('tbody tr th')?.innerText.includes('disabled')");
    accessible(&browser, "the disabled routes");
    browser.click("a[href='#routes/split']");
    browser.wait("document.querySelector('button.switch')?.innerText === 'Enable'");
    browser.click("button.switch");
    apply(&browser, &["removed: −enabled: false"]);
    assert_eq!(gateway.client().get("/split/1").status, 200);
    clean(&browser, &gateway);
}

#[test]
fn a_resource_of_each_kind_can_be_created() {
    let (one, two) = (Origin::named("one"), Origin::named("two"));
    let gateway = stored(&one, &two);
    let browser = opened(&gateway, "en-US");
    for kind in ["routes", "upstreams", "consumers", "certificates", "policies"] {
        at(&browser, &format!("#{kind}/+"));
        browser.wait(&format!(
            "document.querySelector('p.back a').hash === '#{kind}' && document.querySelector('form.text input[name=name]')"
        ));
    }
    clean(&browser, &gateway);
}

#[test]
fn a_consumer_is_added_as_text_and_its_secrets_are_not_shown() {
    let (one, two) = (Origin::named("one"), Origin::named("two"));
    let gateway = stored(&one, &two);
    let browser = opened(&gateway, "en-US");
    view(&browser, "consumers");
    browser.wait_text("No consumers are configured.");
    accessible(&browser, "consumers");
    browser.click("a[href='#consumers/+']");
    browser.fill("input[name=name]", "alice");
    write(&browser, "groups: dev\nhmac_keys: {ann-1: a secret that nobody has}\n");
    browser.click("form.text button.primary");
    apply(&browser, &["added: +groups: dev", "added: + ann-1: (secret)"]);
    browser.wait_text("in the store, version 1");
    at(&browser, "#consumers");
    browser.click("a[href='#consumers/alice']");
    browser
        .wait("document.querySelector('.CodeMirror').CodeMirror.getValue().includes('ann-1: \"(secret)\"')");
    write(&browser, "groups: [dev, ops]\nhmac_keys: {ann-1: (secret)}\n");
    browser.click("form.text button.primary");
    apply(&browser, &["removed: −groups: dev"]);
    browser.wait_text("in the store, version 2");
    assert!(!gateway.stderr().contains("nobody has"));
    clean(&browser, &gateway);
}

#[test]
fn a_route_is_added_as_text_changed_and_deleted() {
    let (one, two) = (Origin::named("one"), Origin::named("two"));
    let gateway = stored(&one, &two);
    let browser = opened(&gateway, "en-US");
    view(&browser, "routes");
    browser.click("a[href='#routes/+']");
    browser.fill("input[name=name]", "hello world");
    write(&browser, "match: /hello\nrespond: good day\n");
    browser.click("form.text button.primary");
    apply(&browser, &["added: +match: /hello", "added: +respond: good day"]);
    assert_eq!(gateway.client().get("/hello").text(), "good day");
    browser.wait("location.hash === '#routes/hello%20world'");

    // The editor accepts JSON too. By keyboard only: the dialog keeps the focus, and Escape returns it to its
    // previous place.
    browser.wait("document.querySelector('.CodeMirror').CodeMirror.getValue().includes('good day')");
    write(&browser, "{\"match\": \"/hello\",\n \"respond\": \"good night\"}");
    let _ = browser.script("document.querySelector('form.text button.primary').focus()");
    browser.keys("form.text button.primary", "\u{E007}");
    browser.wait("document.querySelector('dialog .diff') && document.querySelector('dialog').contains(document.activeElement)");
    browser.keys("dialog button.icon", "\u{E00C}");
    browser.wait(
        "!document.querySelector('dialog') && document.activeElement.matches('form.text button.primary')",
    );
    assert_eq!(gateway.client().get("/hello").text(), "good day", "nothing was applied");
    browser.click("form.text button.primary");
    apply(&browser, &["removed: −respond: good day", "added: +respond: good night"]);
    assert_eq!(gateway.client().get("/hello").text(), "good night");

    browser.click("button.delete");
    apply(&browser, &["removed: −match: /hello"]);
    assert_eq!(gateway.client().get("/hello").status, 404);
    browser.wait("location.hash === '#routes'");
    clean(&browser, &gateway);
}

#[test]
fn errors_are_shown_at_their_position_and_change_nothing() {
    let (one, two) = (Origin::named("one"), Origin::named("two"));
    let gateway = stored(&one, &two);
    split(&gateway);
    let browser = opened(&gateway, "en-US");
    at(&browser, "routes/split");
    browser.fill("input[name=weight-1]", "many");
    browser.click("form.weights button.primary");
    browser.wait("document.querySelector('input[name=weight-1]').ariaInvalid === 'true'");
    let place = "document.getElementById(document.querySelector('input[name=weight-1]').getAttribute('aria-describedby'))";
    browser.wait(&format!("{place}.innerText.includes('`many` is not a whole number')"));
    assert!(browser.holds("document.querySelector('input[name=weight-0]').ariaInvalid === null"));

    for (text, line, message) in [
        ("match: /split/*\nto: one\nrepsond: x\n", 3, "unknown key `repsond`"),
        ("match: /split/*\nto:\n  - one\n  - {upstream: tow, weight: 1}\n", 4, "`tow`"),
        ("match: /split/*\nto: [{{\n", 2, "not closed"),
    ] {
        write(&browser, text);
        browser.click("form.text button.primary");
        browser.wait(&format!(
            "document.querySelector('#text-problems .to-line').innerText === 'Line {line}' && \
             document.querySelector('#text-problems').innerText.includes({}) && \
             document.querySelector('.CodeMirror .wrong .CodeMirror-linenumber').innerText === '{line}'",
            json!(message)
        ));
        assert!(browser.holds("document.querySelector('.CodeMirror textarea').ariaInvalid === 'true'"));
        accessible(&browser, text);
    }

    // A name that the store, or the file, already uses.
    for (name, message) in
        [("split", "There is one of this name already"), ("fixed", "is a resource of the file")]
    {
        at(&browser, "routes");
        browser.click("a[href='#routes/+']");
        browser.fill("input[name=name]", name);
        browser.click("form.text button.primary");
        browser.wait(&format!("document.querySelector('#name-problem').innerText.includes('{message}')"));
    }
    assert_eq!(api(&gateway, "GET", "", "")["version"], 1);
    let reported = ["409", "412", "422"];
    let complaints = browser.complaints();
    assert!(
        complaints.iter().all(|line| reported.iter().any(|status| line.contains(status))),
        "{complaints:?}"
    );
}

#[test]
fn the_later_of_two_editors_is_warned_and_can_continue() {
    let (one, two) = (Origin::named("one"), Origin::named("two"));
    let gateway = stored(&one, &two);
    split(&gateway);
    let browser = opened(&gateway, "en-US");
    at(&browser, "routes/split");
    let conflict = |weight: &str, timeout: &str| {
        browser.fill("input[name=weight-1]", weight);
        browser.click("form.weights button.primary");
        browser.wait("document.querySelector('dialog .diff')");
        api(&gateway, "PATCH", "/routes/split", &json!({"timeouts": {"total": timeout}}).to_string());
        browser.click("dialog button.primary");
        browser.wait("document.querySelector('dialog').innerText.includes('Somebody else has changed it')");
    };
    conflict("7", "7s");
    // The user's change is merged onto the other person's.
    browser.click("dialog button.primary");
    apply(&browser, &["removed: − weight: 0", "added: + weight: 7"]);
    let now = api(&gateway, "GET", "/routes/split", "");
    assert_eq!((&now["to"][1]["weight"], &now["timeouts"]["total"]), (&json!(7), &json!("7s")));
    // The other person's change only.
    conflict("9", "9s");
    browser.click("dialog .buttons button:not(.primary)");
    browser.wait(
        "!document.querySelector('dialog') && document.querySelector('input[name=weight-1]').value === '7'",
    );
    browser.wait("document.querySelector('.CodeMirror').CodeMirror.getValue().includes('9s')");
    let now = api(&gateway, "GET", "/routes/split", "");
    assert_eq!((&now["to"][1]["weight"], &now["timeouts"]["total"]), (&json!(7), &json!("9s")));
}

#[test]
fn endpoints_of_an_upstream_have_weights_too() {
    let (one, two) = (Origin::named("one"), Origin::named("two"));
    let gateway = stored(&one, &two);
    api(
        &gateway,
        "PUT",
        "/upstreams/both",
        &json!([one.address().to_string(), two.address().to_string()]).to_string(),
    );
    api(&gateway, "PUT", "/routes/split", "{\"match\": \"/split/*\", \"to\": \"both\"}");
    let browser = opened(&gateway, "en-US");
    at(&browser, "upstreams/both");
    // Maintenance: all weight moves to the other upstream.
    browser.fill("input[name=weight-0]", "0");
    browser.click("form.weights button.primary");
    apply(&browser, &["added: + weight: 0"]);
    assert_eq!(shares(&gateway, &one, &two), (0, 40));
    clean(&browser, &gateway);
}

/// The functions that find the line of a problem and compare two texts, tested on their own.
#[test]
fn lines_are_found_and_compared() {
    let (one, two) = (Origin::named("one"), Origin::named("two"));
    let gateway = stored(&one, &two);
    let browser = opened(&gateway, "en-US");
    let text = "# a\nmatch: {path: /a, headers: {x: 1,\n  y: 2}}\nto:\n- upstream: one\n  weight: 3\n-\n  upstream: \"two\"\n  # b\n  weight: 1\n\"policies\":\n    ip:\n        allow: [10.0.0.0/8,\n          nonsense]\n";
    let cases = [
        ("/match", 1),
        ("/match/path", 1),
        ("/match/headers/x", 1),
        ("/match/headers/y", 2),
        ("/to", 3),
        ("/to/0", 4),
        ("/to/0/upstream", 4),
        ("/to/0/weight", 5),
        ("/to/1/upstream", 7),
        ("/to/1/weight", 9),
        ("/policies", 10),
        ("/policies/ip/allow/0", 12),
        ("/policies/ip/allow/1", 13),
        ("/nowhere/at/all", 1),
        ("3:7", 2),
        ("", 1),
    ];
    let pointers: Vec<&str> = cases.iter().map(|(pointer, _)| *pointer).collect();
    let lines: Vec<i32> = cases.iter().map(|(_, line)| *line).collect();
    let found = browser.script(&format!(
        "return import('/dashboard/pointer.js').then(({{ lineOf }}) => {}.map((pointer) => lineOf({}, pointer)))",
        json!(pointers), json!(text)
    ));
    assert_eq!(found, json!(lines), "{pointers:?}");
    let flow = browser.script(&format!(
        "return import('/dashboard/pointer.js').then(({{ lineOf }}) => ['/a/1/b', '/c~1d', '/a/0'].map((pointer) => lineOf({}, pointer)))",
        json!("{\"a\": [\"x, }\",\n {\"b\": 1}],\n\"c/d\": 2}")
    ));
    assert_eq!(flow, json!([1, 2, 0]));
    let compared = browser.script(
        "return import('/dashboard/diff.js').then(({ difference }) => \
         [['abcde', 'abxde'], ['', 'ab'], ['ab', ''], ['abcabba', 'cbabac'], ['same', 'same']] \
         .map(([a, b]) => difference([...a], [...b]).map((one) => one.join('')).join('')))",
    );
    assert_eq!(compared, json!([" a b-c+x d e", "+a+b", "-a-b", "-a-b c-a b+a b a+c", " s a m e"]));
    let yaml = browser.script(
        "return import('/dashboard/yaml.js').then(({ yamlLines }) => \
         yamlLines({ a: [{ b: 1, c: ['x', []] }, 'on'], d: { 'e f': '3/s' }, g: null, h: {}, i: 'a: b' }))",
    );
    assert_eq!(
        yaml,
        json!([
            "a:",
            "  - b: 1",
            "    c:",
            "      - x",
            "      - []",
            "  - \"on\"",
            "d:",
            "  e f: \"3/s\"",
            "g: null",
            "h: {}",
            "i: \"a: b\""
        ])
    );
}
