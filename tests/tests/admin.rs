//! Roles, tokens and the audit log of the admin listener, through the real binary.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_tests::api::json_of;
use tollgate_tests::{
    Authority, Client, Gateway, Response, Signal, TlsPeer, binary, eventually, free_address, free_port,
    refused_address, tollgate,
};

const READER: &str = "reader-reader-reader";
const WRITER: &str = "writer-writer-writer";
const OWNER: &str = "owner-owner-owner-owner";

/// Starts a gateway with three tokens, one of them written as its hash, and an audit log.
fn guarded() -> Gateway {
    Gateway::start(&format!(
        "store: $DIR/store\nadmin:\n  bind: $ADMIN\n  audit_log: audit.jsonl\n  tokens:\n    dashboard: {{role: read, token: {READER}}}\n    \
         ci: {{role: write, token: {WRITER}}}\n    ops: {{role: admin, token: \"sha256:{}\"}}\nroutes: [{{name: fixed, match: /fixed, respond: file}}]",
        sha256(OWNER)
    ))
}

/// Computes a hash with `sha256sum`, as a person would.
fn sha256(text: &str) -> String {
    let script = format!("printf %s '{text}' | sha256sum");
    let out = Command::new("sh").args(["-c", &script]).output().expect("sha256sum");
    String::from_utf8(out.stdout).expect("text").split(' ').next().expect("a hash").to_owned()
}

fn ask(gateway: &Gateway, method: &str, path: &str, token: &str, body: &str) -> Response {
    let token = if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
    raw(gateway, method, path, &format!("{token}Content-Type: application/json\r\n"), body)
}

fn raw(gateway: &Gateway, method: &str, path: &str, lines: &str, body: &str) -> Response {
    let mut client = Client::connect(gateway.admin_address(), Arc::default());
    let length = body.len();
    client.ask(format!(
        "{method} {path} HTTP/1.1\r\nHost: gateway.example:9911\r\n{lines}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    ))
}

fn audit(gateway: &Gateway) -> Vec<Value> {
    let text = std::fs::read_to_string(gateway.directory().join("audit.jsonl")).expect("the audit log");
    // The last line may be incomplete.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

#[test]
fn without_a_token_only_liveness_is_shown() {
    let gateway = guarded();
    for path in ["/healthz", "/readyz", "/", "/dashboard/"] {
        assert_eq!(ask(&gateway, "GET", path, "", "").status, 200, "{path}");
    }
    let paths = [
        "/metrics",
        "/status",
        "/upstreams",
        "/cost",
        "/api/v1",
        "/api/v1/live",
        "/api/v1/config",
        "/api/v1/openapi.json",
        "/no-such-page",
    ];
    for path in paths {
        let answer = ask(&gateway, "GET", path, "", "");
        assert_eq!(answer.status, 401, "{path} {answer:?}");
        assert_eq!(answer.headers.get("www-authenticate"), Some("Bearer realm=\"tollgate\""), "{path}");
        assert_eq!(json_of(&answer)["error"], "unauthorized");
    }
    let wrong = ask(&gateway, "GET", "/metrics", "reader-reader-readex", "");
    let challenge = wrong.headers.get("www-authenticate").expect("a challenge");
    assert!(wrong.status == 401 && challenge.contains("invalid_token"), "{wrong:?}");
    for line in ["Authorization: Basic cmVhZGVy\r\n", "Authorization: Bearer\r\n", "Authorization: x\r\n"] {
        assert_eq!(raw(&gateway, "GET", "/metrics", line, "").status, 401, "{line}");
    }
    let scheme = format!("Authorization: bearer {READER}\r\n");
    assert_eq!(raw(&gateway, "GET", "/metrics", &scheme, "").status, 200);
    assert!(!gateway.stderr().contains("-reader"));
}

#[test]
fn each_role_opens_what_it_is_for() {
    let gateway = guarded();
    let route = json!({"match": "/a", "respond": "x"}).to_string();
    let copy = json!({"to": gateway.directory().join("copy").display().to_string()}).to_string();
    let question = json!({"method": "GET", "url": "http://x/fixed"}).to_string();
    let requests = [
        ("GET", "/metrics", "", [200, 200, 200]),
        ("GET", "/api/v1/routes/fixed", "", [200, 200, 200]),
        ("POST", "/api/v1/explain", question.as_str(), [200, 200, 200]),
        ("PUT", "/api/v1/routes/a?dry_run=true", route.as_str(), [403, 200, 200]),
        ("PUT", "/api/v1/routes/a", route.as_str(), [403, 201, 200]),
        ("POST", "/api/v1/rollback/0", "", [403, 200, 200]),
        ("POST", "/api/v1/store/compact", "", [403, 403, 200]),
        ("POST", "/api/v1/store/backup", copy.as_str(), [403, 403, 200]),
    ];
    for (method, path, body, statuses) in requests {
        for (token, status) in [READER, WRITER, OWNER].into_iter().zip(statuses) {
            let answer = ask(&gateway, method, path, token, body);
            assert_eq!(answer.status, status, "{method} {path} by {token}: {answer:?}");
            if status == 403 {
                let needed = if path.contains("/store/") { "admin" } else { "write" };
                let message = json_of(&answer)["message"].to_string();
                assert!(message.contains(&format!("`{needed}`")), "{message}");
                let challenge = answer.headers.get("www-authenticate").expect("a challenge");
                assert!(challenge.contains(&format!("scope=\"{needed}\"")), "{challenge}");
            }
        }
    }
    // The API reports the caller's role before the caller tries a change.
    for (token, who, role) in
        [(READER, "dashboard", "read"), (WRITER, "ci", "write"), (OWNER, "ops", "admin")]
    {
        let reported = json_of(&ask(&gateway, "GET", "/api/v1", token, ""));
        assert_eq!((&reported["who"], &reported["role"]), (&json!(who), &json!(role)), "{reported}");
    }
    // A page of another origin changes nothing, whatever it sends.
    let lines = format!(
        "Authorization: Bearer {OWNER}\r\nContent-Type: application/json\r\nOrigin: http://evil.example\r\n"
    );
    assert_eq!(raw(&gateway, "PUT", "/api/v1/routes/a", &lines, &route).status, 403);
}

#[test]
fn a_client_that_leaves_before_the_response_is_audited() {
    let gateway = guarded();
    let put = |name: &str| {
        let route = json!({"match": format!("/{name}"), "respond": "x"}).to_string();
        format!(
            "PUT /api/v1/routes/{name} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {WRITER}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{route}",
            route.len()
        )
    };
    for n in 0..40 {
        let mut stream = TcpStream::connect(gateway.admin_address()).expect("a connection");
        stream.write_all(put(&format!("r{n}")).as_bytes()).expect("sent");
        // Some clients close at once, others while the change is in progress.
        std::thread::sleep(std::time::Duration::from_micros(100 * n));
    }
    let route = json!({"match": "/last", "respond": "x"}).to_string();
    assert_eq!(ask(&gateway, "PUT", "/api/v1/routes/last", WRITER, &route).status, 201);
    let changes = || gateway.stderr().matches("audit: version").count();
    eventually("a line for each change", || changes() > 0 && audit(&gateway).len() == changes());
}

#[test]
fn changes_are_in_the_audit_log_and_the_history() {
    let gateway = guarded();
    let route = json!({"match": "/a", "respond": "x"}).to_string();
    assert_eq!(ask(&gateway, "PUT", "/api/v1/routes/a", WRITER, &route).status, 201);
    assert_eq!(ask(&gateway, "PUT", "/api/v1/routes/a", WRITER, &route).status, 200);
    assert_eq!(ask(&gateway, "DELETE", "/api/v1/routes/a?dry_run=true", WRITER, "").status, 200);
    assert_eq!(ask(&gateway, "PUT", "/api/v1/routes/b", OWNER, "{}").status, 422);
    assert_eq!(ask(&gateway, "DELETE", "/api/v1/routes/a", READER, "").status, 403);
    assert_eq!(ask(&gateway, "POST", "/api/v1/store/compact", OWNER, "").status, 200);
    // The log records neither reads nor requests without a valid token.
    assert_eq!(ask(&gateway, "GET", "/api/v1/config", WRITER, "").status, 200);
    assert_eq!(ask(&gateway, "DELETE", "/api/v1/routes/a", "", "").status, 401);
    let lines = audit(&gateway);
    let reported = |line: &Value| {
        let keys = [
            "who",
            "role",
            "method",
            "path",
            "status",
            "outcome",
            "error",
            "version_before",
            "version_after",
        ];
        keys.map(|key| line[key].clone())
    };
    let none = Value::Null;
    let expected = [
        json!(["ci", "write", "PUT", "/api/v1/routes/a", 201, "changed", none, 0, 1]),
        json!(["ci", "write", "PUT", "/api/v1/routes/a", 200, "unchanged", none, 1, 1]),
        json!(["ci", "write", "DELETE", "/api/v1/routes/a", 200, "dry_run", none, 1, 1]),
        json!(["ops", "admin", "PUT", "/api/v1/routes/b", 422, "refused", "invalid", none, none]),
        json!(["dashboard", "read", "DELETE", "/api/v1/routes/a", 403, "refused", "forbidden", none, none]),
        json!(["ops", "admin", "POST", "/api/v1/store/compact", 200, "done", none, none, none]),
    ];
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for (line, expected) in lines.iter().zip(&expected) {
        assert_eq!(&json!(reported(line)), expected);
    }
    assert_eq!(lines[0]["resources"], json!(["routes/a"]));
    assert!(lines[0]["peer"].as_str().is_some_and(|peer| peer.starts_with("127.")), "{lines:?}");
    let at = lines[0]["at"].as_str().expect("a time");
    assert!(at.len() == 24 && at.ends_with('Z'), "{at}");
    let mode =
        std::fs::metadata(gateway.directory().join("audit.jsonl")).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let history = json_of(&ask(&gateway, "GET", "/api/v1/history", READER, ""));
    assert_eq!(history["versions"][0]["who"], "ci");
}

/// An editor checks while its user types. Checks change nothing, whatever else the request says.
#[test]
fn checks_leave_no_line_in_the_audit_log_unless_the_role_is_missing() {
    let gateway = guarded();
    let route = json!({"match": "/a", "respond": "x"}).to_string();
    let changes = json!({"changes": [{"op": "put", "kind": "routes", "name": "b", "value": {"match": "/b", "respond": "x"}}]});
    let changes = changes.to_string();
    for (method, path, body, status) in [
        ("PUT", "routes/a?check=true", route.as_str(), 200),
        ("PUT", "routes/a?check=true&dry_run=false", &route, 200),
        ("PUT", "routes/a?check=true", "{}", 422),
        ("PATCH", "routes/a?check=true", &route, 404),
        ("DELETE", "routes/a?check=true", "", 404),
        ("POST", "transactions?check=true", &changes, 200),
        ("POST", "rollback/7?check=true", "", 404),
    ] {
        let answer = ask(&gateway, method, &format!("/api/v1/{path}"), WRITER, body);
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
    }
    assert_eq!(json_of(&ask(&gateway, "GET", "/api/v1", WRITER, ""))["version"], 0, "nothing is changed");
    // A client without the role may not check either, and that is recorded.
    assert_eq!(ask(&gateway, "PUT", "/api/v1/routes/a?check=true", READER, &route).status, 403);
    let lines = audit(&gateway);
    assert_eq!(
        (lines.len(), &lines[0]["who"], &lines[0]["outcome"]),
        (1, &json!("dashboard"), &json!("refused"))
    );
}

#[test]
fn a_token_that_is_taken_out_of_the_file_opens_nothing_from_then_on() {
    let gateway = guarded();
    assert_eq!(ask(&gateway, "GET", "/status", READER, "").status, 200);
    gateway.write_config(&format!(
        "store: $DIR/store\nadmin: {{bind: $ADMIN, tokens: {{ops: {{role: admin, token: {OWNER}}}}}}}\nroutes: [{{match: /b, respond: b}}]"
    ));
    gateway.signal(Signal::HUP);
    eventually("the new file", || gateway.client().get("/b").status == 200);
    eventually("the new tokens", || ask(&gateway, "GET", "/status", READER, "").status == 401);
    assert_eq!(ask(&gateway, "GET", "/status", OWNER, "").status, 200);
}

#[test]
fn a_public_admin_listener_needs_protection() {
    let directory = std::env::temp_dir().join(format!("tollgate-e2e-admin-open-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let file = directory.join("open.yaml");
    let check = |admin: &str| {
        let text = format!("listen: 127.0.0.1:0\nadmin: {admin}\nroutes: [{{match: /a, respond: a}}]\n");
        std::fs::write(&file, text).expect("written");
        tollgate(&["check", file.to_str().expect("UTF-8")])
    };
    let ran = check("0.0.0.0:9911");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.all().contains("no access rules are configured") && ran.all().contains("`open: on`"),
        "{ran:?}"
    );
    assert_eq!(check("{bind: 0.0.0.0:9911, open: on}").code, Some(0));
    let ran = check("{bind: 0.0.0.0:9911, tokens: {a: {role: read, token: 0123456789abcdef}}}");
    assert!(ran.code == Some(0) && ran.all().contains("plain text"), "{ran:?}");
    let ran = check("{bind: 127.0.0.1:0, tokens: {a: {role: read, token: \"${NO_SUCH_TOKEN}\"}}}");
    assert!(ran.code == Some(1) && ran.all().contains("`NO_SUCH_TOKEN` is not set"), "{ran:?}");
    let _ = std::fs::remove_dir_all(&directory);
}

#[test]
fn a_public_listener_must_be_read_only() {
    let gateway = Gateway::start("store: $DIR/store\nroutes: [{match: /a, respond: a}]");
    let port = free_port();
    gateway.write_config(&format!(
        "admin: {{bind: 0.0.0.0:{port}, open: on}}\nstore: $DIR/store\nroutes: [{{match: /b, respond: b}}]"
    ));
    gateway.signal(Signal::HUP);
    eventually("the new file", || gateway.client().get("/b").status == 200);
    let ask = |method: &str, path: &str, body: &str| {
        let mut client = Client::connect(SocketAddr::from(([127, 0, 0, 1], port)), Arc::default());
        let length = body.len();
        client.ask(format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        ))
    };
    assert_eq!(ask("GET", "/api/v1/routes", "").status, 200);
    assert_eq!(ask("POST", "/api/v1/explain", r#"{"method": "GET", "url": "http://x/a"}"#).status, 200);
    let refused = ask("PUT", "/api/v1/routes/a", r#"{"match": "/a", "respond": "a"}"#);
    assert_eq!(refused.status, 403);
    assert!(refused.text().contains("tokens"), "{refused:?}");
}

/// A gateway whose admin listener is a Unix socket or uses TLS, so that [`Gateway`] cannot reach it.
struct Local {
    child: Child,
    directory: std::path::PathBuf,
}

impl Local {
    /// Starts it with these files in its directory, and waits until it is ready.
    fn start(name: &str, admin: &str, files: &[(&str, &str)], is_ready: impl Fn(&Self) -> bool) -> Self {
        let directory = std::env::temp_dir().join(format!("tollgate-e2e-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let text = format!(
            "listen: {}\nadmin: {}\nstore: store\nworkers: 1\nroutes: []\n",
            free_address(),
            admin.replace("$DIR", directory.to_str().expect("UTF-8"))
        );
        for (name, text) in files.iter().chain([&("tollgate.yaml", text.as_str())]) {
            std::fs::write(directory.join(name), text).expect("written");
        }
        let mut command = Command::new(binary());
        command.arg("run").arg(directory.join("tollgate.yaml")).stdin(Stdio::null());
        let child = command.stdout(Stdio::null()).spawn().expect("tollgate starts");
        let local = Self { child, directory };
        eventually("readiness", || is_ready(&local));
        local
    }

    fn at_its_socket(name: &str, admin: &str) -> Self {
        Self::start(name, admin, &[], |local| {
            UnixStream::connect(local.socket()).is_ok()
                && local.ask("GET", "/readyz", "").starts_with("HTTP/1.1 200")
        })
    }

    fn socket(&self) -> std::path::PathBuf {
        self.directory.join("admin.sock")
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = UnixStream::connect(self.socket()).expect("the socket is there");
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("there").permissions().mode() & 0o777
}

#[test]
fn a_unix_socket_is_for_whom_its_file_lets_in() {
    let mut local =
        Local::at_its_socket("unix", "{bind: unix:$DIR/admin.sock, mode: 660, audit_log: audit.jsonl}");
    assert_eq!(mode(&local.socket()), 0o660);
    let put = local.ask("PUT", "/api/v1/routes/a", r#"{"match": "/a", "respond": "a"}"#);
    assert!(put.starts_with("HTTP/1.1 201"), "{put}");
    let log = std::fs::read_to_string(local.directory.join("audit.jsonl")).expect("the audit log");
    let line: Value = serde_json::from_str(log.trim_end()).expect("JSON");
    let user = rustix::process::getuid().as_raw();
    assert_eq!((&line["who"], &line["peer"]), (&json!("local"), &json!(format!("unix:uid={user}"))));
    // Another process does not take the socket over.
    let address =
        format!("listen: {}\nadmin: unix:{}\nroutes: []\n", refused_address(), local.socket().display());
    let other = local.directory.join("other.yaml");
    std::fs::write(&other, address).expect("written");
    let ran = tollgate(&["run", other.to_str().expect("UTF-8")]);
    assert!(ran.code == Some(1) && ran.all().contains("listens there already"), "{ran:?}");
    assert!(local.ask("GET", "/readyz", "").starts_with("HTTP/1.1 200"));
    let id = i32::try_from(local.child.id()).ok().and_then(rustix::process::Pid::from_raw).expect("an id");
    let signal = |signal| rustix::process::kill_process(id, signal).expect("it is there");
    // A reload may change the socket's mode.
    let file = local.directory.join("tollgate.yaml");
    let text = std::fs::read_to_string(&file).expect("its file").replace("mode: 660", "mode: 600");
    let text = text.replace("routes: []", "routes: [{name: later, match: /later, respond: x}]");
    std::fs::write(&file, text).expect("written");
    signal(Signal::HUP);
    eventually("the new mode", || mode(&local.socket()) == 0o600);
    assert!(local.ask("GET", "/api/v1/routes", "").contains("/later"));
    // A user that does not exist changes nothing.
    let text = std::fs::read_to_string(&file)
        .expect("its file")
        .replace("mode: 600", "mode: 666, owner: no-such-user");
    std::fs::write(&file, text.replace("/later", "/never")).expect("written");
    signal(Signal::HUP);
    eventually("the refusal", || local.ask("GET", "/status", "").contains("there is no user"));
    assert_eq!(mode(&local.socket()), 0o600);
    assert!(local.ask("GET", "/api/v1/routes", "").contains("/later"));
    signal(Signal::TERM);
    assert_eq!(local.child.wait().expect("ours").code(), Some(0));
    assert!(!local.socket().exists(), "it takes its socket along");
}

#[test]
fn a_client_certificate_opens_the_admin_listener() {
    let (authority, stranger) = (Authority::new(), Authority::called("a stranger"));
    let (server, mine) = (authority.issue(&["localhost"]), authority.issue(&["ops.example"]));
    let address = free_address();
    let admin = format!(
        "{{bind: \"{address}\", audit_log: audit.jsonl, tls: {{certificate: a.pem, key: a.key, client_certificates: {{ca: ca.pem}}}}}}"
    );
    let files =
        [("a.pem", server.chain.as_str()), ("a.key", server.key.as_str()), ("ca.pem", &authority.pem())];
    let with = |client: &TlsPeer, request: &str| {
        let mut client = client.shake_hands(TcpStream::connect(address).ok()?, "localhost").ok()?;
        // A refused client learns of it in the handshake (TLS 1.2), or with the first answer (TLS 1.3).
        if !request.is_empty() {
            client.send(request.as_bytes());
        }
        client.answer().ok()
    };
    let showing = TlsPeer::showing(&authority, &mine);
    let ready = "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let local = Local::start("mutual", &admin, &files, |_| {
        with(&showing, ready).is_some_and(|answer| answer.starts_with("HTTP/1.1 200"))
    });
    let body = r#"{"match": "/a", "respond": "a"}"#;
    let put = format!(
        "PUT /api/v1/routes/a HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let answer = with(&showing, &put).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let log = std::fs::read_to_string(local.directory.join("audit.jsonl")).expect("the audit log");
    let line: Value = serde_json::from_str(log.trim_end()).expect("JSON");
    assert!(line["who"].as_str().is_some_and(|who| who.contains("CN=")), "{line}");
    // Clients without a certificate, with another authority's certificate, or in plain text get no answer.
    let foreign = TlsPeer::showing(&authority, &stranger.issue(&["ops.example"]));
    for client in [&TlsPeer::trusting(&authority), &foreign] {
        assert_eq!(with(client, ""), None);
    }
    let mut plain = TcpStream::connect(address).expect("it is there");
    plain.write_all(ready.as_bytes()).expect("sent");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}
