//! Order by age between routes with the same conditions, and matches by the text that a path begins or ends with
//! (docs/matching.md), through the real binary.

use serde_json::{Value, json};
use tollgate_tests::api::{JSON, call, json_of, put};
use tollgate_tests::{Gateway, tollgate};

fn stored() -> Gateway {
    Gateway::start("workers: 2\nstore: $DIR/store\nroutes: [{name: fixed, match: /fixed, respond: file}]\n")
}

fn aged(path: &str, created: &str) -> Value {
    json!({"match": path, "created": created, "respond": created})
}

fn live(gateway: &Gateway, name: &str) -> Value {
    let rows = json_of(&gateway.admin(&format!("/api/v1/live/routes?q={name}")));
    rows["items"][0].clone()
}

#[test]
fn the_oldest_of_identical_routes_takes_the_requests() {
    let mut gateway = stored();
    let get = |gateway: &Gateway, path: &str| gateway.client().get(path).text();
    let second = put(&gateway, "/routes/b", &aged("/x", "2026-02-01T00:00:00Z"));
    assert_eq!((second.status, &json_of(&second)["warnings"]), (201, &json!([])));
    // A younger route is accepted, and gets no request.
    let third = put(&gateway, "/routes/a", &aged("/x", "2026-03-01T00:00:00Z"));
    assert_eq!(third.status, 201, "{}", third.text());
    let warning = &json_of(&third)["warnings"][0];
    assert_eq!(warning["message"], "this route is shadowed: `b` takes its requests");
    assert_eq!((&warning["severity"], &warning["resource"]), (&json!("warning"), &json!("routes/a")));
    assert_eq!(get(&gateway, "/x"), "2026-02-01T00:00:00Z");
    // An older route takes over, even if its name and its position are later.
    assert_eq!(put(&gateway, "/routes/z", &aged("/x", "2026-01-01T02:00:00+02:00")).status, 201);
    assert_eq!(get(&gateway, "/x"), "2026-01-01T02:00:00+02:00");
    // If the times are equal, the smaller name wins. 00:00Z is 02:00+02:00.
    assert_eq!(put(&gateway, "/routes/y", &aged("/x", "2026-01-01T00:00:00.000Z")).status, 201);
    assert_eq!(get(&gateway, "/x"), "2026-01-01T00:00:00.000Z");
    for (name, by) in [("a", json!("y")), ("b", json!("y")), ("y", Value::Null), ("z", json!("y"))] {
        let listed = json_of(&call(&gateway, "GET", &format!("/routes?name={name}"), "", ""));
        assert_eq!(listed["items"][0]["shadowed_by"], by, "{name}");
        assert_eq!(live(&gateway, name)["shadowed_by"], by, "{name}");
    }
    let question = json!({"method": "GET", "url": "/x"});
    let answer = json_of(&call(&gateway, "POST", "/explain", JSON, &question.to_string()));
    assert_eq!(answer["route"]["name"], "y");
    let others = answer["others"].as_array().expect("a list");
    let why =
        |name: &str| others.iter().find(|other| other["name"] == name).expect("it is told")["why"].clone();
    assert_eq!(why("z"), "it matches, but it is younger (`created`)");
    // Without the oldest, the next one follows; it survives a restart.
    assert_eq!(call(&gateway, "DELETE", "/routes/y", "", "").status, 200);
    assert_eq!(get(&gateway, "/x"), "2026-01-01T02:00:00+02:00");
    gateway.kill_and_restart();
    assert_eq!(get(&gateway, "/x"), "2026-01-01T02:00:00+02:00");
    assert_eq!(live(&gateway, "b")["shadowed_by"], "z");
}

#[test]
fn without_an_age_on_both_sides_identical_routes_are_an_error() {
    let gateway = stored();
    let refused = |name: &str, value: &Value, words: &str| {
        let answer = put(&gateway, &format!("/routes/{name}"), value);
        assert_eq!(answer.status, 422, "{}", answer.text());
        assert!(answer.text().contains(words), "{}", answer.text());
    };
    let same = "identical to an earlier one";
    refused("a", &aged("/fixed", "2026-01-01T00:00:00Z"), same);
    assert_eq!(put(&gateway, "/routes/a", &aged("/x", "2026-01-01T00:00:00Z")).status, 201);
    refused("b", &json!({"match": "/x", "respond": "b"}), same);
    for odd in ["yesterday", "2026-01-01", "2026-02-30T00:00:00Z", "2026-01-01T00:00:00", ""] {
        refused("b", &aged("/x", odd), "is not a time");
    }
    assert_eq!(gateway.client().get("/fixed").text(), "file");
    // Age does not make a route more specific.
    assert_eq!(put(&gateway, "/routes/any", &aged("/*", "2001-01-01T00:00:00Z")).status, 201);
    assert_eq!(gateway.client().get("/x").text(), "2026-01-01T00:00:00Z");
    // Equally specific routes that both match: the older one, whatever their names.
    let header = |name: &str, created: &str| json!({"match": {"path": "/h", "headers": {name: "*"}}, "created": created, "respond": name});
    assert_eq!(put(&gateway, "/routes/h1", &header("x-a", "2026-02-01T00:00:00Z")).status, 201);
    assert_eq!(put(&gateway, "/routes/h2", &header("x-b", "2026-01-01T00:00:00Z")).status, 201);
    let both = "GET /h HTTP/1.1\r\nHost: a\r\nX-A: *\r\nX-B: *\r\n\r\n";
    assert_eq!(gateway.client().ask(both).text(), "x-b");
    assert_eq!(gateway.client().ask("GET /h HTTP/1.1\r\nHost: a\r\nX-A: *\r\n\r\n").text(), "x-a");
}

#[test]
fn check_warns_of_a_shadowed_route() {
    let folder = std::env::temp_dir().join(format!("tollgate-age-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("gate.yaml");
    let check = |routes: &str| {
        std::fs::write(
            &file,
            format!("listen: [{{bind: \":80\", name: a}}, {{bind: \":81\", name: b}}]\nroutes:\n{routes}"),
        )
        .expect("written");
        let ran = tollgate(&["check", &file.display().to_string()]);
        (ran.code, format!("{}{}", ran.out, ran.err))
    };
    let route =
        |created: &str, more: &str| format!("- {{match: /x, respond: one, created: {created}{more}}}\n");
    let (code, said) = check(&(route("2026-02-01T00:00:00Z", "") + &route("2026-01-01T00:00:00Z", "")));
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("warning: this route is shadowed: an older one with the same conditions"),
        "{said}"
    );
    assert!(said.contains("gate.yaml:3:") && said.contains("gate.yaml:4:"), "{said}");
    // Routes of different listeners do not conflict.
    let (code, said) = check(
        &(route("2026-02-01T00:00:00Z", ", listeners: a") + &route("2026-01-01T00:00:00Z", ", listeners: b")),
    );
    assert!(code == Some(0) && !said.contains("shadowed"), "{said}");
    let (code, said) = check(
        &(route("2026-02-01T00:00:00Z", ", listeners: a")
            + &route("2026-01-01T00:00:00Z", ", listeners: [a, b]")),
    );
    assert!(code == Some(0) && said.contains("shadowed"), "{said}");
    let _ = std::fs::remove_dir_all(folder);
}

const TEXTS: &str = "routes:\n\
    - {name: rest, match: /*, respond: rest}\n\
    - {name: api, match: {path_prefix: /api}, respond: api}\n\
    - {name: apis, match: {path_prefix: /apis/v}, respond: apis}\n\
    - {name: segment, match: /api/*, respond: segment}\n\
    - {name: deep, match: /api/deep/*, respond: deep}\n\
    - {name: php, match: {path_suffix: .php}, respond: php}\n\
    - {name: index, match: {path_suffix: /index.php}, respond: index}\n\
    - {name: posted, match: {path_suffix: .php, method: POST}, respond: posted}\n\
    - {name: exact, match: /exact.php, respond: exact}\n\
    - {name: regex, match: {path: {regex: '/r/.*[.]php'}}, respond: regex}\n\
    - {name: blank, match: {path_prefix: '/a%20b'}, respond: blank}\n\
    - {name: host, match: {host: b.example, path_prefix: /api-}, respond: host}\n";

#[test]
fn a_path_is_matched_by_the_text_that_it_begins_or_ends_with() {
    let gateway = Gateway::start(TEXTS);
    for (path, route) in [
        ("/", "rest"),
        ("/ap", "rest"),
        ("/apis", "api"),
        ("/api-docs/x", "api"),
        ("/apis/v1/x", "apis"),
        // Of the same length, whole segments win; a longer prefix of either kind wins.
        ("/api", "segment"),
        ("/api/", "segment"),
        ("/api/x", "segment"),
        ("/api/deep/x", "deep"),
        // Exact, then expressions, then suffixes, then prefixes.
        ("/x.php", "php"),
        ("/api/deep/x.php", "php"),
        ("/a/index.php", "index"),
        ("/index.php", "index"),
        ("/exact.php", "exact"),
        ("/r/x.php", "regex"),
        ("/x.php/y", "rest"),
        ("/x.PHP", "rest"),
        // The normal form is matched.
        ("/a%20bc", "blank"),
        ("/%61pis", "api"),
        ("/x/../apiz", "api"),
        ("/x.%70hp", "php"),
    ] {
        assert_eq!(gateway.client().get(path).text(), route, "{path}");
        assert_eq!(gateway.http2().get(path).text(), route, "{path}");
    }
    let ask =
        |request: &str| gateway.client().ask(format!("{request} HTTP/1.1\r\nHost: b.example\r\n\r\n")).text();
    assert_eq!(ask("GET /api-docs"), "host");
    // If the host has no matching route, the routes of any host apply.
    assert_eq!([ask("GET /apix"), ask("GET /x.php"), ask("POST /x.php")], ["api", "php", "posted"]);
}

#[test]
fn texts_have_names_and_mistakes_have_places() {
    let folder = std::env::temp_dir().join(format!("tollgate-texts-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("gate.yaml");
    let run = |command: &[&str], routes: &str| {
        std::fs::write(&file, format!("listen: \":80\"\nroutes:\n{routes}")).expect("written");
        let name = file.display().to_string();
        let arguments = [&command[..1], &[&*name], &command[1..]].concat();
        let ran = tollgate(&arguments);
        (ran.code, format!("{}{}", ran.out, ran.err))
    };
    for (matched, words) in [
        ("{path_suffix: '*.php'}", "has a `*`"),
        ("{path_prefix: '/api*'}", "has a `*`"),
        ("{path_prefix: api}", "does not begin with `/`"),
        ("{path_suffix: ''}", "is the end of every path"),
        ("{path_suffix: '.php?x'}", "is more than a path"),
        ("{path: /x, path_suffix: .php}", "exclude each other"),
        ("{path_prefix: /x, path_suffix: .php}", "exclude each other"),
        ("{path_prefix: '/a\\\\b'}", "has a `\\`"),
    ] {
        let (code, said) = run(&["check"], &format!("- {{match: {matched}, respond: x}}\n"));
        assert_eq!(code, Some(1), "{matched}: {said}");
        assert!(said.contains(words) && said.contains("gate.yaml:3:"), "{matched}: {said}");
    }
    let (code, said) =
        run(&["check"], "- {match: {path_prefix: /api}, to: \"127.0.0.1:1\", rewrite: {prefix: /}}\n");
    assert!(code == Some(1) && said.contains("only if the route matches a prefix"), "{said}");
    let twice =
        "- {match: {path_suffix: .php}, respond: one}\n- {match: {path_suffix: .php}, respond: two}\n";
    let (code, said) = run(&["check"], twice);
    assert!(code == Some(1) && said.contains("identical to an earlier one"), "{said}");
    let both = "- {match: {path_suffix: .php}, respond: one}\n- {match: {path_prefix: /x}, respond: two}\n";
    let (code, said) = run(&["check"], both);
    assert!(code == Some(0) && !said.contains("warning"), "{said}");
    let (_, said) = run(&["explain", "GET", "/x.php"], both);
    assert!(said.contains("route     *.php") && said.contains("not       /x*"), "{said}");
    assert!(said.contains("its path is less specific"), "{said}");
    let _ = std::fs::remove_dir_all(folder);
}
