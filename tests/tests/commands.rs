//! The commands that query and change a running gateway, with the real binary on both sides.

use std::process::Command;

use serde_json::Value;
use tollgate_tests::{Authority, Gateway, Ran, binary, refused_address};

const TOKEN: &str = "a-token-of-enough-signs";

fn stored() -> Gateway {
    Gateway::start("store: $DIR/store\nroutes: [{name: fixed, match: /fixed, respond: file}]")
}

/// Runs a command against this gateway, with environment variables.
fn ran(gateway: &Gateway, words: &[&str], variables: &[(&str, &str)]) -> Ran {
    let mut command = Command::new(binary());
    command
        .args(words)
        .env("TOLLGATE_ADMIN", gateway.admin_address().to_string())
        .env_remove("TOLLGATE_TOKEN");
    command.envs(variables.iter().copied());
    let out = command.output().expect("tollgate runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Ran { code: out.status.code(), out: text(out.stdout), err: text(out.stderr) }
}

/// Runs a command that must succeed, and returns its output.
fn said(gateway: &Gateway, words: &[&str]) -> String {
    let ran = ran(gateway, words, &[]);
    assert_eq!(ran.code, Some(0), "{words:?} {ran:?}");
    ran.out
}

fn refused(gateway: &Gateway, words: &[&str], code: i32) -> String {
    let ran = ran(gateway, words, &[]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(code), ""), "{words:?} {ran:?}");
    ran.err
}

#[test]
fn consumers_are_resources_too() {
    let gateway = stored();
    let reported =
        said(&gateway, &["set", "consumers/alice", "{groups: dev, hmac_keys: {a: a secret of alice}}"]);
    assert!(reported.starts_with("+ consumers/alice\n") && !reported.contains("of alice"), "{reported}");
    assert_eq!(said(&gateway, &["get", "consumers/alice"]), "groups: dev\nhmac_keys:\n  a: \"(secret)\"\n");
    assert!(said(&gateway, &["get", "consumers"]).lines().any(|line| line.starts_with("alice ")));
    let exported = said(&gateway, &["export", "--stored"]);
    let file = gateway.directory().join("exported.yaml");
    std::fs::write(&file, exported.replace("groups: dev", "groups: ops")).expect("written");
    assert!(said(&gateway, &["import", &file.display().to_string()]).starts_with("~ consumers/alice\n"));
    assert_eq!(said(&gateway, &["get", "consumers/alice"]), "groups: ops\nhmac_keys:\n  a: \"(secret)\"\n");
    said(&gateway, &["delete", "consumers/alice"]);
    refused(&gateway, &["get", "consumers/alice"], 1);
}

#[test]
fn a_resource_is_set_shown_changed_and_removed() {
    let gateway = stored();
    let reported = said(&gateway, &["set", "routes/hello", "{match: /hello, respond: hello}"]);
    assert!(
        reported.starts_with("+ routes/hello\n") && reported.contains("version 1, in force as generation"),
        "{reported}"
    );
    assert_eq!(gateway.client().get("/hello").text(), "hello");
    assert_eq!(said(&gateway, &["get", "routes/hello"]), "match: /hello\nrespond: hello\n");
    assert_eq!(
        said(&gateway, &["get", "routes", "hello", "-o", "json"]),
        "{\n  \"match\": \"/hello\",\n  \"respond\": \"hello\"\n}\n"
    );
    let table = said(&gateway, &["get", "routes"]);
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("NAME ") && lines.len() == 3, "{table}");
    assert!(
        lines[1].starts_with("fixed ") && lines[2].starts_with("hello ") && lines[2].ends_with("/hello"),
        "{table}"
    );
    assert!(!said(&gateway, &["get", "routes", "--source", "store"]).contains("fixed"));
    assert_eq!(said(&gateway, &["get", "upstreams"]), "no upstreams\n");
    let dry = said(&gateway, &["set", "routes/hello", "--merge", "{respond: good day}", "--dry-run"]);
    assert!(
        dry.contains("  - respond: hello\n  + respond: good day\n") && dry.contains("nothing is done"),
        "{dry}"
    );
    assert_eq!(gateway.client().get("/hello").text(), "hello");
    let reported =
        said(&gateway, &["set", "routes/hello", "--merge", "{respond: good day}", "--if-version", "1"]);
    assert!(reported.starts_with("~ routes/hello\n"), "{reported}");
    assert_eq!(gateway.client().get("/hello").text(), "good day");
    let reported = refused(&gateway, &["set", "routes/hello", "{respond: x}", "--if-version", "1"], 1);
    assert!(reported.contains("version 2"), "{reported}");
    refused(&gateway, &["set", "routes/hello", "{respond: x}", "--if-new"], 1);
    let reported = said(&gateway, &["delete", "routes/hello"]);
    assert!(reported.starts_with("- routes/hello\n"), "{reported}");
    assert_eq!(gateway.client().get("/hello").status, 404);
    let reported = refused(&gateway, &["get", "routes/hello"], 1);
    assert_eq!(reported, "error: there is no route of the name `hello`\n");
}

#[test]
fn errors_match_those_of_check() {
    let gateway = stored();
    let reported = refused(&gateway, &["set", "routes/hello", "{match: /hello, respnd: hello}"], 1);
    assert!(
        reported.contains("unknown key `respnd`") && reported.contains("did you mean `respond`?"),
        "{reported}"
    );
    // In the text that was written, and not in the document that was made from it.
    assert!(reported.contains("routes/hello:1:17\n"), "{reported}");
    assert!(reported.contains("\n1 | {match: /hello, respnd: hello}\n"), "{reported}");
    let reported = refused(&gateway, &["set", "routes/fixed", "{match: /x, respond: x}"], 1);
    assert!(reported.contains("is a resource of the file"), "{reported}");
    let reported = refused(&gateway, &["set", "routes", "{match: /x, respond: x}"], 1);
    assert!(reported.contains("write `routes/NAME`"), "{reported}");
    let reported = refused(&gateway, &["get", "rutes"], 1);
    assert!(reported.contains("there is no kind `rutes`"), "{reported}");
    refused(&gateway, &["set", "routes/hello", "{match: ["], 1);
    refused(&gateway, &["set", "routes/hello", "--file", "/no/such/file"], 1);
    let nobody = refused_address().to_string();
    let reported = refused(&gateway, &["get", "routes", "--admin", &nobody], 1);
    assert!(reported.contains(&format!("{nobody} does not answer")), "{reported}");
    assert_eq!(ran(&gateway, &["set", "routes/hello"], &[]).code, Some(2), "no value");
    assert_eq!(ran(&gateway, &["rollback", "x"], &[]).code, Some(2));
}

#[test]
fn the_history_is_shown_and_goes_back() {
    let gateway = stored();
    assert_eq!(said(&gateway, &["history"]), "nothing has been changed yet\n");
    for text in ["one", "two"] {
        said(&gateway, &["set", "routes/a", &format!("{{match: /a, respond: {text}}}")]);
    }
    let table = said(&gateway, &["history"]);
    assert!(table.starts_with("VERSION  AT") && table.lines().count() == 3, "{table}");
    let one = said(&gateway, &["history", "2"]);
    assert!(one.contains("by local") && one.contains("  - respond: one\n  + respond: two\n"), "{one}");
    let ran = ran(&gateway, &["diff", "1"], &[]);
    assert!(ran.code == Some(1) && ran.out.contains("  + respond: one\n"), "{ran:?}");
    let dry = said(&gateway, &["rollback", "1", "--dry-run"]);
    assert!(dry.contains("nothing is done"), "{dry}");
    said(&gateway, &["rollback", "1"]);
    assert_eq!(gateway.client().get("/a").text(), "one");
    assert_eq!(said(&gateway, &["diff", "1"]), "");
    refused(&gateway, &["rollback", "99"], 1);
    refused(&gateway, &["diff", "99"], 2);
}

#[test]
fn an_export_can_be_imported_elsewhere() {
    let gateway = stored();
    said(&gateway, &["set", "upstreams/u", "[\"127.0.0.1:1\"]"]);
    said(&gateway, &["set", "routes/a", "{match: /a, to: u}"]);
    said(&gateway, &["set", "policies/framed", "{headers: {response: {set: {X-Set: framed}}}}"]);
    said(&gateway, &["set", "routes/b", "{match: /b, respond: b, policies: {use: framed}}"]);
    let whole = said(&gateway, &["export"]);
    assert!(whole.contains("- name: fixed\n") && whole.contains("- name: a\n"), "{whole}");
    assert!(whole.contains("policy_sets:\n  framed:\n") && !whole.contains("\npolicies:"), "{whole}");
    let file = gateway.directory().join("all.yaml");
    let file = file.to_str().expect("UTF-8");
    std::fs::write(file, &whole).expect("written");
    // An import into the same gateway changes nothing, including the resources of the file.
    assert_eq!(said(&gateway, &["diff", file]), "");
    assert!(said(&gateway, &["import", file]).contains("nothing to change"));

    let stored_only = said(&gateway, &["export", "--stored"]);
    assert!(!stored_only.contains("fixed"), "{stored_only}");
    std::fs::write(file, &stored_only).expect("written");
    let other = stored();
    said(&other, &["set", "routes/old", "{match: /old, respond: old}"]);
    let difference = ran(&other, &["diff", file], &[]);
    assert!(difference.code == Some(1) && difference.out.contains("+ routes/b\n"), "{difference:?}");
    assert!(!difference.out.contains("old"), "{difference:?}");
    said(&other, &["import", file]);
    assert_eq!(
        (other.client().get("/b").text(), other.client().get("/old").text()),
        ("b".into(), "old".into())
    );
    assert_eq!(other.client().get("/b").headers.get("x-set"), Some("framed"));
    let pruned = said(&other, &["import", file, "--prune"]);
    assert!(pruned.starts_with("- routes/old\n"), "{pruned}");
    assert_eq!(other.client().get("/old").status, 404);

    std::fs::write(file, "listen: 127.0.0.1:1\nroutes: []\n").expect("written");
    let reported = refused(&other, &["import", file], 1);
    assert!(reported.contains("`listen` is for the gateway's own file"), "{reported}");
    std::fs::write(file, "routes: [{match: /x, respond: x}]\n").expect("written");
    assert!(refused(&other, &["import", file], 1).contains("/routes/0"));
}

#[test]
fn a_backup_is_a_store() {
    let gateway = stored();
    said(&gateway, &["set", "routes/a", "{match: /a, respond: kept}"]);
    let copy = gateway.directory().join("copy");
    said(&gateway, &["backup", copy.to_str().expect("UTF-8")]);
    let reported = refused(&gateway, &["backup", "/etc/tollgate-copy"], 1);
    assert!(reported.contains("`to` must be a file in the directory of the store"), "{reported}");
    let reported = refused(&gateway, &["backup", copy.to_str().expect("UTF-8")], 1);
    assert!(reported.contains("is there already"), "{reported}");
    let other = Gateway::start(&format!("store: {}\nroutes: []", copy.display()));
    assert_eq!(other.client().get("/a").text(), "kept");
}

#[test]
fn a_token_is_taken_from_the_variable_or_the_option() {
    let gateway = Gateway::start(&format!(
        "store: $DIR/store\nadmin: {{bind: $ADMIN, tokens: {{me: {{role: admin, token: {TOKEN}}}, you: {{role: read, token: {TOKEN}-too}}}}}}\nroutes: []"
    ));
    let reported = refused(&gateway, &["get", "routes"], 1);
    assert!(reported.contains("set TOLLGATE_TOKEN"), "{reported}");
    assert_eq!(ran(&gateway, &["get", "routes"], &[("TOLLGATE_TOKEN", TOKEN)]).code, Some(0));
    assert_eq!(ran(&gateway, &["get", "routes", "--token", TOKEN], &[]).code, Some(0));
    assert_eq!(ran(&gateway, &["top", "--once"], &[("TOLLGATE_TOKEN", TOKEN)]).code, Some(0));
    let wrong = ran(&gateway, &["get", "routes"], &[("TOLLGATE_TOKEN", "some-other-token")]);
    assert!(
        wrong.code == Some(1) && wrong.err.contains("the admin listener does not know this token"),
        "{wrong:?}"
    );
    let low = [("TOLLGATE_TOKEN", "a-token-of-enough-signs-too")];
    let low = ran(&gateway, &["delete", "routes/a"], &low);
    assert!(low.code == Some(1) && low.err.contains("needs the role `write`"), "{low:?}");
    let help = ran(&gateway, &["help", "get"], &[("TOLLGATE_TOKEN", TOKEN)]);
    assert!(!help.out.contains(TOKEN), "{help:?}");
}

#[test]
fn tls_is_spoken_to_a_listener_that_has_it() {
    let gateway = stored();
    let authority = Authority::new();
    let (server, mine) = (authority.issue(&["127.0.0.1", "localhost"]), authority.issue(&["ops.example"]));
    let write = |name: &str, text: &str| {
        let path = gateway.directory().join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let ca = write("ca.pem", &authority.pem());
    write("a.pem", &format!("{}{}", server.chain, server.key));
    let own = write("own.pem", &format!("{}{}", mine.chain, mine.key));
    let port = tollgate_tests::free_port();
    gateway.write_config(&format!(
        "admin: {{bind: \"127.0.0.1:{port}\", tls: {{certificate: a.pem, client_certificates: {{ca: ca.pem}}}}}}\n\
         store: $DIR/store\nroutes: [{{name: b, match: /b, respond: b}}]"
    ));
    gateway.signal(tollgate_tests::Signal::HUP);
    tollgate_tests::eventually("the new file", || gateway.client().get("/b").status == 200);
    let address = format!("https://127.0.0.1:{port}");
    let words = ["get", "routes", "--admin", &address, "--ca", &ca, "--certificate", &own];
    assert!(said(&gateway, &words).contains("/b"));
    refused(&gateway, &words[..6], 1);
    let reported = refused(&gateway, &words[..4], 1);
    assert!(reported.contains("does not answer"), "{reported}");
}

#[test]
fn output_is_available_as_json() {
    let gateway = stored();
    let answer = said(&gateway, &["set", "routes/a", "{match: /a, respond: a}", "-o", "json"]);
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    assert_eq!((&answer["version"], &answer["changes"][0]["change"]), (&1.into(), &"added".into()));
    let history: Value = serde_json::from_str(&said(&gateway, &["history", "-o", "json"])).expect("JSON");
    assert_eq!(history["versions"][0]["what"], "put routes/a");
    assert!(said(&gateway, &["get"]).contains("version: 1\n"));
}
