//! `tollgate explain`.

use serde_json::Value;

use super::{arg, file, run, run_with_input};

const CONFIG: &str = r#"listen: 127.0.0.1:8080
request_id: on
forwarded: { trusted_proxies: [10.0.0.0/8] }
upstreams:
  stable: [10.0.0.1:80, 10.0.0.2:80]
  ruled:
    endpoints:
      - 10.1.0.1:80
      - { address: 10.1.0.2:80, weight: 3 }
      - { address: 10.1.0.3:80, priority: 1, zone: far }
    balance: { policy: hash, by: { header: X-User }, slow_start: 30s }
    limits: { connections: 100, requests: 200 }
    queue: { size: 10, timeout: 250ms }
    breaker: { slow_after: 2s }
    retry: { attempts: 3, on: [reset, 502-504], methods: [GET, POST], per_try: 1s }
    hedge: 50ms
    health: /healthz
    outlier: off
    adaptive: on
  found: { discover: "dns://orders.internal:8080", endpoints: 10.2.0.1:80 }
zone: near
routes:
  - name: ruled
    match: /ruled
    to: ruled
    priority: low
  - name: found
    match: /found
    to: [found, stable]
    retry: off
  - name: v1
    match: api.example.com/v1/*
    to:
      - { upstream: stable, weight: 3 }
      - { address: "10.0.9.9:80", weight: 1 }
    rewrite: { prefix: /, host: internal.example }
    timeouts: { total: 1500ms }
  - name: v1-users
    match: { host: api.example.com, path: /v1/users, method: POST }
    to: stable
    limits: { body: 100 }
  - name: old
    match: /old/*
    redirect: { prefix: /new, status: 301 }
  - name: status
    match: { path: /status, query: { full: present } }
    respond: { json: { ok: true } }
  - name: socket
    match: "*.example.org/ws"
    to: stable
"#;

#[test]
fn a_table_of_cases() {
    let file = file(CONFIG);
    let line = |needle: &str| 1 + CONFIG.lines().position(|line| line.contains(needle)).expect("a line");
    let v1 = format!("v1 ({}:{})", arg(&file), line("name: v1"));
    let cases: &[(&[&str], i32, &[&str])] = &[
        (
            &["GET", "http://api.example.com/v1/./a%2db?q=1"],
            0,
            &[
                "/v1/./a%2db -> /v1/a-b",
                &v1,
                "/v1/./a%2db?q=1 -> /a-b?q=1",
                "~ Host: api.example.com -> internal.example",
                "+ X-Forwarded-For: 127.0.0.1",
                "+ X-Forwarded-Host: api.example.com",
                "+ X-Request-Id: <new id>",
                "upstream stable, weight 3",
                "10.0.0.1:80, weight 1: 37.5 % of the requests",
                "10.0.9.9:80, weight 1: 25 % of the requests",
                "total 1500ms",
                "v1-users",
                "the path does not match",
            ],
        ),
        (
            &["POST", "api.example.com/v1/users"],
            0,
            &["v1-users (", "it matches, but its path is less specific"],
        ),
        (&["GET", "api.example.com/v1/users"], 0, &["v1 (", "the method does not match"]),
        (
            &["POST", "api.example.com/v1/users", "-H", "Content-Length: 101"],
            1,
            &["413", "body_too_large", "v1-users ("],
        ),
        (
            &["GET", "/old/x?q", "-H", "Host: h:81"],
            0,
            &["301 Moved Permanently", "Location: http://h:81/new/x?q"],
        ),
        (&["GET", "/status?full"], 0, &["200 OK", "application/json", r#"{\"ok\":true}"#]),
        (
            &["GET", "/ruled"],
            0,
            &[
                "10.1.0.1:80, weight 1: 25 % of the requests",
                "10.1.0.2:80, weight 3: 75 % of the requests",
                "10.1.0.3:80, weight 1, priority 1, zone far: 0 % of the requests",
                "\nbalance   hash by header `x-user`; slow start over 30s\n",
                "\nlimits    connections 100, requests 200\n",
                "\nqueue     at most 10 requests, each for at most 250ms\n",
                "\nbreaker   opens for 5s at 50 % failures or 100 % slower than 2s, of at least 20 calls in 10s\n",
                "\nretry     at most 3 attempts, after reset or 502-504; GET, POST; 1s for each\n",
                "\nhedge     a second attempt after 50ms\n",
                "\nhealth    GET /healthz every 5s\n",
                "\noutlier   off\n",
                "\nadaptive  between 3 and 10000 requests at a time\n",
                "\npriority  low: shed first",
            ],
        ),
        (
            &["GET", "/found"],
            0,
            &[
                "10.2.0.1:80, weight 1\n",
                "  discover: dns://orders.internal:8080\n",
                "10.0.0.2:80, weight 1: 25 % of the requests\n",
                "  retry: off\n",
            ],
        ),
        (
            &["GET", "/status"],
            1,
            &["404", "no_route", "the condition on query parameter `full` does not hold"],
        ),
        (&["GET", "/a%2Fb"], 1, &["400", "bad_path", "encoded slash"]),
        (&["GET", "/../x"], 1, &["400", "above the root"]),
        (&["CONNECT", "h:443"], 1, &["405", "connect_refused"]),
        (
            &["GET", "/x", "-H", "Content-Length: 1", "-H", "Content-Length: 2"],
            1,
            &["400", "ambiguous_length"],
        ),
        (&["GET", "/x", "-H", "Host: a b"], 1, &["400", "bad_host"]),
        (
            &[
                "GET",
                "a.example.org/ws",
                "-H",
                "Connection: Upgrade, X-Mine",
                "-H",
                "Upgrade: websocket",
                "-H",
                "X-Mine: 1",
            ],
            0,
            &["upgraded 3600s", "allowed, if the endpoint agrees", "- X-Mine: 1"],
        ),
        (
            &["GET", "a.example.org/ws", "-H", "X-Forwarded-For: 192.0.2.9", "--from", "10.1.2.3"],
            0,
            &["~ X-Forwarded-For: 192.0.2.9 -> 192.0.2.9, 10.1.2.3"],
        ),
        (
            &["GET", "a.example.org/ws", "-H", "X-Forwarded-For: 192.0.2.9"],
            0,
            &["~ X-Forwarded-For: 192.0.2.9 -> 127.0.0.1"],
        ),
    ];
    for (args, code, words) in cases {
        let ran = run(&[&["explain", arg(&file)], *args].concat());
        assert_eq!(ran.code, Some(*code), "{args:?}: {ran:?}");
        for word in *words {
            assert!(ran.out.contains(word), "{args:?}: `{word}` is not in:\n{}", ran.out);
        }
        assert!(ran.err.is_empty(), "{args:?}: {ran:?}");
    }
}

#[test]
fn json_has_the_same_answer() {
    let file = file(CONFIG);
    let json = |args: &[&str]| -> Value {
        serde_json::from_str(&run(&[&["explain", arg(&file), "--json"], args].concat()).out).expect("JSON")
    };
    let forward = json(&["GET", "api.example.com/v1/x"]);
    assert_eq!(forward["route"]["name"], "v1");
    let line = 1 + CONFIG.lines().position(|line| line.contains("name: v1")).expect("a line");
    assert_eq!(forward["route"]["line"], line);
    assert_eq!(forward["forward"]["target"], "/x");
    assert_eq!(forward["forward"]["timeouts"]["total_ms"], 1500);
    assert_eq!(forward["forward"]["upstreams"][0]["endpoints"][0]["share"], 0.375);
    assert_eq!(forward["forward"]["headers"][0]["name"], "Host");
    assert!(forward["refused"].is_null() && forward["redirect"].is_null());
    assert_eq!(forward["others"].as_array().map(Vec::len), Some(6));
    let ruled = json(&["GET", "/ruled"]);
    assert_eq!(ruled["forward"]["upstreams"][0]["endpoints"][1]["share"], 0.75);
    assert_eq!(ruled["forward"]["upstreams"][0]["rules"]["outlier"], "off");
    assert_eq!(ruled["forward"]["priority"], "low");
    assert!(json(&["GET", "/found"])["forward"]["upstreams"][0]["endpoints"][0]["share"].is_null());

    let redirect = json(&["GET", "h/old/x"]);
    assert_eq!(redirect["redirect"]["location"], "http://h/new/x");
    let respond = json(&["GET", "/status?full=1"]);
    assert_eq!(respond["respond"]["status"], 200);
    let refused = json(&["GET", "/nowhere"]);
    assert_eq!(refused["refused"]["reason"], "no_route");
    assert!(refused["route"].is_null());
}

#[test]
fn with_many_routes_the_nearest_are_shown() {
    let routes: String = (0..2000).map(|n| format!("  - {{ match: \"/r{n}/*\", respond: 204 }}\n")).collect();
    let file = file(&format!("listen: 127.0.0.1:8080\nroutes:\n{routes}"));
    let ran = run(&["explain", arg(&file), "GET", "/r77/x"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("/r770/*") && !ran.out.contains("/r1000/*"), "{}", ran.out);
    assert!(ran.out.contains("and 1989 more"), "{}", ran.out);
    let ran = run(&["explain", arg(&file), "GET", "/r77/x", "--all"]);
    assert!(ran.out.contains("/r1000/*") && !ran.out.contains(" more"), "all of them");
}

#[test]
fn bad_usage_is_2() {
    let good = file(CONFIG);
    let bad = file("routes: [{match: /x}]");
    for args in [
        &[arg(&good), "GET"][..],
        &[arg(&good), "GET", ""],
        &[arg(&good), "G T", "/"],
        &[arg(&good), "GET", "ftp://h/"],
        &[arg(&good), "GET", "/a\r\nX: y"],
        &[arg(&good), "GET", "/", "-H", "no colon"],
        &[arg(&good), "GET", "/", "-H", "A: b\r\nC: d"],
        &[arg(&good), "GET", "/", "--from", "nobody"],
        &[arg(&bad), "GET", "/"],
        &["/no/such/file.yaml", "GET", "/"],
    ] {
        let ran = run(&[&["explain"], args].concat());
        assert_eq!(ran.code, Some(2), "{args:?}: {ran:?}");
        assert!(ran.out.is_empty() && !ran.err.is_empty(), "{args:?}: {ran:?}");
    }
}

#[test]
fn a_file_from_standard_input() {
    let ran = run_with_input(&["explain", "-", "GET", "/old/x"], CONFIG);
    assert!(ran.code == Some(0) && ran.out.contains("old (standard input:"), "{ran:?}");
}
