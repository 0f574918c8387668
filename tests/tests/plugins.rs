//! Plugins, with the program of `examples/plugin`, which has one: `maintenance`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tollgate_tests::api::{call, json_of, put};
use tollgate_tests::{
    Gateway, Origin, Ran, Signal, binary, binary_with_plugin, eventually, http2, run, tollgate,
};

fn start(yaml: &str) -> Gateway {
    Gateway::start_program(&binary_with_plugin(), yaml)
}

/// A config file with these policies. The drop removes it.
struct File(PathBuf);

impl File {
    fn new(name: &str, policies: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tollgate-plugins-{}-{name}.yaml", std::process::id()));
        let text = format!(
            "listen: 127.0.0.1:0\nadmin: off\nroutes: [{{match: /x, respond: x}}]\npolicies:\n{policies}"
        );
        std::fs::write(&path, text).expect("written");
        Self(path)
    }

    fn run(&self, program: &Path, command: &str, more: &[&str]) -> Ran {
        let path = self.0.to_str().expect("text");
        run(program, &[&[command, path], more].concat())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn it_turns_away_whom_its_settings_say_on_every_version_of_http() {
    let origin = Origin::ok();
    let gateway = start(&format!(
        "policies: {{plugins: {{maintenance: {{retry_after: 7}}}}}}\nroutes:\n  - {{match: /closed, to: \"{0}\"}}\n  \
         - {{name: told, match: /told, to: \"{0}\", policies: {{plugins: {{maintenance: {{message: back soon, hold: 20}}}}}}}}\n  \
         - {{name: mine, match: /mine, to: \"{0}\", policies: {{plugins: {{maintenance: {{allow: [127.0.0.0/8]}}}}}}}}\n",
        origin.address()
    ));
    let (mut one, mut two) = (gateway.client(), gateway.http2());
    for _ in 0..2 {
        for answer in [one.get("/closed"), two.get("/closed")] {
            assert_eq!((answer.status, answer.header("retry-after")), (503, Some("7")), "{answer:?}");
            assert_eq!(answer.header("tollgate-reason"), Some("plugin_unavailable"));
        }
        for answer in [one.get("/told"), two.get("/told")] {
            assert_eq!((answer.status, answer.text().as_str()), (503, "back soon"), "{answer:?}");
            assert_eq!(answer.header("retry-after"), Some("60"));
        }
        for answer in [one.get("/mine"), two.get("/mine")] {
            assert_eq!(answer.status, 200, "{answer:?}");
            assert_eq!(answer.header("maintenance-turned-away"), Some("0"), "counts are by place");
        }
    }
    assert_eq!(origin.count(), 4);
    let records = gateway.wait_records(12);
    let closed = records.iter().filter(|record| record["reason"] == "plugin_unavailable");
    assert!(closed.clone().all(|record| record["detail"] == "maintenance") && closed.count() == 4);
    let metrics = gateway.metrics();
    let count = |place: &str| {
        let labels = format!("policy=\"plugins/maintenance\",place=\"{place}\",event=\"turned_away\"");
        metrics.sum("tollgate_policy_events_total", &labels)
    };
    assert_eq!(
        (count("gateway"), count("route/told"), count("route/mine")),
        (Some(4.0), Some(4.0), Some(0.0))
    );
    gateway.reconcile(&[&origin]);
}

#[test]
fn a_request_with_a_body_is_turned_away_and_the_next_one_follows() {
    let origin = Origin::ok();
    let gateway = start(&format!(
        "policies: {{plugins: {{maintenance: on}}}}\nroutes:\n  - {{to: \"{0}\"}}\n  \
         - {{match: /open, to: \"{0}\", policies: {{plugins: {{maintenance: off}}}}}}\n",
        origin.address()
    ));
    let mut client = gateway.client();
    assert_eq!(client.post("/closed", b"a body").status, 503);
    assert_eq!(client.get("/open").status, 200, "the same connection");
    let mut client = gateway.http2();
    let mut stream = client.begin(http2::request("POST", "/closed", &[]), false).expect("a stream");
    // The answer may come first, and then the gateway no longer accepts the body.
    let _ = stream.send("a body", true);
    assert_eq!(stream.response().expect("an answer").status, 503);
    gateway.reconcile(&[&origin]);
}

#[test]
fn invalid_settings_are_reported_with_line_and_caret() {
    let program = binary_with_plugin();
    for (number, (settings, said)) in [
        ("    maintenance: {mesage: x}\n", ":6:19\n"),
        ("    maintenance: {retry_after: soon}\n", ":6:32\n"),
        ("    maintenance:\n      daily:\n        from: \"2\"\n        to: \"03:00\"\n", ":8:15\n"),
        ("    maintenance: {allow: [10.0.0.0/8, 10.0.0.1/8]}\n", ":6:39\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let file = File::new(&format!("bad-{number}"), &format!("  plugins:\n{settings}"));
        for command in ["check", "run"] {
            let ran = file.run(&program, command, &[]);
            assert_eq!(ran.code, Some(1), "{ran:?}");
            assert!(ran.err.contains(said), "{said} is not in\n{}", ran.err);
            assert!(ran.err.contains("plugin `maintenance`: ") && ran.err.contains("^"), "{}", ran.err);
        }
    }
    let file = File::new("misspelt", "  plugins: {maintenance: {mesage: x}}\n");
    let ran = file.run(&program, "check", &[]);
    assert!(
        ran.err.contains("unknown key `mesage`") && ran.err.contains("did you mean `message`?"),
        "{}",
        ran.err
    );
    // All problems are reported together.
    let file = File::new("both", "  plugins: {maintenance: {hold: 99999, allow: [x]}}\n");
    assert!(file.run(&program, "check", &[]).err.contains("2 errors"));
}

#[test]
fn an_unknown_plugin_is_reported_with_the_nearest_name() {
    let file = File::new("unknown", "  plugins: {maintenence: on}\n");
    let ran = file.run(&binary_with_plugin(), "check", &[]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.err.contains("there is no plugin `maintenence`") && ran.err.contains(":5:13\n"),
        "{}",
        ran.err
    );
    assert!(
        ran.err.contains("did you mean `maintenance`?") && ran.err.contains("^^^^^^^^^^^"),
        "{}",
        ran.err
    );
    let ran = file.run(&binary(), "check", &[]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("this tollgate was built without plugins"), "{}", ran.err);
    // `off` for an unknown plugin is an error too.
    let file = File::new("unknown-off", "  plugins: {maintenence: off}\n");
    assert_eq!(file.run(&binary_with_plugin(), "check", &[]).code, Some(1));
    // `plugins: off` is valid in a program without plugins.
    let file = File::new("off", "  plugins: off\n");
    assert_eq!(file.run(&binary(), "check", &[]).code, Some(0));
}

#[test]
fn off_keeps_it_from_where_it_is_written() {
    let gateway = start(
        "policies: {plugins: {maintenance: on}}\nroutes:\n  - {match: /closed, respond: x}\n  \
         - {match: /none, respond: x, policies: {plugins: off}}\n  \
         - {match: /off, respond: x, policies: {plugins: {maintenance: off}}}\n  \
         - {match: /nothing, respond: x, policies: {plugins: {}}}\n",
    );
    let mut client = gateway.client();
    for (path, status) in [("/closed", 503), ("/none", 200), ("/off", 200), ("/nothing", 503)] {
        assert_eq!(client.get(path).status, status, "{path}");
    }
}

#[test]
fn a_reload_goes_on_with_its_count_and_a_bad_one_changes_nothing() {
    let yaml = |allow: &str| {
        format!(
            "workers: 2\npolicies: {{plugins: {{maintenance: {{{allow}}}}}}}\nroutes: [{{match: /x, respond: x}}]"
        )
    };
    let gateway = start(&yaml("retry_after: 1"));
    for _ in 0..3 {
        assert_eq!(gateway.client().get("/x").status, 503);
    }
    let before = gateway.stderr().len();
    gateway.write_config(&yaml("retry_after: soon"));
    gateway.signal(Signal::HUP);
    eventually("a message about it", || gateway.stderr()[before..].contains("expected: a whole number"));
    assert_eq!(gateway.client().get("/x").header("retry-after"), Some("1"));
    gateway.write_config(&yaml("allow: [127.0.0.1]"));
    gateway.signal(Signal::HUP);
    eventually("the new plan", || gateway.client().get("/x").status == 200);
    let count = gateway.client().get("/x").header("maintenance-turned-away").map(str::to_owned);
    let count: u32 = count.and_then(|count| count.parse().ok()).expect("a count");
    assert!(count >= 4, "{count}: those of the plan before count");
}

#[test]
fn explain_schema_and_reference_know_it() {
    let program = binary_with_plugin();
    let file = File::new("explain", "  plugins: {maintenance: {allow: [10.0.0.0/8]}}\n");
    let ran = file.run(&program, "explain", &["GET", "http://a/x"]);
    let said = "plugins/maintenance of gateway (all day, 1 blocks of addresses get through): ends here";
    assert!(ran.out.contains(said), "{}", ran.all());
    let schema: Value = serde_json::from_str(&run(&program, &["schema"]).out).expect("JSON");
    let plugins = &schema["$defs"]["policies"]["properties"]["plugins"]["anyOf"];
    let form = plugins.as_array().and_then(|forms| forms.iter().find(|form| form["type"] == "object"));
    let own = form.map(|form| &form["properties"]["maintenance"]).unwrap_or_else(|| panic!("{plugins}"));
    assert!(own["description"].as_str().is_some_and(|text| text.contains("turns everybody away")), "{own}");
    assert!(run(&program, &["reference"]).out.contains("| `maintenance` |"));
    // The output of the plain program does not mention the plugin.
    for command in ["schema", "reference"] {
        assert!(!tollgate(&[command]).out.contains("maintenance"), "{command}");
    }
}

#[test]
fn over_the_api_its_problems_have_pointers() {
    let gateway = start("store: $DIR/store\nroutes: [{match: /open, respond: x}]");
    let route = |settings: Value| json!({"match": "/new", "respond": "x", "policies": {"plugins": {"maintenance": settings}}});
    let answer = put(&gateway, "/routes/new", &route(json!({"allow": ["10.0.0.0/8", "x"]})));
    assert_eq!(answer.status, 422, "{answer:?}");
    let problem = &json_of(&answer)["problems"][0];
    assert_eq!(problem["pointer"], "/policies/plugins/maintenance/allow/1", "{problem}");
    let answer = put(&gateway, "/routes/new", &route(json!({"holt": 1})));
    let problem = &json_of(&answer)["problems"][0];
    assert_eq!(problem["pointer"], "/policies/plugins/maintenance/holt", "{problem}");
    assert_eq!(problem["help"], json!(["did you mean `hold`?"]));
    let unknown = json!({"match": "/new", "respond": "x", "policies": {"plugins": {"maintain": true}}});
    let problem = &json_of(&put(&gateway, "/routes/new", &unknown))["problems"][0];
    assert_eq!(problem["pointer"], "/policies/plugins/maintain", "{problem}");
    assert_eq!(put(&gateway, "/routes/new", &route(json!({"retry_after": 3}))).status, 201);
    assert_eq!(gateway.client().get("/new").header("retry-after"), Some("3"));
    let kept = json_of(&call(&gateway, "GET", "/routes/new", "", ""));
    assert_eq!(kept["policies"], route(json!({"retry_after": 3}))["policies"], "{kept}");
}

#[test]
fn at_a_listener_and_an_upstream_too_and_after_an_upgrade() {
    let origin = Origin::ok();
    let mut gateway = start(&format!(
        "listen: {{bind: $LISTEN, policies: {{plugins: {{maintenance: {{allow: [127.0.0.1]}}}}}}}}\n\
         policies: {{plugins: {{maintenance: on}}}}\n\
         routes: [{{match: /open, to: plain}}, {{match: /closed, to: closed}}]\n\
         upstreams:\n  plain: {{endpoints: \"{0}\"}}\n  \
         closed: {{endpoints: \"{0}\", policies: {{plugins: {{maintenance: {{retry_after: 5}}}}}}}}\n",
        origin.address()
    ));
    for _ in 0..2 {
        assert_eq!(
            gateway.client().get("/open").status,
            200,
            "the listener's takes the place of the gateway's"
        );
        let answer = gateway.client().get("/closed");
        assert_eq!(
            (answer.status, answer.header("retry-after")),
            (503, Some("5")),
            "the upstream's comes on top"
        );
        gateway.upgrade();
    }
}
