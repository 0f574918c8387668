//! Routes that answer with files of a directory.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;
use tollgate_tests::{Authority, Framing, Gateway, Origin, Response, TlsPeer, api, tollgate};

/// A directory of its own for a site, removed at the end.
struct Site(PathBuf);

impl Site {
    fn new(name: &str, files: &[(&str, &[u8])]) -> Self {
        let root = std::env::temp_dir().join(format!("tollgate-site-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).expect("a directory");
        let site = Self(root);
        for (path, content) in files {
            site.write(path, content);
        }
        site
    }

    fn write(&self, path: &str, content: &[u8]) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, content).expect("a file");
    }

    fn root(&self) -> std::path::Display<'_> {
        self.0.display()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Bytes that differ at every place, so that a wrong range shows.
fn long(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(2_654_435_761) >> 16) as u8).collect()
}

fn get(gateway: &Gateway, target: &str, lines: &str) -> Response {
    gateway.client().ask(format!("GET {target} HTTP/1.1\r\nHost: h\r\n{lines}\r\n"))
}

fn reason(response: &Response) -> (u16, &str) {
    (response.status, response.header("Tollgate-Reason").unwrap_or("-"))
}

#[test]
fn a_site() {
    let site = Site::new(
        "a-site",
        &[
            ("index.html", b"<h1>home</h1>"),
            ("docs/index.html", b"docs"),
            ("a b.txt", b"blank"),
            ("style.css", b"a{}"),
            ("empty/x", b""),
            (".env", b"secret"),
            (".well-known/acme-challenge/token", b"answer"),
        ],
    );
    symlink("/etc/passwd", site.0.join("passwd")).expect("a link");
    symlink("style.css", site.0.join("linked.css")).expect("a link");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        site.0.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .expect("a pipe");
    let gateway = Gateway::start(&format!(
        "routes:\n  - {{match: \"/*\", files: {0}}}\n  - {{match: \"/below/*\", files: {0}}}\n  \
         - {{match: /one, files: {0}, rewrite: {{path: /style.css}}}}\n",
        site.root()
    ));
    for (target, status, why) in [
        ("/", 200, "-"),
        ("/index.html", 200, "-"),
        ("/docs/", 200, "-"),
        ("/docs/index.html?x=y", 200, "-"),
        ("/a%20b.txt", 200, "-"),
        ("/linked.css", 200, "-"),
        ("/.well-known/acme-challenge/token", 200, "-"),
        ("/below/style.css", 200, "-"),
        ("/below", 200, "-"),
        ("/below/", 200, "-"),
        ("/one", 200, "-"),
        ("/empty/x", 200, "-"),
        ("/docs", 301, "-"),
        ("/nothing", 404, "file_not_found"),
        ("/style.css/", 404, "file_not_found"),
        ("/style.css/x", 404, "file_not_found"),
        ("/a%2520b.txt", 404, "file_not_found"),
        ("/empty", 404, "file_not_found"),
        ("/empty/", 404, "file_not_found"),
        ("/.env", 404, "file_not_found"),
        ("/%2eenv", 404, "file_not_found"),
        ("/docs/%2e%2e%2fstyle.css", 400, "bad_path"),
        ("/a%00b", 400, "bad_path"),
        ("/passwd", 403, "file_forbidden"),
        ("/pipe", 403, "file_forbidden"),
    ] {
        // Twice: the second answer may come from memory.
        for _ in 0..2 {
            let response = get(&gateway, target, "");
            assert_eq!(reason(&response), (status, why), "{target}: {response:?}");
        }
    }
    let home = get(&gateway, "/", "");
    assert_eq!(home.body, b"<h1>home</h1>");
    assert_eq!(home.header("Content-Type"), Some("text/html; charset=utf-8"));
    assert_eq!(home.header("Accept-Ranges"), Some("bytes"));
    assert_eq!(home.framing, Framing::Length(13));
    assert!(home.header("Last-Modified").is_some_and(|date| date.ends_with(" GMT")), "{home:?}");
    assert_eq!(get(&gateway, "/docs/?a", "").body, b"docs");
    assert_eq!(get(&gateway, "/docs?a=b", "").header("Location"), Some("/docs/?a=b"));
    assert_eq!(get(&gateway, "/below/docs", "").header("Location"), Some("/below/docs/"));
    assert_eq!(get(&gateway, "/one", "").body, b"a{}");

    // HEAD has the same head, and no body.
    let mut client = gateway.client();
    client.send("HEAD /style.css HTTP/1.1\r\nHost: h\r\n\r\n");
    let head = client.response_to("HEAD");
    let whole = client.get("/style.css");
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.headers, whole.headers);

    // Other methods are refused, and the connection goes on.
    let refused = client.post("/style.css", b"body");
    assert_eq!(reason(&refused), (405, "method_not_allowed"));
    assert_eq!(refused.header("Allow"), Some("GET, HEAD"));
    client.expect_alive();
    let metrics = gateway.metrics();
    assert!(metrics.sum("tollgate_reasons_total", "reason=\"file_not_found\"") > Some(0.0));
    gateway.reconcile(&[]);
}

#[test]
fn conditions_and_ranges() {
    let content = long(200_000);
    let site = Site::new("ranges", &[("long.bin", &content), ("short.txt", b"0123456789")]);
    let gateway = Gateway::start(&format!("routes:\n  - {{match: \"/*\", files: {}}}\n", site.root()));
    for (target, content) in [("/long.bin", &content[..]), ("/short.txt", b"0123456789")] {
        let length = content.len();
        let whole = get(&gateway, target, "");
        assert_eq!(whole.body, content);
        let etag = whole.header("ETag").expect("a tag").to_owned();
        let date = whole.header("Last-Modified").expect("a date").to_owned();

        for lines in [format!("If-None-Match: {etag}\r\n"), format!("If-Modified-Since: {date}\r\n")] {
            let response = get(&gateway, target, &lines);
            assert_eq!((response.status, response.body.len()), (304, 0), "{lines}");
            assert_eq!(response.header("ETag"), Some(etag.as_str()));
            assert_eq!(response.header("Content-Length"), None);
        }
        let changed = get(&gateway, target, "If-Match: \"other\"\r\n");
        assert_eq!(reason(&changed), (412, "precondition_failed"));

        for (range, start, end) in
            [("0-0", 0, 1), ("3-", 3, length), ("-4", length - 4, length), ("2-5", 2, 6)]
        {
            let lines = format!("Range: bytes={range}\r\nIf-Range: {etag}\r\n");
            let part = get(&gateway, target, &lines);
            assert_eq!((part.status, part.body == content[start..end]), (206, true), "{range}");
            let expected = format!("bytes {start}-{}/{length}", end - 1);
            assert_eq!(part.header("Content-Range"), Some(expected.as_str()));
        }
        assert_eq!(get(&gateway, target, "Range: bytes=1-2\r\nIf-Range: \"other\"\r\n").body, content);
        let none = get(&gateway, target, &format!("Range: bytes={length}-\r\n"));
        assert_eq!(reason(&none), (416, "range_not_satisfiable"));
        assert_eq!(none.header("Content-Range"), Some(format!("bytes */{length}").as_str()));

        let several = get(&gateway, target, "Range: bytes=0-1,4-5,-1\r\n");
        assert_eq!(several.status, 206);
        let media = several.header("Content-Type").expect("a type");
        let boundary = media.strip_prefix("multipart/byteranges; boundary=").expect("a boundary");
        let mut expected = Vec::new();
        for (start, end) in [(0, 2), (4, 6), (length - 1, length)] {
            let head = format!(
                "--{boundary}\r\nContent-Type: {}\r\nContent-Range: bytes {start}-{}/{length}\r\n\r\n",
                whole.header("Content-Type").expect("a type"),
                end - 1
            );
            expected.extend_from_slice(head.as_bytes());
            expected.extend_from_slice(&content[start..end]);
            expected.extend_from_slice(b"\r\n");
        }
        expected.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
        assert!(several.body == expected, "{}", String::from_utf8_lossy(&several.body));
    }
    // A range in a HEAD has no effect.
    let mut client = gateway.client();
    client.send("HEAD /short.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=0-0\r\n\r\n");
    assert_eq!(client.response_to("HEAD").status, 200);
    gateway.reconcile(&[]);
}

#[test]
fn a_single_page_application() {
    let site =
        Site::new("spa", &[("index.html", b"app"), ("assets/app.js", b"js"), ("about.html", b"about")]);
    let gateway = Gateway::start(&format!(
        "routes:\n  - match: \"/*\"\n    files:\n      root: {}\n      try: [$path, $path.html, /index.html]\n      \
         cache_control: {{\"/assets/*\": \"max-age=31536000, immutable\", \"*\": no-cache}}\n",
        site.root()
    ));
    for (target, body, cache) in [
        ("/", "app", "no-cache"),
        ("/users/77", "app", "no-cache"),
        ("/about", "about", "no-cache"),
        ("/assets/app.js", "js", "max-age=31536000, immutable"),
        ("/.git/config", "app", "no-cache"),
        ("/assets/", "app", "no-cache"),
    ] {
        let response = get(&gateway, target, "");
        assert_eq!((response.status, response.body.as_slice()), (200, body.as_bytes()), "{target}");
        assert_eq!(response.header("Cache-Control"), Some(cache), "{target}");
    }
    // A change of the file is visible soon.
    site.write("index.html", b"new");
    let began = Instant::now();
    while get(&gateway, "/", "").body != b"new" {
        assert!(began.elapsed() < Duration::from_secs(5), "the change is not seen");
        std::thread::sleep(Duration::from_millis(20));
    }
    gateway.reconcile(&[]);
}

#[test]
fn files_that_were_compressed_before() {
    let site = Site::new(
        "pre",
        &[("a.css", &[b' '; 5000]), ("a.css.br", b"br"), ("a.css.gz", b"gz"), ("b.css", &[b' '; 5000])],
    );
    let gateway = Gateway::start(&format!(
        "routes:\n  - match: \"/*\"\n    policies: {{compression: on}}\n    \
         files: {{root: {}, precompressed: [zst, br, gz]}}\n",
        site.root()
    ));
    let mut tags = Vec::new();
    for (accept, encoding) in
        [("gzip, br, zstd", Some("br")), ("gzip", Some("gzip")), ("br;q=0.1, gzip", Some("gzip")), ("", None)]
    {
        let response = get(&gateway, "/a.css", &format!("Accept-Encoding: {accept}\r\n"));
        assert_eq!(response.header("Content-Encoding"), encoding, "{accept}");
        assert_eq!(response.header("Content-Type"), Some("text/css; charset=utf-8"));
        assert!(response.headers.lists("Vary", "accept-encoding"), "{response:?}");
        let tag = response.header("ETag").expect("a tag").to_owned();
        let body = match encoding {
            Some("br") => &b"br"[..],
            Some(_) => b"gz",
            None => &[b' '; 5000],
        };
        assert_eq!(response.body, body, "{accept}");
        let lines = format!("Accept-Encoding: {accept}\r\nIf-None-Match: {tag}\r\n");
        assert_eq!(get(&gateway, "/a.css", &lines).status, 304);
        tags.push(tag);
    }
    assert_eq!(tags[1], tags[2]);
    assert!(tags[0] != tags[1] && tags[0] != tags[3] && tags[1] != tags[3], "{tags:?}");
    // Ranges are of the plain file.
    let part = get(&gateway, "/a.css", "Accept-Encoding: br\r\nRange: bytes=0-9\r\n");
    assert_eq!((part.status, part.body.len(), part.header("Content-Encoding")), (206, 10, None));
    // The policy compresses a file without a compressed one next to it.
    let compressed = get(&gateway, "/b.css", "Accept-Encoding: gzip\r\n");
    assert_eq!(compressed.header("Content-Encoding"), Some("gzip"), "{compressed:?}");
    assert!(compressed.body.len() < 500);
    assert!(compressed.header("ETag").is_some_and(|tag| tag.starts_with("W/")), "{compressed:?}");
    gateway.reconcile(&[]);
}

#[test]
fn a_list_of_a_directory() {
    let site = Site::new("browse", &[("<b>.txt", b"1234"), ("sub/x", b""), (".hidden", b"")]);
    let gateway = Gateway::start(&format!(
        "routes:\n  - {{match: \"/*\", files: {{root: {}, browse: on}}}}\n",
        site.root()
    ));
    let page = get(&gateway, "/", "");
    let text = String::from_utf8_lossy(&page.body).into_owned();
    assert_eq!((page.status, page.header("Content-Type")), (200, Some("text/html; charset=utf-8")));
    assert!(text.contains("href=\"./%3Cb%3E.txt\">&lt;b&gt;.txt</a></td><td>4<"), "{text}");
    assert!(text.find("sub/") < text.find("&lt;b&gt;") && !text.contains("hidden"), "{text}");
    assert_eq!(get(&gateway, "/sub", "").header("Location"), Some("/sub/"));
    assert_eq!(get(&gateway, "/%3Cb%3E.txt", "").body, b"1234");
    gateway.reconcile(&[]);
}

#[test]
fn errors_can_be_replaced_and_policies_apply() {
    let origin = Origin::ok();
    let site = Site::new("fallback", &[("a", b"file")]);
    let gateway = Gateway::start(&format!(
        "routes:\n  - match: /page/*\n    files: {0}\n    fallback: {{on: 404, respond: {{status: 404, body: no such page}}}}\n  \
         - match: /up/*\n    files: {0}\n    fallback: {{on: 404, to: {1}}}\n  \
         - match: /denied/*\n    files: {0}\n    policies: {{ip: {{deny: 127.0.0.1}}, headers: {{response: {{set: {{X-A: b}}}}}}}}\n  \
         - match: /set/*\n    files: {0}\n    policies: {{headers: {{response: {{set: {{X-A: b}}}}}}}}\n",
        site.root(),
        origin.address()
    ));
    let page = get(&gateway, "/page/x", "");
    assert_eq!((reason(&page), page.body.as_slice()), ((404, "file_not_found"), &b"no such page"[..]));
    assert_eq!(get(&gateway, "/page/a", "").body, b"file");
    assert_eq!(get(&gateway, "/up/x", "").status, 200);
    assert_eq!(origin.requests().len(), 1);
    assert_eq!(get(&gateway, "/up/a", "").body, b"file");
    assert_eq!(reason(&get(&gateway, "/denied/a", "")), (403, "address_denied"));
    let set = get(&gateway, "/set/a", "");
    assert_eq!((set.header("X-A"), set.body.as_slice()), (Some("b"), &b"file"[..]));
    gateway.reconcile(&[&origin]);
}

#[test]
fn long_files_over_http2_and_tls() {
    let content = long(3_000_000);
    let site = Site::new("long", &[("long.bin", &content), ("short", b"short")]);
    let authority = Authority::new();
    let own = authority.issue(&["localhost"]);
    let gateway = Gateway::start(&format!("routes:\n  - {{match: \"/*\", files: {}}}\n", site.root()));
    let mut http2 = gateway.http2();
    let response = http2.get("/long.bin");
    assert!(response.status == 200 && response.body == content, "{}", response.body.len());
    assert_eq!(http2.get("/short").body, b"short");
    assert_eq!(http2.get("/nothing").status, 404);
    // A window smaller than a piece.
    assert!(gateway.http2_with(1000).get("/long.bin").body == content);
    gateway.reconcile(&[]);

    site.write("certificate.pem", own.chain.as_bytes());
    site.write("key.pem", own.key.as_bytes());
    let secure = Gateway::start(&format!(
        "listen: {{bind: $LISTEN, tls: {{certificate: {0}/certificate.pem, key: {0}/key.pem}}}}\n\
         routes:\n  - {{match: \"/*\", files: {0}}}\n",
        site.root()
    ));
    let mut client =
        TlsPeer::trusting(&authority).connect(secure.address(), "localhost").expect("a handshake");
    client.send(b"GET /long.bin HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let answer = client.rest().expect("an answer");
    assert!(answer.ends_with(&content), "{} bytes", answer.len());
}

#[test]
fn long_files_over_plain_http1() {
    let content = long(3_000_000);
    let site = Site::new("plain", &[("long.bin", &content), ("short", b"short")]);
    let gateway = Gateway::start(&format!("routes:\n  - {{match: \"/*\", files: {}}}\n", site.root()));
    let mut client = gateway.client();
    // The connection remains usable after each of them.
    assert!(client.get("/long.bin").body == content);
    let ask = |range: &str| format!("GET /long.bin HTTP/1.1\r\nHost: h\r\nRange: bytes={range}\r\n\r\n");
    for (range, start, end) in [
        ("1-2999998", 1, 2_999_999),
        ("131071-131072", 131_071, 131_073),
        ("1000000-2048575", 1_000_000, 2_048_576),
        ("-1500001", 1_499_999, 3_000_000),
    ] {
        let response = client.ask(ask(range));
        assert!(response.status == 206 && response.body == content[start..end], "{range}");
    }
    let parts = client.ask(ask("0-999999,2000000-2999999")).body;
    let holds = |part: &[u8]| parts.windows(part.len()).any(|window| window == part);
    assert!(parts.len() > 2_000_000 && holds(&content[..1_000_000]) && holds(&content[2_000_000..]));
    client.send("HEAD /long.bin HTTP/1.1\r\nHost: h\r\n\r\n");
    let head = client.try_head("HEAD").expect("a head");
    assert_eq!((head.status, head.header("Content-Length")), (200, Some("3000000")));
    assert_eq!(client.get("/short").body, b"short");

    // A client with a small receive buffer gets every byte, too.
    let mut slow = gateway.small_client(4096);
    slow.send("GET /long.bin HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut response = slow.try_head("GET").expect("a head");
    slow.try_body(&mut response).expect("a body");
    assert!(response.body == content);
    assert_eq!(slow.get("/short").body, b"short");
    let sent: u64 = gateway.wait_records(10).iter().filter_map(|record| record["bytes_out"].as_u64()).sum();
    assert!(sent > 3_000_000 * 4, "{sent}");
}

#[test]
fn a_file_that_becomes_shorter_is_cut() {
    let site = Site::new("cut", &[("long.bin", &long(30_000_000))]);
    let gateway = Gateway::start(&format!("routes:\n  - {{match: \"/*\", files: {}}}\n", site.root()));
    let mut client = gateway.small_client(4096);
    client.send("GET /long.bin HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut response = client.try_head("GET").expect("a head");
    assert_eq!(response.status, 200);
    fs::File::options()
        .write(true)
        .open(site.0.join("long.bin"))
        .expect("the file")
        .set_len(1000)
        .expect("shorter");
    assert!(client.try_body(&mut response).is_err(), "{} bytes", response.body.len());
    let records = gateway.wait_records(1);
    assert_eq!(records[0]["reason"], "file_truncated", "{records:?}");

    // A file that grows is sent in its announced length.
    site.write("grows.bin", &long(5_000_000));
    let mut client = gateway.small_client(4096);
    client.send("GET /grows.bin HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut response = client.try_head("GET").expect("a head");
    fs::OpenOptions::new()
        .append(true)
        .open(site.0.join("grows.bin"))
        .and_then(|mut file| std::io::Write::write_all(&mut file, b"more"))
        .expect("longer");
    client.try_body(&mut response).expect("a body");
    assert!(response.body == long(5_000_000));
    assert_eq!(client.get("/nothing").status, 404);
}

/// Runs `tollgate check`. Returns whether it succeeded, and what it printed.
fn check(file: &Path) -> (bool, String) {
    let ran = tollgate(&["check", &file.to_string_lossy()]);
    (ran.code == Some(0), ran.all())
}

#[test]
fn check_and_explain() {
    let site = Site::new("explain", &[("site/index.html", b"home"), ("site/a/index.html", b"a")]);
    let file = site.0.join("tollgate.yaml");
    let config =
        |root: &str| format!("listen: 127.0.0.1:8080\nroutes:\n  - {{match: \"*\", files: {root}}}\n");
    // A path is relative to the file.
    fs::write(&file, config("site")).expect("a file");
    assert!(check(&file).0, "{}", check(&file).1);
    let explain = |path: &str| tollgate(&["explain", &file.to_string_lossy(), "GET", path]).all();
    let text = explain("/");
    assert!(text.contains(&format!("serves    {}/site/index.html", site.root())), "{text}");
    assert!(explain("/a").contains("Location: /a/"));
    assert!(explain("/b").contains("file_not_found"));
    fs::write(&file, config("nowhere")).expect("a file");
    let (good, text) = check(&file);
    assert!(good && text.contains("warning") && text.contains("nowhere` does not exist"), "{text}");
    for (wrong, hint) in [
        ("root: /srv", "files"),
        ("file_server: /srv", "files"),
        ("files: {root: /srv, try: [$uri, /index.html]}", "write `$path`"),
        ("files: {root: /srv, autoindex: on}", "browse"),
    ] {
        fs::write(&file, format!("listen: 8080\nroutes:\n  - {{match: \"*\", {wrong}}}\n")).expect("a file");
        let (good, text) = check(&file);
        assert!(!good && text.contains(hint), "{wrong}: {text}");
    }
}

#[test]
fn a_document_cannot_publish_the_machine() {
    let site = Site::new("api", &[("public/site/index.html", b"home")]);
    let gateway = Gateway::start(&format!(
        "store: $DIR/store.db\nadmin: {{bind: $ADMIN, files: {}/public}}\nroutes: []\n",
        site.root()
    ));
    let put = |root: &str| api::put(&gateway, "/routes/site", &json!({"match": "/*", "files": root}));
    let refused = put("/etc");
    assert_eq!(refused.status, 422, "{refused:?}");
    let text = String::from_utf8_lossy(&refused.body).into_owned();
    assert!(text.contains("admin.files"), "{text}");
    assert_eq!(put(&format!("{}/public/site", site.root())).status, 201);
    assert_eq!(get(&gateway, "/", "").body, b"home");
    let shown = gateway.admin("/api/v1/routes/site");
    let value = api::json_of(&shown);
    assert!(value.to_string().contains("public/site"), "{value}");
}
