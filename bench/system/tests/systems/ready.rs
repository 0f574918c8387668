//! What an installed system must do, whoever made it.

use crate::client::Client;
use crate::origin::{Origin, field};
use crate::process::Process;
use crate::{catalogue, free_ports};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};
use tollgate_lab_system::ready::{Probe, wait};
use tollgate_lab_system::{
    Address, Feature, Launch, Route, Setting, Status, Support, System, TlsFiles, Upstream, VirtualHost,
};

const HOST: &str = "shop.example.com";

/// Says something on the terminal even when the test passes.
fn say(line: &str) {
    let _closed = writeln!(std::io::stderr(), "    {line}");
}

struct Bed {
    first: Origin,
    second: Origin,
    folder: tempfile::TempDir,
    tls: TlsFiles,
}

impl Bed {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
        let tls =
            TlsFiles { certificate: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
        fs::write(&tls.certificate, made.cert.pem()).expect("written");
        fs::write(&tls.key, made.signing_key.serialize_pem()).expect("written");
        Self { first: Origin::start("first"), second: Origin::start("second"), folder, tls }
    }

    fn setting(&self, name: &str, features: &BTreeSet<Feature>) -> Setting {
        let (port, admin) = free_ports();
        let label: Vec<_> = features.iter().map(|feature| feature.name()).collect();
        let folder = self.folder.path().join(format!("{name}-{}", label.join("-")));
        let mut setting = Setting::new(port, admin, self.first.port, folder);
        setting.features = features.clone();
        setting
            .upstreams
            .push(Upstream { name: "second".to_owned(), origins: vec![Address::local(self.second.port)] });
        if features.contains(&Feature::Routes) {
            setting = setting.with_routes(10_000);
            setting.routes.push(route("other", "/other/"));
        }
        if features.contains(&Feature::Hosts) {
            let virtual_host =
                |host: &str| VirtualHost { host: host.to_owned(), routes: vec![route("shop", "/shop/")] };
            setting.hosts = vec![virtual_host("a.example.com"), virtual_host("b.example.com")];
        }
        setting.tls = features.contains(&Feature::Tls).then(|| self.tls.clone());
        setting
    }
}

fn route(name: &str, prefix: &str) -> Route {
    Route { name: name.to_owned(), prefix: prefix.to_owned(), upstream: "second".to_owned() }
}

/// Starts a system and checks everything that the setting asks for.
fn run(bed: &Bed, system: &System, features: &BTreeSet<Feature>) {
    let what = format!("{} with {features:?}", system.name());
    let setting = bed.setting(system.name(), features);
    let launch = system.prepare(&setting).unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut process = launch.command.as_ref().map(Process::start);
    let probe = Probe {
        path: "/",
        host: Some(HOST),
        body: b"first",
        within: Duration::from_secs(4 * u64::from(system.description().ready_within_seconds)),
        tls: setting.tls.as_ref(),
    };
    let ended = || process.as_mut().and_then(Process::ended);
    wait(system.name(), &launch, &probe, ended).unwrap_or_else(|error| panic!("{what}: {error}"));
    if !features.contains(&Feature::Tls) {
        speaks_http(bed, system, &launch, &what);
        routes(&setting, &launch, &what);
        headers(system, &setting, &launch, &what);
    }
    if features.contains(&Feature::Statistics) && system.support(Feature::Statistics) == Support::Switched {
        TcpStream::connect(("127.0.0.1", setting.admin_port))
            .unwrap_or_else(|error| panic!("{what}: statistics: {error}"));
    }
    if let Some(mut process) = process {
        assert_eq!(process.ended(), None, "{what}: it died while it served");
        drop(process);
    }
    if !system.is_direct() {
        assert!(TcpStream::connect(("127.0.0.1", setting.listen.port)).is_err(), "{what}: it still listens");
        access_log(system, &setting, &launch, &what);
    }
}

/// Keep-alive on both sides, bodies both ways.
fn speaks_http(bed: &Bed, system: &System, launch: &Launch, what: &str) {
    let before = bed.first.connections();
    let mut client = Client::connect(launch.target.port);
    for index in 0..10 {
        let answer = client.get(HOST, &format!("/page{index}"));
        assert_eq!((answer.status, answer.body.as_str()), (200, "first"), "{what}");
    }
    let body = "a body of some length, ".repeat(100);
    let answer = client.post(HOST, "/echo", &body);
    assert_eq!((answer.status, answer.body.as_str()), (200, body.as_str()), "{what}");
    let opened = bed.first.connections() - before;
    if !system.is_direct() {
        assert!(opened <= 2, "{what}: {opened} connections to the origin for 11 requests of one client");
    }
}

/// Prefixes and hosts reach the upstream that they name.
fn routes(setting: &Setting, launch: &Launch, what: &str) {
    let mut client = Client::connect(launch.target.port);
    let mut expect = |host: &str, path: &str, body: &str| {
        let answer = client.get(host, path);
        assert_eq!((answer.status, answer.body.as_str()), (200, body), "{what}: {host}{path}");
    };
    if !setting.routes.is_empty() {
        expect(HOST, "/other/x", "second");
        expect(HOST, "/r09999/x", "first");
        expect(HOST, "/none/x", "first");
    }
    if !setting.hosts.is_empty() {
        expect("a.example.com", "/shop/x", "second");
        expect("b.example.com", "/shop/x", "second");
        expect("b.example.com", "/", "first");
        expect("c.example.com", "/shop/x", "first");
    }
}

/// What the origin is told.
fn headers(system: &System, setting: &Setting, launch: &Launch, what: &str) {
    let seen = Client::connect(launch.target.port).get(HOST, "/seen").body;
    assert!(seen.starts_with("GET /seen HTTP/1.1\r\n"), "{what}: {seen}");
    assert_eq!(field(&seen, "host"), Some(HOST), "{what}: {seen}");
    let wanted = setting.wanted();
    let check = |feature: Feature, name: &str, value: Option<&str>| {
        let found = field(&seen, name);
        if wanted.contains(&feature) {
            assert!(found.is_some(), "{what}: no {name} in {seen}");
            assert!(value.is_none() || value == found, "{what}: {name} is {found:?}");
        } else if system.support(feature) != Support::Always {
            assert_eq!(found, None, "{what}: {name} is there unasked");
        }
    };
    check(Feature::ForwardedHeaders, "x-forwarded-for", None);
    check(Feature::ForwardedHeaders, "x-forwarded-host", Some(HOST));
    check(Feature::RequestId, "x-request-id", None);
    if wanted.contains(&Feature::ForwardedHeaders) {
        assert_eq!(field(&seen, "x-forwarded-proto"), Some("http"), "{what}: {seen}");
    }
}

/// A line for each request when it is on, and no line when it is off; in its file, or in the output of those that can
/// log nowhere else.
fn access_log(system: &System, setting: &Setting, launch: &Launch, what: &str) {
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let output = launch.command.as_ref().map(|command| read(&command.output)).unwrap_or_default();
    let lines = read(&setting.access_log()) + &output;
    if setting.features.contains(&Feature::AccessLog) {
        let path = if setting.tls.is_some() { "GET /" } else { "/page9" };
        assert!(
            lines.contains(path) || (setting.tls.is_some() && !lines.is_empty()),
            "{what}: no line of {path}: {lines}"
        );
    } else if system.support(Feature::AccessLog) != Support::Always {
        assert!(!lines.contains("/page9"), "{what}: requests are logged unasked");
    }
}

/// Nothing, each feature alone, and all that it can do at once. A JVM takes seconds to start, so it gets the two ends.
fn arms(system: &System) -> Vec<BTreeSet<Feature>> {
    let switched: BTreeSet<Feature> =
        Feature::ALL.into_iter().filter(|feature| system.support(*feature) == Support::Switched).collect();
    let clear: BTreeSet<Feature> =
        switched.iter().copied().filter(|feature| *feature != Feature::Tls).collect();
    let mut arms = vec![BTreeSet::new(), clear];
    if !system.description().jvm {
        arms.extend(switched.into_iter().map(|feature| BTreeSet::from([feature])));
    }
    arms.dedup();
    arms
}

#[test]
fn every_ready_system_does_what_its_description_says() {
    let bed = Bed::new();
    let (mut ran, mut failed) = (0, Vec::new());
    for system in catalogue().systems() {
        match system.status() {
            Status::Ready { version, .. } => {
                let (arms, begun) = (arms(system), Instant::now());
                for features in &arms {
                    // One system's failure must not hide another's.
                    if catch_unwind(AssertUnwindSafe(|| run(&bed, system, features))).is_err() {
                        failed.push(format!("{} with {features:?}", system.name()));
                    }
                }
                ran += 1;
                let version = version.unwrap_or_default();
                let seconds = begun.elapsed().as_secs_f64();
                say(&format!("{} {version}: {} settings in {seconds:.1} s", system.name(), arms.len()));
            }
            Status::Installable { .. } => say(&format!("{}: not installed, not tested", system.name())),
            Status::Missing { reason, .. } => {
                say(&format!("{}: missing, not tested: {reason}", system.name()));
            }
            Status::Broken { reason } => panic!("{} is broken: {reason}", system.name()),
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(ran > 0, "not even the origin itself was tested");
}

#[test]
fn every_template_renders_whatever_its_programs() {
    // Stand-ins for programs that are not here: rendering does not start them.
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("program");
    fs::write(&program, "").expect("written");
    let bed = Bed::new();
    let mut place = crate::place();
    for system in catalogue().systems() {
        for key in system.program_keys() {
            place.given.insert(key.to_owned(), program.clone());
        }
    }
    let systems = tollgate_lab_system::Catalogue::load(&crate::data(), &place).expect("read");
    for system in systems.systems() {
        for features in arms(system) {
            let setting = bed.setting(system.name(), &features);
            let files = system.render(&setting).unwrap_or_else(|error| panic!("{error}"));
            assert!(files.iter().all(|file| !file.text.contains("undefined")), "{}", system.name());
        }
    }
}

#[test]
fn the_table_names_every_system_once() {
    let catalogue = catalogue();
    let table = catalogue.table();
    assert_eq!(table.lines().count(), catalogue.systems().len() + 1, "{table}");
    for system in catalogue.systems() {
        let rows = table.lines().filter(|line| line.split_whitespace().next() == Some(system.name()));
        assert_eq!(rows.count(), 1, "{table}");
    }
}
