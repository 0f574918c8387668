//! Files that the API and the configuration name. Pipes, links and devices block nothing, and an API document
//! can read only the files that the operator permits.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tollgate_tests::api::{call, json_of, put};
use tollgate_tests::{Authority, Gateway, Signal, eventually};

/// Starts a gateway whose API documents may name files under `$DIR/files`.
fn gateway() -> Gateway {
    let gateway = Gateway::start(
        "store: $DIR/store\nadmin: {bind: $ADMIN, files: $DIR/files}\nroutes: [{name: fixed, match: /fixed, respond: file}]",
    );
    fs::create_dir_all(gateway.directory().join("files")).expect("a directory");
    gateway
}

/// Creates a named pipe.
fn pipe(path: &Path) {
    let mode = rustix::fs::Mode::from(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).expect("a pipe");
}

fn file(gateway: &Gateway, name: &str) -> PathBuf {
    gateway.directory().join("files").join(name)
}

fn discover(path: &Path) -> Value {
    json!({ "discover": format!("file:{}", path.display()) })
}

/// Asserts that the gateway answers, reloads its file, and accepts a change.
fn is_alive(gateway: &Gateway, mark: &str) {
    for path in ["/healthz", "/readyz", "/status", "/upstreams"] {
        assert_eq!(gateway.admin(path).status, 200, "{path}");
    }
    let before = gateway.stderr().len();
    gateway.signal(Signal::HUP);
    eventually("word of the reload", || gateway.stderr()[before..].contains("loaded"));
    let route = json!({"match": format!("/{mark}"), "respond": mark});
    assert_eq!(put(gateway, &format!("/routes/{mark}"), &route).status, 201);
    assert_eq!(gateway.client().get(&format!("/{mark}")).text(), mark);
}

#[test]
fn a_pipe_is_refused_before_the_change_is_durable() {
    let mut gateway = gateway();
    let (fifo, link) = (file(&gateway, "pipe"), file(&gateway, "link"));
    pipe(&fifo);
    symlink(&fifo, &link).expect("a link");
    // A process holds the other end open and writes nothing.
    let holder = fs::OpenOptions::new().read(true).write(true).open(&fifo).expect("both ends");
    let folder = file(&gateway, "");
    let version = |gateway: &Gateway| json_of(&call(gateway, "GET", "", "", ""))["version"].clone();
    for path in [&fifo, &link, &folder] {
        let answer = put(&gateway, "/upstreams/x", &discover(path));
        assert_eq!(answer.status, 422, "{}: {answer:?}", path.display());
        let certificate = json!({"certificate": path, "key": path});
        assert_eq!(put(&gateway, "/certificates/x", &certificate).status, 422, "{}", path.display());
        let route = json!({"match": "/j", "respond": "j", "policies": {"jwt": {"jwks": path}}});
        assert_eq!(put(&gateway, "/routes/j", &route).status, 422, "{}", path.display());
        let upstream = json!({"endpoints": "https://127.0.0.1:1", "tls": {"ca": path}});
        assert_eq!(put(&gateway, "/upstreams/t", &upstream).status, 422, "{}", path.display());
    }
    assert_eq!(version(&gateway), 0, "nothing was made durable");
    is_alive(&gateway, "a");
    // Files that were valid when they were named, and become pipes.
    let (list, authority) = (file(&gateway, "list.json"), file(&gateway, "ca.pem"));
    fs::write(&list, "[\"127.0.0.1:1\"]").expect("written");
    fs::write(&authority, Authority::new().pem()).expect("written");
    assert_eq!(put(&gateway, "/upstreams/x", &discover(&list)).status, 201);
    let upstream = json!({"endpoints": "https://127.0.0.1:1", "tls": {"ca": authority}});
    assert_eq!(put(&gateway, "/upstreams/t", &upstream).status, 201);
    for path in [&list, &authority] {
        fs::remove_file(path).expect("removed");
        pipe(path);
    }
    eventually("the look-up to fail", || gateway.admin("/upstreams").text().contains("it is a pipe"));
    assert_eq!(gateway.admin("/healthz").status, 200);
    let before = gateway.stderr().len();
    gateway.signal(Signal::HUP);
    eventually("the refusal", || gateway.stderr()[before..].contains("is not loaded"));
    assert!(gateway.stderr()[before..].contains("it is a pipe"), "{}", gateway.stderr());
    // A resource that names the file is refused; all others can still change.
    assert_eq!(put(&gateway, "/routes/b", &json!({"match": "/b", "respond": "b"})).status, 201);
    let again = put(&gateway, "/upstreams/t", &upstream);
    assert_eq!(again.status, 422, "{again:?}");
    assert_eq!(call(&gateway, "DELETE", "/upstreams/t", "", "").status, 200);
    is_alive(&gateway, "c");
    // The next start does not hang.
    gateway.kill_and_restart();
    assert_eq!(gateway.client().get("/c").text(), "c");
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait_exit().code(), Some(0), "{}", gateway.stderr());
    drop(holder);
}

#[test]
fn a_pipe_in_place_of_a_file_of_the_configuration_stops_nothing() {
    let gateway = gateway();
    let directory = gateway.directory().to_owned();
    let part = directory.join("part.yaml");
    fs::write(&part, "routes: [{match: /part, respond: part}]\n").expect("written");
    let authority = Authority::new();
    fs::write(directory.join("ca.pem"), authority.pem()).expect("written");
    let text = "store: $DIR/store\ninclude: [part.yaml]\nupstreams: {u: {endpoints: \"https://127.0.0.1:1\", tls: {ca: ca.pem}}}\n\
        routes: [{match: /new, respond: new}]\n";
    gateway.write_config(text);
    gateway.signal(Signal::HUP);
    eventually("the new file", || gateway.client().get("/new").status == 200);
    for name in ["part.yaml", "ca.pem"] {
        let path = directory.join(name);
        let good = fs::read(&path).expect("a file");
        fs::remove_file(&path).expect("removed");
        pipe(&path);
        let before = gateway.stderr().len();
        gateway.signal(Signal::HUP);
        eventually("the refusal", || gateway.stderr()[before..].contains("is not loaded"));
        assert!(gateway.stderr()[before..].contains("it is a pipe"), "{}", &gateway.stderr()[before..]);
        for path in ["/healthz", "/readyz", "/api/v1/routes"] {
            assert_eq!(gateway.admin(path).status, 200, "{name}: {path}");
        }
        assert_eq!(put(&gateway, "/routes/a", &json!({"match": "/a", "respond": name})).status / 100, 2);
        fs::remove_file(&path).expect("removed");
        fs::write(&path, good).expect("written");
    }
    gateway.signal(Signal::HUP);
    eventually("a good file again", || gateway.admin("/status").text().contains("\"ok\": true"));
}

#[test]
fn an_audit_log_that_is_a_pipe_keeps_no_change() {
    let gateway = gateway();
    let fifo = gateway.directory().join("audit");
    pipe(&fifo);
    gateway.write_config(
        "store: $DIR/store\nadmin: {bind: $ADMIN, audit_log: audit}\nroutes: [{match: /new, respond: new}]\n",
    );
    gateway.signal(Signal::HUP);
    // Without a reader the pipe cannot be opened, and the gateway says so.
    eventually("the refusal", || gateway.stderr().contains("cannot open the audit log"));
    let reader = fs::OpenOptions::new().read(true).write(true).open(&fifo).expect("both ends");
    gateway.signal(Signal::HUP);
    eventually("the new file", || gateway.client().get("/new").status == 200);
    assert_eq!(put(&gateway, "/routes/a", &json!({"match": "/a", "respond": "a"})).status, 201);
    drop(reader);
    assert_eq!(put(&gateway, "/routes/b", &json!({"match": "/b", "respond": "b"})).status, 201);
    gateway.await_message("the line is: ");
}

/// Text that only a file holds.
const SECRET: &str = "hunter2-hunter2";

#[test]
fn a_document_names_files_of_the_operators_directories_alone() {
    let gateway = gateway();
    let outside = gateway.directory().join("secret.txt");
    fs::write(&outside, format!("root:{SECRET}:0:0\n- {SECRET}: 1\n")).expect("written");
    let inside = file(&gateway, "secret.txt");
    fs::copy(&outside, &inside).expect("copied");
    symlink(&outside, file(&gateway, "link")).expect("a link");
    let refused = [
        outside.clone(),
        PathBuf::from("/etc/shadow"),
        PathBuf::from("/proc/self/environ"),
        PathBuf::from("secret.txt"),
        file(&gateway, "link"),
        file(&gateway, "../secret.txt"),
        PathBuf::from("/no/such/file"),
    ];
    let documents = |path: &Path| {
        [
            ("/upstreams/x", discover(path)),
            ("/certificates/x", json!({"certificate": path, "key": path})),
            ("/routes/x", json!({"match": "/x", "respond": "x", "policies": {"jwt": {"jwks": path}}})),
            ("/policies/x", json!({"forward_auth": {"url": "https://127.0.0.1:1/", "ca": path}})),
            ("/upstreams/y", json!({"endpoints": "https://127.0.0.1:1", "tls": {"ca": path}})),
        ]
    };
    for path in &refused {
        for (place, document) in documents(path) {
            let answer = put(&gateway, place, &document);
            assert_eq!(answer.status, 422, "{place} {}: {answer:?}", path.display());
            assert!(
                answer.text().contains("this file is not allowed here"),
                "{place} {}: {answer:?}",
                path.display()
            );
            assert!(!answer.text().contains(SECRET) && !answer.text().contains("no such file"), "{answer:?}");
        }
    }
    // An error about a permitted file does not quote its lines.
    for (place, document) in documents(&inside) {
        let answer = put(&gateway, place, &document);
        assert_eq!(answer.status, 422, "{place}: {answer:?}");
        assert!(!answer.text().contains(SECRET), "{place}: {answer:?}");
    }
    // A later error, in a look-up, does not quote them either.
    let list = file(&gateway, "list.json");
    fs::write(&list, "[\"127.0.0.1:1\"]").expect("written");
    assert_eq!(put(&gateway, "/upstreams/x", &discover(&list)).status, 201);
    fs::copy(&inside, &list).expect("copied");
    let shown = || gateway.admin("/upstreams").text();
    eventually("the look-up to fail", || shown().contains("list.json:"));
    assert!(!shown().contains(SECRET), "{}", shown());
    fs::remove_file(&list).expect("removed");
    symlink(&outside, &list).expect("a link");
    eventually("the look-up to fail", || shown().contains("it is outside the directories of `admin.files`"));
    for text in [shown(), gateway.admin("/status").text(), gateway.admin("/metrics").text(), gateway.stderr()]
    {
        assert!(!text.contains(SECRET), "{text}");
    }
}

#[test]
fn without_directories_a_document_names_no_files_and_the_file_all() {
    let gateway = Gateway::start(
        "store: $DIR/store\nupstreams: {own: {discover: \"file:list.json\"}}\nroutes: [{match: /own, to: own}]",
    );
    fs::write(gateway.directory().join("list.json"), format!("[\"{SECRET}:x\"]")).expect("written");
    let list = gateway.directory().join("list.json");
    let answer = put(&gateway, "/upstreams/x", &discover(&list));
    assert!(answer.status == 422 && answer.text().contains("`admin.files`"), "{answer:?}");
    // An error about a file that the operator names quotes its lines.
    eventually("the look-up to fail", || gateway.admin("/upstreams").text().contains(SECRET));
    // A socket is a file too.
    for (path, document) in [
        ("/upstreams/s", json!({"endpoints": "unix:/var/run/docker.sock"})),
        ("/routes/s", json!({"match": "/s", "to": "unix:/var/run/docker.sock"})),
        (
            "/routes/s",
            json!({"match": "/s", "to": "127.0.0.1:1", "fallback": {"to": "unix:/var/run/docker.sock"}}),
        ),
    ] {
        let answer = put(&gateway, path, &document);
        assert!(answer.status == 422 && answer.text().contains("`admin.files`"), "{answer:?}");
    }
    // The process's environment belongs to the operator.
    for text in ["${HOME}", "${PATH:-x}/${HOME}"] {
        let answer = put(&gateway, "/routes/e", &json!({"match": "/e", "respond": text}));
        assert_eq!(answer.status, 422, "{answer:?}");
    }
    let default = put(&gateway, "/routes/e", &json!({"match": "/e", "respond": "${HOME:-none}"}));
    assert_eq!(default.status, 201, "{default:?}");
    assert_eq!(gateway.client().get("/e").text(), "none");
}

#[test]
fn directories_that_a_reload_takes_away_are_missed() {
    let gateway = gateway();
    let list = file(&gateway, "list.json");
    fs::write(&list, "[\"127.0.0.1:1\"]").expect("written");
    assert_eq!(put(&gateway, "/upstreams/x", &discover(&list)).status, 201);
    gateway.write_config("store: $DIR/store\nroutes: [{match: /new, respond: new}]\n");
    gateway.signal(Signal::HUP);
    eventually("the refusal", || gateway.stderr().contains("is not loaded"));
    gateway.await_message("this file is not allowed here");
    assert_eq!(gateway.client().get("/fixed").text(), "file");
    assert_eq!(call(&gateway, "DELETE", "/upstreams/x", "", "").status, 200);
    gateway.signal(Signal::HUP);
    eventually("the new file", || gateway.client().get("/new").status == 200);
}

/// Asks for a copy of the store.
fn backup(gateway: &Gateway, to: &Path) -> tollgate_tests::Response {
    let lines = "Content-Type: application/json\r\n";
    call(gateway, "POST", "/store/backup", lines, &json!({ "to": to }).to_string())
}

#[test]
fn a_backup_lies_beside_the_store_or_in_the_operators_directories() {
    let gateway = gateway();
    let (own, elsewhere) = (gateway.directory(), gateway.directory().join("elsewhere"));
    fs::create_dir_all(&elsewhere).expect("a directory");
    fs::create_dir_all(file(&gateway, "deep")).expect("a directory");
    symlink(&elsewhere, file(&gateway, "link")).expect("a link");
    symlink(elsewhere.join("copy"), file(&gateway, "dangling")).expect("a link");
    let here = elsewhere.join("existing");
    fs::write(&here, "kept").expect("written");
    for to in [
        elsewhere.join("copy"),
        here.clone(),
        own.join("../tollgate-e2e-copy"),
        file(&gateway, "link/copy"),
        file(&gateway, "dangling"),
        file(&gateway, "../elsewhere/copy"),
        PathBuf::from("/etc/passwd"),
        PathBuf::from("/etc/tollgate-e2e-copy"),
        PathBuf::from("/no/such/directory/copy"),
    ] {
        let answer = backup(&gateway, &to);
        assert_eq!(answer.status, 422, "{}: {answer:?}", to.display());
        assert!(answer.text().contains("`admin.files`"), "{answer:?}");
    }
    assert_eq!(backup(&gateway, Path::new("copy")).status, 400, "the path is absolute");
    assert_eq!(fs::read_dir(&elsewhere).expect("readable").count(), 1);
    assert_eq!(fs::read(&here).expect("readable"), b"kept");
    for to in
        [own.join("copy"), file(&gateway, "copy"), file(&gateway, "deep/copy"), file(&gateway, "../other")]
    {
        let answer = backup(&gateway, &to);
        assert_eq!(answer.status, 200, "{}: {answer:?}", to.display());
        assert!(fs::metadata(&to).expect("the copy").len() > 0);
    }
    // No existing file is changed: neither the copy, nor a file with the name of its beginning.
    let kept = file(&gateway, "kept");
    fs::write(&kept, "kept").expect("written");
    let part = file(&gateway, "new.part");
    fs::write(&part, "kept").expect("written");
    for to in [&kept, &file(&gateway, "new"), &own.join("store"), &gateway.config()] {
        let answer = backup(&gateway, to);
        assert_eq!(answer.status, 507, "{}: {answer:?}", to.display());
        assert!(answer.text().contains("is there already"), "{answer:?}");
    }
    for kept in [kept, part] {
        assert_eq!(fs::read(&kept).expect("readable"), b"kept");
    }
    // Directories that a reload takes away are not written to any more.
    gateway.write_config("store: $DIR/store\nroutes: [{name: fixed, match: /fixed, respond: other}]");
    gateway.signal(Signal::HUP);
    eventually("the new plan", || gateway.client().get("/fixed").text() == "other");
    eventually("the directories to be gone", || backup(&gateway, &file(&gateway, "later")).status == 422);
    assert_eq!(backup(&gateway, &own.join("later")).status, 200);
}
