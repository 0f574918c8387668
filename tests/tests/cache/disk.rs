//! The disk tier: warm starts, kills, damage, a full disk, and two processes with one folder.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_tests::{Gateway, Origin, Response, api, eventually, tollgate};

use super::{get, outcomes};

/// Bytes of the body of `/3000000` and the like.
fn length(target: &str) -> usize {
    let digits = target.trim_start_matches('/').split('/').next().unwrap_or_default();
    digits.parse().unwrap_or(10)
}

/// Returns the body for a target, with different bytes for each target and version.
fn content(target: &str, version: usize) -> Vec<u8> {
    let unit = format!("<{target} {version:06}>");
    unit.bytes().cycle().take(length(target)).collect()
}

/// Starts an origin whose bodies have the length in the path. Also returns its current version.
struct Versioned {
    origin: Origin,
    version: Arc<AtomicUsize>,
}

impl Versioned {
    fn start() -> Self {
        let version = Arc::new(AtomicUsize::new(1));
        let present = version.clone();
        let origin = Origin::play(move |conn| {
            while let Some(request) = conn.request() {
                let body = content(&request.target, present.load(Ordering::SeqCst));
                let tag = if request.target.ends_with("/odd") { "odd" } else { "even" };
                let head = format!(
                    "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nETag: \"a\"\r\nCache-Tag: {tag}\r\n\
                     Content-Length: {}\r\n\r\n",
                    body.len()
                );
                if !conn.send([head.as_bytes(), &body].concat()) {
                    return;
                }
            }
        });
        Self { origin, version }
    }

    fn gateway(&self, cache: &str) -> Gateway {
        let gateway = Gateway::start(&self.yaml(cache));
        eventually("the disk tier", || disk(&gateway)["state"] != json!("starting"));
        gateway
    }

    fn yaml(&self, cache: &str) -> String {
        format!(
            "routes: [{{name: r, match: \"/*\", to: \"{}\", policies: {{cache: {{max_object: 8MiB}}}}}}]\n\
             cache: {cache}\n",
            self.origin.address()
        )
    }

    fn bump(&self) -> usize {
        self.version.fetch_add(1, Ordering::SeqCst) + 1
    }
}

const TIERS: &str = "{memory: 16MiB, disk: {path: $DIR/cache, size: 64MiB}}";

fn disk(gateway: &Gateway) -> Value {
    let response = api::call(gateway, "GET", "/cache", "", "");
    assert_eq!(response.status, 200, "{response:?}");
    api::json_of(&response)["disk"].clone()
}

fn number(gateway: &Gateway, name: &str) -> u64 {
    disk(gateway)[name].as_u64().unwrap_or_default()
}

fn await_state(gateway: &Gateway, state: &str) {
    eventually("a state of the disk tier", || disk(gateway)["state"] == json!(state));
}

/// Waits until everything that waited is on disk.
fn await_writes(gateway: &Gateway, objects: u64) {
    eventually("the writes", || {
        let disk = disk(gateway);
        let is_idle = disk["waiting_bytes"] == json!(0) && disk["waiting_purges"] == json!(0);
        disk["objects"].as_u64() >= Some(objects) && is_idle
    });
}

fn purge(gateway: &Gateway, body: &Value) {
    let response = api::call(gateway, "POST", "/cache/purge", api::JSON, &body.to_string());
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(api::json_of(&response)["durable"], Value::Null, "it is on disk");
}

fn restart(gateway: &mut Gateway) {
    gateway.kill_and_restart();
    await_state(gateway, "ready");
}

/// Sends a GET on a connection of its own.
fn ask(gateway: &Gateway, target: &str) -> Response {
    get(gateway, target, "")
}

#[test]
fn a_killed_gateway_starts_warm() {
    let versioned = Versioned::start();
    let mut gateway = versioned.gateway(TIERS);
    let targets = ["/0", "/1", "/5000", "/65536", "/65537", "/1048576", "/3000000"];
    for target in targets {
        assert_eq!(ask(&gateway, target).body, content(target, 1), "{target}");
    }
    await_writes(&gateway, targets.len() as u64);
    assert_eq!(outcomes(&gateway, 7), ["miss"; 7]);
    restart(&mut gateway);
    versioned.bump();
    for turn in 0..2 {
        for target in targets {
            let response = ask(&gateway, target);
            assert_eq!(
                (response.status, response.body == content(target, 1)),
                (200, true),
                "{target} {turn}"
            );
            assert!(response.header("Cache-Status").is_some_and(|it| it.contains("; hit")), "{response:?}");
            assert!(response.header("Age").is_some() && response.header("ETag") == Some("\"a\""));
        }
    }
    assert_eq!(versioned.origin.count(), targets.len(), "all comes from disk");
    // Short bodies are in memory since the first round; the long one is sent from disk again.
    let expected: Vec<&str> = [&["miss"; 7][..], &["hit_disk"; 7], &["hit"; 6], &["hit_disk"; 1]].concat();
    assert_eq!(outcomes(&gateway, 21), expected);
    let events = |event: &str| {
        let labels = format!("policy=\"cache\",place=\"disk\",event=\"{event}\"");
        gateway.metrics().sum("tollgate_policy_events_total", &labels)
    };
    assert_eq!((events("hits"), events("errors")), (Some(8.0), Some(0.0)));
    assert!(events("read_bytes") >= Some(7_000_000.0), "{:?}", events("read_bytes"));
}

#[test]
fn ranges_conditions_and_heads_come_from_disk() {
    let versioned = Versioned::start();
    let mut gateway = versioned.gateway(TIERS);
    let (target, whole) = ("/3000000", content("/3000000", 1));
    assert_eq!(ask(&gateway, target).body, whole);
    await_writes(&gateway, 1);
    restart(&mut gateway);
    for (range, expected) in [
        ("0-0", 0..1),
        ("65535-65537", 65_535..65_538),
        ("2999999-", 2_999_999..3_000_000),
        ("-5", 2_999_995..3_000_000),
    ] {
        let part = get(&gateway, target, &format!("Range: bytes={range}\r\n"));
        assert_eq!((part.status, part.body == whole[expected]), (206, true), "{range}");
    }
    assert_eq!(get(&gateway, target, "If-None-Match: \"a\"\r\n").status, 304);
    let head = super::ask(&gateway, "HEAD", target, "");
    assert_eq!((head.status, head.header("Content-Length"), head.body.len()), (200, Some("3000000"), 0));
    let only = get(&gateway, target, "Cache-Control: only-if-cached\r\n");
    assert_eq!((only.status, only.body == whole), (200, true));
    let mut client = gateway.http2();
    assert!(client.get(target).body == whole, "over HTTP/2");
    assert_eq!(versioned.origin.count(), 1);
}

#[test]
fn a_validation_refreshes_what_is_on_disk() {
    let version = Arc::new(AtomicUsize::new(0));
    let counted = version.clone();
    let origin = super::answering(move |_, request| {
        let validates = request.headers.has("If-None-Match");
        counted.fetch_add(usize::from(validates), Ordering::SeqCst);
        match validates {
            true => {
                "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nCache-Control: max-age=600\r\n\r\n".to_owned()
            }
            false => format!(
                "HTTP/1.1 200 OK\r\nETag: \"a\"\r\nCache-Control: max-age=0\r\nContent-Length: 2000000\r\n\r\n{}",
                "x".repeat(2_000_000)
            ),
        }
    });
    let mut gateway = super::with_policies(&origin, "cache: on", &format!("cache: {TIERS}"));
    assert_eq!(ask(&gateway, "/").body.len(), 2_000_000);
    await_writes(&gateway, 1);
    restart(&mut gateway);
    let writes = number(&gateway, "writes");
    assert_eq!(ask(&gateway, "/").body.len(), 2_000_000);
    eventually("the new head", || number(&gateway, "writes") > writes);
    assert_eq!(ask(&gateway, "/").body.len(), 2_000_000);
    restart(&mut gateway);
    assert_eq!(ask(&gateway, "/").body.len(), 2_000_000);
    assert_eq!(
        (origin.count(), version.load(Ordering::SeqCst)),
        (2, 1),
        "one validation, and one whole response"
    );
}

#[test]
fn a_purge_survives_a_kill() {
    let versioned = Versioned::start();
    let mut gateway = versioned.gateway(TIERS);
    let targets = ["/100/odd", "/100/even", "/70000/odd", "/70000/even"];
    let found = |gateway: &Gateway| targets.map(|target| ask(gateway, target).body);
    let expected = |versions: [usize; 4]| {
        let mut expected = targets.map(|target| content(target, 0));
        for (index, version) in versions.into_iter().enumerate() {
            expected[index] = content(targets[index], version);
        }
        expected
    };
    assert!(found(&gateway) == expected([1; 4]));
    for (version, what, versions) in [
        (2, json!({ "tag": "odd" }), [2, 1, 2, 1]),
        (3, json!({ "prefix": "http://a.example/70000/" }), [2, 1, 3, 3]),
        (4, json!({ "key": "http://a.example/100/even" }), [2, 4, 3, 3]),
        (5, json!({ "all": true }), [5; 4]),
    ] {
        await_writes(&gateway, 4);
        assert_eq!(versioned.bump(), version);
        purge(&gateway, &what);
        restart(&mut gateway);
        assert!(found(&gateway) == expected(versions), "{what}");
    }
    // A soft purge keeps the body; the origin does not confirm it.
    await_writes(&gateway, 4);
    versioned.bump();
    purge(&gateway, &json!({ "tag": "odd", "soft": true }));
    restart(&mut gateway);
    assert!(found(&gateway) == expected([6, 5, 6, 5]));
    // An unsafe method.
    await_writes(&gateway, 4);
    versioned.bump();
    assert_eq!(super::ask(&gateway, "DELETE", "/100/odd", "").status, 200);
    await_writes(&gateway, 3);
    restart(&mut gateway);
    assert!(found(&gateway) == expected([7, 5, 6, 5]));
}

#[test]
fn what_an_unsafe_method_removed_does_not_come_back_after_a_kill() {
    let versioned = Versioned::start();
    let mut gateway = versioned.gateway(TIERS);
    for round in 0..15 {
        let before = versioned.version.load(Ordering::SeqCst);
        assert!(ask(&gateway, "/100/odd").body == content("/100/odd", before), "round {round}");
        assert!(ask(&gateway, "/100/even").body == content("/100/even", 1), "another URL stays");
        await_writes(&gateway, 2);
        let after = versioned.bump();
        assert_eq!(super::ask(&gateway, "DELETE", "/100/odd", "").status, 200);
        // The response does not wait for the disk.
        gateway.kill();
        gateway.restart();
        await_state(&gateway, "ready");
        assert!(ask(&gateway, "/100/odd").body == content("/100/odd", after), "round {round}");
    }
}

#[test]
fn an_unsafe_method_that_fails_removes_nothing() {
    let origin = super::answering(|number, request| match request.method.as_str() {
        "GET" => format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {}\r\n\r\n{number}",
            super::digits(number)
        ),
        _ => "HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n".to_owned(),
    });
    let gateway = super::with_policies(&origin, "cache: on", &format!("cache: {TIERS}"));
    await_state(&gateway, "ready");
    assert_eq!(ask(&gateway, "/").text(), "1");
    await_writes(&gateway, 1);
    assert_eq!(super::ask(&gateway, "DELETE", "/", "").status, 409);
    assert_eq!(ask(&gateway, "/").text(), "1");
    assert_eq!(number(&gateway, "objects"), 1);
}

/// Kills the gateway at random moments while it writes. No response may have a wrong byte, and no purged response may
/// return.
fn kills(rounds: usize) {
    let versioned = Versioned::start();
    let mut gateway = versioned.gateway("{memory: 16MiB, disk: {path: $DIR/cache, size: 32MiB}}");
    let targets: Vec<String> = (0..40)
        .map(|n| format!("/{}/{n}/{}", [50, 3_000, 70_000, 1_500_000][n % 4], ["odd", "even"][n % 2]))
        .collect();
    let (mut oldest, mut from_disk) = (1, 0);
    for round in 0..rounds {
        let address = gateway.address();
        thread::scope(|scope| {
            for part in 0..4 {
                let (targets, versioned) = (&targets, &versioned);
                scope.spawn(move || {
                    // A different order in each round and thread.
                    for step in 0..targets.len() {
                        let target = &targets[(step * 7 + part * 11 + round * 13) % targets.len()];
                        let Some(mut client) = tollgate_tests::Client::try_connect(address) else { return };
                        client.wire().set_deadline(Duration::from_secs(20));
                        // The gateway may be killed at any time.
                        let Ok(response) = client.try_exchange(target) else { return };
                        let newest = versioned.version.load(Ordering::SeqCst);
                        let is_right =
                            (oldest..=newest).any(|version| response.body == content(target, version));
                        assert!(
                            is_right,
                            "round {round}: {target} {:?}",
                            &response.body[..response.body.len().min(60)]
                        );
                    }
                });
            }
            thread::sleep(Duration::from_millis(5 + (round as u64 * 37) % 120));
            gateway.kill();
        });
        gateway.restart();
        await_state(&gateway, "ready");
        from_disk += number(&gateway, "objects");
        if round % 5 == 4 {
            oldest = versioned.bump();
            let what = [json!({ "all": true }), json!({ "prefix": "http://" })];
            purge(&gateway, &what[round / 5 % 2]);
        }
    }
    assert!(from_disk > rounds as u64, "{from_disk} objects survived {rounds} kills");
}

#[test]
fn twenty_kills_in_mid_write() {
    kills(20);
}

#[test]
#[ignore = "a campaign: make crashes"]
fn campaign_of_500_kills_in_mid_write() {
    kills(500);
}

fn segments(gateway: &Gateway) -> Vec<PathBuf> {
    let entries = fs::read_dir(gateway.directory().join("cache")).expect("the folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.extension().is_some_and(|it| it == "segment")).collect()
}

/// Flips a bit of a file, in place.
fn flip(path: &PathBuf, position: u64, bit: u32) {
    let mut file = fs::OpenOptions::new().read(true).write(true).open(path).expect("a segment");
    let mut byte = [0];
    file.seek(SeekFrom::Start(position)).expect("a position");
    file.read_exact(&mut byte).expect("a byte");
    byte[0] ^= 1 << bit;
    file.seek(SeekFrom::Start(position)).expect("a position");
    file.write_all(&byte).expect("written");
}

/// Flips bits of the files at random places, before a start and while the gateway runs. No wrong byte may be served.
fn flips(rounds: u64) {
    let versioned = Versioned::start();
    let mut gateway = versioned.gateway(TIERS);
    let targets: Vec<String> =
        (0..24).map(|n| format!("/{}/{n}", [50, 3_000, 70_000, 1_500_000][n % 4])).collect();
    let mut random = 12_345_u64;
    let mut next = move |bound: u64| {
        // Knuth's generator: the places only need to be spread.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % bound
    };
    let mut damage = |gateway: &Gateway| {
        for path in segments(gateway) {
            let length = fs::metadata(&path).expect("a segment").len();
            for _ in 0..length.min(1) * (1 + next(3)) {
                flip(&path, next(length), next(8) as u32);
            }
        }
    };
    let mut noticed = 0;
    for round in 0..rounds {
        for target in &targets {
            let mut client = gateway.client();
            client.send(format!("GET {target} HTTP/1.1\r\nHost: a.example\r\n\r\n"));
            let mut response = client.head();
            let whole = content(target, 1);
            match client.try_body(&mut response) {
                Ok(()) => assert!(response.body == whole, "round {round}: {target} has a wrong byte"),
                Err(_) => {
                    noticed += 1;
                    assert!(whole.starts_with(&response.body), "round {round}: {target} has a wrong byte");
                }
            }
        }
        await_writes(&gateway, 0);
        noticed += number(&gateway, "errors");
        gateway.kill();
        // Some before the log is read, some after it.
        if round % 3 != 0 {
            damage(&gateway);
        }
        gateway.restart();
        await_state(&gateway, "ready");
        if round % 3 != 1 {
            damage(&gateway);
        }
    }
    assert!(noticed > rounds / 2, "{noticed} in {rounds} rounds");
}

#[test]
fn flipped_bits_are_never_served() {
    flips(12);
}

#[test]
#[ignore = "a campaign: make crashes"]
fn campaign_of_500_rounds_of_flipped_bits() {
    flips(500);
}

#[test]
fn a_damaged_block_cuts_the_response() {
    let versioned = Versioned::start();
    let mut gateway = versioned.gateway(TIERS);
    let (target, whole) = ("/3000000", content("/3000000", 1));
    assert_eq!(ask(&gateway, target).body, whole);
    await_writes(&gateway, 1);
    restart(&mut gateway);
    flip(&segments(&gateway)[0], 2_500_000, 3);
    let mut client = gateway.client();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a.example\r\n\r\n"));
    let mut response = client.head();
    assert_eq!(response.status, 200);
    assert!(client.try_body(&mut response).is_err(), "it is not complete");
    assert!(response.body.len() < 2_500_000 && whole.starts_with(&response.body));
    assert_eq!(ask(&gateway, target).body, whole, "from the origin");
    assert_eq!(versioned.origin.count(), 2);
    assert_eq!(number(&gateway, "errors"), 1);
}

/// A file system of 4 MiB, if this user may mount one.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(name: &str) -> Option<Self> {
        let path = std::env::temp_dir().join(format!("tollgate-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(&path);
        if command.output().is_ok_and(|out| out.status.success()) {
            return Some(Self(path));
        }
        fs::remove_dir(&path).expect("empty");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_full_disk_fails_no_request() {
    // Only root can make a file system that is full; the crate's tests fail the calls themselves.
    let Some(small) = SmallDisk::mount("full") else { return };
    let versioned = Versioned::start();
    let path = small.0.join("cache");
    let cache = format!("{{memory: 16MiB, disk: {{path: \"{}\", size: 64MiB}}}}", path.display());
    let mut gateway = versioned.gateway(&cache);
    for n in 0..100 {
        let target = format!("/200000/{n}");
        assert!(ask(&gateway, &target).body == content(&target, 1), "{target}");
    }
    eventually("a failed write", || number(&gateway, "errors") > 0);
    purge(&gateway, &json!({ "all": true }));
    versioned.bump();
    restart(&mut gateway);
    for n in 0..100 {
        let target = format!("/200000/{n}");
        assert!(ask(&gateway, &target).body == content(&target, 2), "{target}");
    }
}

#[test]
fn the_size_is_a_bound() {
    let versioned = Versioned::start();
    let gateway = versioned.gateway("{memory: 8MiB, disk: {path: $DIR/cache, size: 16MiB}}");
    for n in 0..120 {
        let target = format!("/300000/{n}");
        assert!(ask(&gateway, &target).body == content(&target, 1), "{target}");
        let used: u64 =
            segments(&gateway).iter().filter_map(|path| fs::metadata(path).ok()).map(|data| data.len()).sum();
        assert!(used <= 16 << 20, "{used}");
    }
    assert!(number(&gateway, "evictions") > 0);
}

#[test]
fn a_folder_serves_one_process_at_a_time() {
    let versioned = Versioned::start();
    let mut first = versioned.gateway(TIERS);
    assert!(ask(&first, "/5000").body == content("/5000", 1));
    await_writes(&first, 1);
    let folder = first.directory().join("cache");
    let cache = format!("{{memory: 16MiB, disk: {{path: \"{}\", size: 64MiB}}}}", folder.display());
    let second = versioned.gateway(&cache);
    await_state(&second, "waiting");
    second.await_message("another process uses the folder");
    assert!(ask(&second, "/5000").body == content("/5000", 1), "from the origin");
    assert_eq!(versioned.origin.count(), 2);
    first.kill();
    await_state(&second, "ready");
    first.restart();
    await_state(&first, "waiting");
}

#[test]
fn an_upgrade_hands_the_folder_over() {
    let versioned = Versioned::start();
    let mut gateway = versioned.gateway(TIERS);
    assert!(ask(&gateway, "/5000").body == content("/5000", 1));
    await_writes(&gateway, 1);
    gateway.upgrade();
    await_state(&gateway, "ready");
    assert!(ask(&gateway, "/5000").body == content("/5000", 1));
    assert_eq!(versioned.origin.count(), 1, "the new process has it from disk");
    gateway.wait_predecessor(0);
}

#[test]
fn settings_that_cannot_work_are_errors() {
    let directory = std::env::temp_dir().join(format!("tollgate-cache-settings-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory");
    fs::write(directory.join("file"), "").expect("a file");
    let checked = |cache: &str| {
        let file = directory.join("tollgate.yaml");
        let yaml = format!(
            "listen: 127.0.0.1:8080\ncache: {cache}\n\
             routes: [{{match: \"/*\", to: \"10.0.0.1:80\", policies: {{cache: on}}}}]\n"
        );
        fs::write(&file, yaml).expect("written");
        let ran = tollgate(&["check", &file.display().to_string()]);
        (ran.code, ran.all())
    };
    assert_eq!(checked("{disk: {path: cache, size: 1GiB}}").0, Some(0));
    for (cache, part) in [
        ("{disk: {path: cache, size: 64MiB}}", "below `memory`"),
        ("{disk: {path: file, size: 1GiB}}", "is not a directory"),
        ("{disk: {path: cache}}", "`size`"),
        ("{disk: {size: 1GiB}}", "`path`"),
        ("{disk: {path: cache, size: 1MiB}}", "16MiB"),
        ("{disk: {path: /, size: 1GiB}}", "root directory"),
        ("{disk: {path: cache, size: 1GiB, levels: 2}}", "`levels`"),
    ] {
        let (code, text) = checked(cache);
        assert!(code != Some(0) && text.contains(part), "{cache}: {code:?} {text}");
    }
    fs::remove_dir_all(&directory).expect("removed");
}
