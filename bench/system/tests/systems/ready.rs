//! Checks that every installed system does what its description claims.

use crate::client::Client;
use crate::origin::{Origin, field};
use crate::partner::Services;
use crate::process::Process;
use crate::{catalogue, free_ports};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tollgate_lab_system::ready::{Probe, wait};
use tollgate_lab_system::{
    Address, Catalogue, Feature, Launch, Route, Setting, Status, Support, System, TlsFiles, Upstream,
    VirtualHost,
};

/// More requests than any server's default for a connection: nginx closes after 1,000, Kong and Tomcat after
/// 100.
const MANY: usize = 3_000;

/// Enough requests to see that connections are kept.
const FEW: usize = 20;

const HOST: &str = "shop.example.com";

/// Writes to the terminal even if the test passes.
fn say(line: &str) {
    let _closed = writeln!(std::io::stderr(), "    {line}");
}

struct Bed {
    first: Origin,
    twin: Origin,
    second: Origin,
    services: Services,
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
        Self {
            first: Origin::start("first"),
            twin: Origin::start("first"),
            second: Origin::start("second"),
            services: Services::start(folder.path()),
            folder,
            tls,
        }
    }

    fn setting(&self, name: &str, arm: &Arm) -> Setting {
        let Arm { features, options } = arm;
        let (port, admin) = free_ports();
        // The folder is not named after the features: all of them together are longer than a file name may
        // be.
        let folder = self.folder.path().join(format!("{name}-{port}"));
        let mut setting = Setting::new(port, admin, self.first.port, folder);
        setting.features = features.clone();
        setting.options = options.clone();
        let second = vec![Address::local(self.second.port)];
        setting.upstreams.push(Upstream { name: "second".to_owned(), origins: second });
        if features.contains(&Feature::Balancing) {
            setting.upstreams[0].origins.push(Address::local(self.twin.port));
        }
        if features.contains(&Feature::Routes) {
            setting = setting.with_routes(10_000);
            setting.routes.push(route("other", "/other/"));
        }
        if features.contains(&Feature::Hosts) {
            let virtual_host =
                |host: &str| VirtualHost { host: host.to_owned(), routes: vec![route("shop", "/shop/")] };
            setting.hosts = vec![virtual_host("a.example.com"), virtual_host("b.example.com")];
        }
        setting.partners = self.services.ports;
        setting.tls = features.contains(&Feature::Tls).then(|| self.tls.clone());
        setting
    }
}

fn route(name: &str, prefix: &str) -> Route {
    Route { name: name.to_owned(), prefix: prefix.to_owned(), upstream: "second".to_owned() }
}

/// The configuration of one start of a system.
#[derive(Debug, Clone, Default, PartialEq)]
struct Arm {
    features: BTreeSet<Feature>,
    options: BTreeMap<String, String>,
}

/// Starts a system and checks everything that the setting asks for.
fn run(bed: &Bed, system: &System, arm: &Arm) {
    let Arm { features, .. } = arm;
    let what = format!("{} with {arm:?}", system.name());
    let setting = bed.setting(system.name(), arm);
    let twin = bed.twin.connections();
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
        speaks_http(bed, system, arm, &launch, &what);
        routes(&setting, &launch, &what);
        headers(system, &setting, &launch, &what);
    }
    if features.contains(&Feature::Balancing) {
        assert!(bed.twin.connections() > twin, "{what}: one origin of two got nothing");
    }
    if features.contains(&Feature::Statistics) && serves_statistics(&setting, &launch) {
        TcpStream::connect(("127.0.0.1", setting.admin_port))
            .unwrap_or_else(|error| panic!("{what}: statistics: {error}"));
    }
    if let Some(mut process) = process {
        assert_eq!(process.ended(), None, "{what}: it died while it served");
        drop(process);
    }
    if !system.is_direct() {
        assert!(closes(setting.listen.port), "{what}: it still listens");
        access_log(system, &setting, &launch, &what);
    }
}

/// Returns whether the port stops accepting connections within 5 s. The last processes of the group are
/// killed, and the kernel takes some time to end them.
fn closes(port: u16) -> bool {
    let until = Instant::now() + Duration::from_secs(5);
    while TcpStream::connect(("127.0.0.1", port)).is_ok() {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Returns whether its files configure the admin port; some systems count but do not serve their statistics.
fn serves_statistics(setting: &Setting, launch: &Launch) -> bool {
    let port = setting.admin_port.to_string();
    launch.files.iter().any(|file| file.text.contains(&port))
}

/// Checks keep-alive on both sides and bodies in both directions.
fn speaks_http(bed: &Bed, system: &System, arm: &Arm, launch: &Launch, what: &str) {
    let requests = if *arm == Arm::default() { MANY } else { FEW };
    let before = bed.first.connections();
    let mut client = Client::connect(launch.target.port);
    for index in 0..requests {
        let answer = client.get(HOST, &format!("/page{index}"));
        assert_eq!((answer.status, answer.body.as_str()), (200, "first"), "{what}");
    }
    let body = "a body of some length, ".repeat(100);
    let answer = client.post(HOST, "/echo", &body);
    assert_eq!((answer.status, answer.body.as_str()), (200, body.as_str()), "{what}");
    let opened = bed.first.connections() - before;
    // Extra requests (of these two features) may each open a connection, as in nginx.
    let asks_besides = [Feature::ForwardAuth, Feature::Mirror].iter().any(|one| arm.features.contains(one));
    if !system.is_direct() && !asks_besides {
        // A pool may open one more connection before the previous one is back in the pool, as Go's does on a
        // busy machine. A limit of 100 requests per connection would open 30.
        let most = requests / 200 + 5;
        assert!(
            opened <= most,
            "{what}: {opened} connections to the origin for {requests} requests of one client"
        );
    }
}

/// Checks that prefixes and hosts reach their upstreams.
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

/// Checks the headers that the origin receives.
fn headers(system: &System, setting: &Setting, launch: &Launch, what: &str) {
    let seen = Client::connect(launch.target.port).get(HOST, "/seen").body;
    let target = if setting.features.contains(&Feature::QueryEdits) { "/seen?tenant=lab" } else { "/seen" };
    assert!(seen.starts_with(&format!("GET {target} HTTP/1.1\r\n")), "{what}: {seen}");
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

/// Checks that there is one line for each request if the log is on, and none if it is off. The lines are in
/// the log file, or in the output of systems that cannot log elsewhere.
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

/// Returns the arms to test: none, each feature and each option alone, and everything at once. A JVM takes
/// seconds to start, so it gets only the two extremes.
fn arms(system: &System) -> Vec<Arm> {
    let switched: BTreeSet<Feature> =
        Feature::ALL.into_iter().filter(|feature| system.support(*feature) == Support::Switched).collect();
    let of = |features| Arm { features, ..Arm::default() };
    // The features of requests need plain HTTP, which a relay of bytes does not read. A cache answers requests that
    // the other features would spread over several origins.
    let others = [
        Feature::Tls,
        Feature::ClientCertificate,
        Feature::Http2Origin,
        Feature::Tcp,
        Feature::Passthrough,
        Feature::Udp,
        Feature::Cache,
    ];
    let clear: BTreeSet<Feature> = switched.iter().copied().filter(|one| !others.contains(one)).collect();
    let mut arms = vec![Arm::default(), of(clear.clone())];
    if !system.description().jvm {
        let alone = switched.iter().map(|feature| match feature {
            Feature::ClientCertificate => of(BTreeSet::from([Feature::Tls, *feature])),
            _ => of(BTreeSet::from([*feature])),
        });
        arms.extend(alone.filter(|one| one.features != clear));
    }
    let both = BTreeSet::from([Feature::Tls, Feature::Http2]);
    if both.iter().all(|feature| system.support(*feature) == Support::Switched) {
        arms.push(of(both));
    }
    for (name, choice) in &system.description().options {
        arms.extend(choice.values.iter().skip(1).map(|value| Arm {
            features: BTreeSet::new(),
            options: BTreeMap::from([(name.clone(), value.clone())]),
        }));
    }
    arms.dedup();
    arms
}

/// Runs every arm of one system. Returns the names of the failed ones.
fn all_arms(bed: &Bed, system: &System) -> Vec<String> {
    match system.status() {
        Status::Ready { version, .. } => {
            // The origins here speak HTTP/1; the study `tls` has a gRPC origin.
            let mut arms = arms(system);
            arms.retain(|arm| !arm.features.contains(&Feature::Http2Origin));
            if bed.services.ports.redis == 0 {
                say("no redis-server on PATH: shared limits are not tested");
                for arm in &mut arms {
                    arm.features.remove(&Feature::SharedRateLimit);
                }
            }
            let started = Instant::now();
            // One failure must not hide another.
            let failed = |arm: &Arm| catch_unwind(AssertUnwindSafe(|| run(bed, system, arm))).is_err();
            let failures: Vec<_> = arms.iter().filter(|arm| failed(arm)).collect();
            let version = version.unwrap_or_default();
            let seconds = started.elapsed().as_secs_f64();
            say(&format!("{} {version}: {} settings in {seconds:.1} s", system.name(), arms.len()));
            return failures.into_iter().map(|arm| format!("{} with {arm:?}", system.name())).collect();
        }
        Status::Installable { .. } => say(&format!("{}: not installed, not tested", system.name())),
        Status::Missing { reason, .. } => say(&format!("{}: missing, not tested: {reason}", system.name())),
        Status::Broken { reason } => return vec![format!("{} is broken: {reason}", system.name())],
    }
    Vec::new()
}

#[test]
fn every_ready_system_does_what_its_description_says() {
    let catalogue = catalogue();
    let next = AtomicUsize::new(0);
    let work = || {
        // Origins count their connections, so two systems that are tested at once need two sets.
        let bed = Bed::new();
        let mut failures = Vec::new();
        while let Some(system) = catalogue.systems().get(next.fetch_add(1, Ordering::SeqCst)) {
            failures.extend(all_arms(&bed, system));
        }
        failures
    };
    let failures: Vec<String> = std::thread::scope(|scope| {
        let workers = [(); 2].map(|()| scope.spawn(work));
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    });
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(
        catalogue.get("direct").is_ok_and(|direct| direct.status().is_ready()),
        "the origin itself is always there"
    );
}

/// Returns the catalogue with an empty file for each program; rendering starts none of them.
fn with_stand_ins(folder: &Path) -> Catalogue {
    let program = folder.join("program");
    fs::write(&program, "").expect("written");
    let mut paths = crate::paths();
    for system in catalogue().systems() {
        paths.given.extend(system.program_keys().map(|key| (key.to_owned(), program.clone())));
    }
    Catalogue::load(&crate::data(), &paths).expect("read")
}

#[test]
fn every_template_renders_and_what_claims_to_be_yaml_or_json_is() {
    let bed = Bed::new();
    for system in with_stand_ins(bed.folder.path()).systems() {
        for arm in arms(system) {
            for file in
                system.render(&bed.setting(system.name(), &arm)).unwrap_or_else(|error| panic!("{error}"))
            {
                if file.path.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json") {
                    // JSON is a subset of YAML, and duplicate keys are refused in both. The budget protects
                    // against hostile input only.
                    let options = serde_saphyr::options! { budget: None };
                    serde_saphyr::from_str_with_options::<serde::de::IgnoredAny>(&file.text, options)
                        .unwrap_or_else(|error| {
                            panic!("{} with {arm:?}: {error}\n{}", file.path.display(), file.text)
                        });
                }
            }
        }
    }
}

#[test]
fn every_system_gets_its_number_of_workers() {
    let bed = Bed::new();
    for system in with_stand_ins(bed.folder.path()).systems() {
        let most = system.description().max_workers.unwrap_or(3);
        if system.is_direct() || most == 1 {
            continue;
        }
        let mut setting = bed.setting(system.name(), &Arm::default());
        let mut reported = |workers| {
            setting.workers = workers;
            let launch = system.prepare(&setting).unwrap_or_else(|error| panic!("{error}"));
            format!("{:?}{:?}", launch.files, launch.command)
        };
        assert_ne!(reported(1), reported(2), "{} starts alike with 1 and with 2 workers", system.name());
    }
}

/// `sh` runs the script whatever its first line says, and on many machines `sh` is not bash.
#[test]
fn every_installation_is_written_for_sh() {
    let mut scripts = 0;
    for system in catalogue().systems() {
        let Ok(script) = fs::read_to_string(system.folder().join("install.sh")) else { continue };
        assert_eq!(script.lines().next(), Some("#!/bin/sh"), "{}", system.name());
        assert!(
            !script.contains("pipefail") && !script.contains("BASH"),
            "{}: what bash alone has",
            system.name()
        );
        scripts += 1;
    }
    assert!(scripts > 0);
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
