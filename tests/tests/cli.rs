//! The command line: `check`, `explain`, `schema`, help, and failing starts.

use std::fs;
use std::path::PathBuf;

use tollgate_tests::{Gateway, Ran, refused_address, tollgate};

/// A config file of one test.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tollgate-e2e-cli-{}-{name}.yaml", std::process::id()));
        fs::write(&path, text).expect("written");
        Self(path)
    }

    fn run(&self, command: &str, rest: &[&str]) -> Ran {
        tollgate(&[&[command, self.0.to_str().expect("UTF-8")], rest].concat())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

const GOOD: &str = "listen: 127.0.0.1:8080\nroutes:\n  - name: v1\n    match: api.example.com/v1/*\n    to: [10.0.0.1:8080, 10.0.0.2:8080]\n\
    \x20   rewrite: {prefix: /}\n  - {name: beta, match: {path: /beta, headers: {X-Env: beta}}, respond: 204}\n";

#[test]
fn check_of_a_good_file() {
    let ran = File::new("good", GOOD).run("check", &[]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn check_of_five_mistakes_tells_all_five() {
    let file = File::new(
        "bad",
        "listn: 127.0.0.1:8080\n\
         timeouts:\n\
         \x20 header: fast\n\
         routes:\n\
         \x20 - match: \"/v1/*\"\n\
         \x20   too: [10.0.0.1:8080]\n\
         \x20 - match: \"/v2/*\"\n\
         \x20   to: nowhere\n\
         \x20 - match: \"/v3/*\"\n\
         \x20   respond: 99\n",
    );
    let ran = file.run("check", &[]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let text = ran.all();
    let name = file.0.file_name().and_then(|name| name.to_str()).expect("a name");
    for (line, key) in [(1, "listn"), (3, "fast"), (6, "too"), (8, "nowhere"), (10, "99")] {
        assert!(text.contains(&format!("{name}:{line}:")), "no message for line {line}:\n{text}");
        assert!(text.contains(key), "{key} is not shown:\n{text}");
    }
    assert!(text.contains("listen"), "no suggestion:\n{text}");
    assert!(text.matches('^').count() >= 5, "five carets:\n{text}");
}

#[test]
fn no_message_shows_a_secret_of_the_file() {
    for (text, shown) in [
        (
            "consumers: {ann: {hmac_keys: {one: hunter2, two: 'hunter2'}, gruops: x}}",
            "{one: ***, two: ***}, gruops: x}",
        ),
        (
            "{\"admin\": {\"tokens\": {\"a\": {\"role\": \"raed\", \"token\": \"hunter2\"}}}}",
            "\"token\": ***}}}",
        ),
        (
            "etcd:\n  endpoints: 10.0.0.1:2379\n  user: u\n  password: \"hunter2\n   hunter2\"\n  pasword: hunter2",
            "pasword: ***",
        ),
        ("etcd: {endpoints: 10.0.0.1:2379, user: u, password: \"hunter2", "password: ***"),
        ("upstreams: {u: {endpoints: a:1, balance: {sticky: {secret: hunter2}}}}", "secret: ***}"),
        ("policies: {rate_limit: {rate: 1/x, redis: {url: \"redis://:hunter2@h:1\"}}}", "url: ***}}}"),
        ("consumers: {ann: {password: ${NO_SUCH_VARIABLE}}}", "{password: ${NO_SUCH_VARIABLE}}"),
    ] {
        let ran = File::new("secret", text).run("check", &[]);
        assert_eq!(ran.code, Some(1), "{text}: {ran:?}");
        assert!(ran.all().contains(shown) && !ran.all().contains("hunter2"), "{text}: {ran:?}");
    }
}

#[test]
fn check_explains_words_of_other_gateways() {
    for (lines, hint) in [
        ("  cors: on\n", "`cors` is a policy: write it as `policies: {cors: ...}`"),
        ("  gzip: on\n", "the policy `compression` does this: write it as `policies: {compression: ...}`"),
        (
            "  policies: {rewrite: {prefix: /}}\n",
            "`rewrite` is a key of a route, not a policy: write it beside",
        ),
        ("  max_body_size: 5MiB\n", "write `limits: {body: 5MiB}`"),
        ("  strip_prefix: /api\n", "write `rewrite: {prefix: /}`"),
        ("  methods: [GET]\n", "write `match: {path: /api/*, method: GET}`"),
        ("  timeout: 5s\n", "write `timeouts: {total: 5s}`"),
        ("  health_check: /h\n", "write `health: /healthz` at an upstream under `upstreams`"),
        ("  weight: 3\n", "write it at a target: `to: [{upstream: NAME, weight: 3}]`"),
        ("log_level: debug\n", "write `log: debug`"),
        ("acme: on\n", "Tollgate does not obtain certificates"),
        ("  match: {cors: on}\n", "a policy is written under `policies`"),
    ] {
        let route =
            if lines.contains("match") { "- to: 10.0.0.1:80\n" } else { "- match: /*\n  to: 10.0.0.1:80\n" };
        let ran = File::new("words", &format!("listen: :80\nroutes:\n{route}{lines}")).run("check", &[]);
        assert!(ran.code == Some(1) && ran.all().contains(hint), "{lines}: {ran:?}");
        assert!(ran.all().contains("1 error in"), "{lines}: {ran:?}");
    }
}

#[test]
fn check_names_the_program_of_a_foreign_file() {
    for (text, message) in [
        ("http:\n  routers: {a: {service: s}}\n  services: {}\n", "a Traefik configuration"),
        ("events {}\nhttp {\n  server { listen 80; }\n}\n", "an nginx configuration"),
        ("a.example {\n  reverse_proxy 127.0.0.1:80\n}\n", "a Caddyfile"),
    ] {
        let ran = File::new("foreign", text).run("check", &[]);
        assert!(ran.code == Some(1) && ran.all().contains(message), "{ran:?}");
        assert!(ran.all().contains("1 error in") && !ran.all().contains("did you mean"), "{ran:?}");
    }
}

#[test]
fn check_says_how_a_variable_is_written() {
    for (target, hint) in [
        ("$BACKEND", "write `${BACKEND}`"),
        ("\"http://$BACKEND_HOST:3000\"", "write `http://${BACKEND_HOST}:3000`"),
    ] {
        let text = format!("listen: :80\nroutes:\n- match: /*\n  to: {target}\n");
        let ran = File::new("variable", &text).run("check", &[]);
        assert!(ran.code == Some(1) && ran.all().contains(hint), "{ran:?}");
    }
}

#[test]
fn check_reports_unknown_upstreams_of_policies_with_all_others() {
    let text = "listen: :80\nroutes:\n- match: /*\n  to: one\n  policies: {canary: {to: two}, mirror: three}\n\
                upstreams: {a: {endpoints: 'a:1', policies: {mirror: four}}}\n";
    let ran = File::new("unknown", text).run("check", &[]);
    for name in ["one", "two", "three", "four"] {
        assert!(ran.all().contains(&format!("there is no upstream `{name}`")), "{name}: {ran:?}");
    }
    assert!(ran.all().contains("4 errors in"), "{ran:?}");
}

#[test]
fn check_gives_a_hint_for_an_exact_path_that_looks_like_a_prefix() {
    let text = |path: &str| format!("listen: 127.0.0.1:80\nroutes: [{{match: {path}, to: '10.0.0.1:80'}}]\n");
    let ran = File::new("hint", &text("/api")).run("check", &[]);
    assert!(ran.code == Some(0) && ran.err.contains("hint: `/api` matches only this path"), "{ran:?}");
    assert!(ran.err.contains("write `/api/*`") && ran.err.contains("1 hint in"), "{ran:?}");
    for path in ["/api/*", "{path: {exact: /api}}"] {
        let ran = File::new("nohint", &text(path)).run("check", &[]);
        assert!(ran.code == Some(0) && ran.err.is_empty(), "{ran:?}");
    }
}

#[test]
fn check_reports_a_route_that_no_request_reaches() {
    let text = "listen: 127.0.0.1:80\nroutes:\n\
                - {name: all, match: {path: {regex: \"/.*\"}}, respond: 204}\n\
                - {name: api, match: {path: /api/*, method: GET}, respond: 204}\n\
                - {name: user, match: \"/users/{id}\", respond: 204}\n";
    let ran = File::new("shadowed", text).run("check", &[]);
    let message =
        "warning: no request reaches this route: another one precedes it and takes all that it matches";
    assert!(ran.code == Some(0) && ran.err.matches(message).count() == 2, "{ran:?}");
    // The offending match is shown with its place, followed by the other match.
    for part in [":4:", ":5:", "/api/*", "^", "the other one", ":3:", "2 warnings in"] {
        assert!(ran.err.contains(part), "{part}: {ran:?}");
    }
    let narrow = text.replace("/.*", "/files/.*");
    let ran = File::new("unshadowed", &narrow).run("check", &[]);
    assert!(ran.code == Some(0) && !ran.err.contains("no request reaches"), "{ran:?}");
}

#[test]
fn check_of_a_missing_file() {
    let ran = tollgate(&["check", "/no/such/file.yaml"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.all().contains("/no/such/file.yaml"), "{ran:?}");
}

#[test]
fn run_of_a_bad_file_does_not_start() {
    let ran = File::new("norun", "routes: [{match: /x}]").run("run", &[]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("norun.yaml:1:"), "{ran:?}");
}

#[test]
fn run_reports_an_address_that_cannot_be_bound() {
    // An address of a documentation block (RFC 5737), which no machine has.
    let text =
        format!("listen: 192.0.2.1:80\nadmin: {}\nroutes: [{{match: /x, respond: 204}}]", refused_address());
    let ran = File::new("nobind", &text).run("run", &[]);
    assert!(ran.code.is_some_and(|code| code != 0), "{ran:?}");
    assert!(ran.err.contains("192.0.2.1:80"), "{ran:?}");
}

#[test]
fn explain_says_what_would_happen() {
    let file = File::new("explain", GOOD);
    let ran = file.run("explain", &["GET", "http://api.example.com/v1/users?x=1"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for word in ["v1", "/users", "10.0.0.1:8080", "beta"] {
        assert!(ran.out.contains(word), "{word} is not in:\n{}", ran.out);
    }
    let ran = file.run("explain", &["GET", "/beta", "-H", "X-Env: beta"]);
    assert!(ran.out.contains("beta") && ran.out.contains("204"), "{ran:?}");
    let ran = file.run("explain", &["GET", "/beta", "-H", "X-Env: other"]);
    assert!(ran.all().contains("404"), "{ran:?}");
    let ran = file.run("explain", &["GET", "/a%2Fb"]);
    assert!(ran.all().contains("400"), "{ran:?}");
}

#[test]
fn schema_is_json_and_knows_the_keys() {
    let ran = tollgate(&["schema"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let schema: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    for key in ["listen", "workers", "admin", "access_log", "routes", "upstreams", "include"] {
        assert!(schema["properties"][key].is_object(), "{key}");
    }
    assert!(schema["$schema"].is_string());
}

#[test]
fn help_and_version() {
    let ran = tollgate(&["--help"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for command in ["run", "check", "explain", "schema", "demo"] {
        assert!(ran.out.contains(command), "{command} is not in:\n{}", ran.out);
        assert_eq!(tollgate(&[command, "--help"]).code, Some(0), "{command} --help");
    }
}

#[test]
fn the_version_says_how_the_program_was_built() {
    let version = format!("tollgate {}", env!("CARGO_PKG_VERSION"));
    let ran = tollgate(&["--version"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let mut lines = ran.out.lines();
    assert_eq!(lines.next(), Some(version.as_str()), "{ran:?}");
    let facts: Vec<(&str, &str)> = lines.map(|line| line.split_once(": ").expect("a fact")).collect();
    let names: Vec<&str> = facts.iter().map(|(name, _)| *name).collect();
    let expected = ["commit", "profile", "profile-guided", "rustc", "target", "features", "plugins"];
    assert_eq!(names, expected, "{ran:?}");
    assert!(facts.iter().all(|(_, value)| !value.is_empty()), "{ran:?}");
    let fact = |name: &str| facts.iter().find(|(named, _)| *named == name).map(|(_, value)| *value);
    assert!(fact("rustc").is_some_and(|rustc| rustc.starts_with("1.")), "{ran:?}");
    assert!(matches!(fact("profile-guided"), Some("yes" | "no")), "{ran:?}");

    let short = tollgate(&["-V"]);
    assert_eq!((short.code, short.out.lines().count()), (Some(0), 1), "{short:?}");
    let profile = fact("profile").expect("a profile");
    assert!(short.out.starts_with(&format!("{version} (")) && short.out.contains(profile), "{short:?}");

    // The admin listener reports the same commit.
    let gateway = Gateway::start("routes: []");
    for path in ["/status", "/api/v1"] {
        let answer: serde_json::Value = serde_json::from_str(&gateway.admin(path).text()).expect("JSON");
        assert_eq!(
            answer["commit"].as_str().unwrap_or("unknown"),
            fact("commit").expect("a commit"),
            "{path}"
        );
    }
}

#[test]
fn errors_of_the_command_line_are_explained() {
    for args in
        [&["chekc", "x.yaml"][..], &["run"], &["check"], &["explain", "x.yaml"], &["run", "--no-such-flag"]]
    {
        let ran = tollgate(args);
        assert!(ran.code.is_some_and(|code| code != 0), "{args:?}: {ran:?}");
        assert!(!ran.err.is_empty(), "{args:?}: {ran:?}");
    }
}

#[test]
fn bench_becomes_the_laboratory() {
    // The laboratory receives every argument, `--help` too.
    let help = tollgate(&["bench", "--help"]);
    assert_eq!(help.code, Some(0), "{}", help.all());
    assert!(help.out.contains("tollgate bench") && help.out.contains("systems"), "{}", help.all());
    // Its exit status is returned, and its message suggests the nearest study name.
    let wrong = tollgate(&["bench", "run", "qiuck", "--dry-run"]);
    assert_eq!(wrong.code, Some(1), "{}", wrong.all());
    assert!(wrong.err.contains("did you mean `quick`?"), "{}", wrong.all());
}

/// A log destination in another program's syntax never becomes a file name, under any key.
#[test]
fn no_destination_becomes_a_file() {
    for value in [
        "syslog:server=127.0.0.1:514",
        "syslog://127.0.0.1:514",
        "memory:32m:debug",
        "http://127.0.0.1:9/x.log",
        "unix:/dev/null.sock",
        "|/bin/cat /dev/null",
        "C:\\\\logs\\\\a.log",
        "~/a.log",
    ] {
        for yaml in [
            "access_log: \"V\"",
            "access_log: {to: \"V\"}",
            "store: \"V\"",
            "include: \"V\"",
            "admin: {bind: \"127.0.0.1:0\", audit_log: \"V\"}",
            "certificates: {a: {certificate: \"V\", key: \"V\"}}",
            "access_log: {to: stdout, otlp: {url: \"http://127.0.0.1:1/\", ca: \"V\"}}",
            "upstreams: {u: {discover: \"file:V\"}}",
            "etcd: {endpoints: [\"http://127.0.0.1:1\"], cache: \"V\"}",
        ] {
            let yaml = yaml.replace('V', value);
            let text = format!("listen: 127.0.0.1:0\n{yaml}\nroutes: [{{respond: x}}]\n");
            let ran = File::new("destination", &text).run("check", &[]);
            assert_eq!(ran.code, Some(1), "{yaml}: {ran:?}");
            assert!(ran.all().contains("destination.yaml:2:"), "{yaml}: {ran:?}");
        }
    }
}
