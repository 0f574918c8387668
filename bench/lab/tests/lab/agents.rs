//! Tests studies whose roles run at agents: on one host, and on three network namespaces with links of limited
//! rate where the machine allows it.

use crate::bench::{Bench, LAB, reason};
use crate::fooled::DAEMON;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tollgate_lab_meter::cgroup::Quota;

/// An agent, stopped when dropped.
pub struct Running {
    child: Child,
    pub address: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

/// Starts an agent, in a network namespace if `command` begins so, and waits until it listens.
pub fn agent(bench: &Bench, key: &str, within: Option<&str>, listen: &str) -> Running {
    agent_with(bench, key, within, listen, &[])
}

/// The same with further options of the agent.
fn agent_with(bench: &Bench, key: &str, within: Option<&str>, listen: &str, options: &[&str]) -> Running {
    let plain = bench.command(&[]);
    let mut command = match within {
        Some(namespace) => {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", namespace, LAB]);
            command
        }
        None => Command::new(LAB),
    };
    for (name, value) in plain.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command.args(["agent", "--key", key, "--listen", listen]).args(options).current_dir(bench.path(""));
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    let address = first.strip_prefix("agent: listening on ").unwrap_or_else(|| panic!("{first}")).to_owned();
    // Read on, so that the agent can write.
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    Running { child, address }
}

/// Creates a shared key in a file of this name.
pub fn key(bench: &Bench, name: &str) -> String {
    let file = bench.path(name).display().to_string();
    bench.run(&["agent", "--new-key", &file]).well();
    file
}

fn study(hosts: &str, settings: &str) -> String {
    format!(
        "
title: Several hosts
about: Any.
hosts: {{{hosts}}}
baseline: direct
settings: {{origin: builtin, connections: 1, rounds: 2, warm_up: 0.2, seconds: 1{settings}}}
sections:
  # One request at a time is no part's limit, however busy the machine is.
  - title: In turn
    systems: [direct, wire]
    points: [{{}}]
"
    )
}

#[test]
fn each_role_runs_at_an_agent() {
    let bench = Bench::new();
    let key = key(&bench, "lab.pem");
    let mode = fs::metadata(&key).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let agents: Vec<Running> = (0..3).map(|_| agent(&bench, &key, None, "127.0.0.1:0")).collect();
    let [client, gateway, origin] = &agents[..] else { panic!() };
    let hosts =
        format!("client: '{}', gateway: '{}', origin: '{}'", client.address, gateway.address, origin.address);
    bench.write("far.yaml", &study(&hosts, ""));
    let run = ["run", "far.yaml", "--out", "r.jsonl", "--key", &key, "--markdown", "r.md"];
    let answer = bench.command(&run).output().unwrap();
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));

    let results = bench.results("r.jsonl");
    assert_eq!(results.trials.len(), 4);
    for trial in &results.trials {
        assert_eq!(reason(trial), None, "{}", trial.system);
        assert!(trial.load.as_ref().unwrap().ok > 50, "{:?}", trial.load);
        assert!(trial.evidence.generator.cpu_us() > 0.0);
        let (requests, ok) = (trial.evidence.upstream.requests.unwrap(), trial.load.as_ref().unwrap().ok);
        assert!(requests > ok / 2 && requests < 2 * ok, "the origin counts at its agent: {requests} of {ok}");
    }
    let booked: f64 = results.trials.iter().filter_map(|trial| trial.cost).map(|cost| cost.total_us()).sum();
    assert!(booked > 0.0, "the gateway's agent reads its CPU time");
    assert_eq!(results.ceilings.len(), 2, "the generator reaches the origin directly");
    for part in [&client.address, &gateway.address, &origin.address] {
        assert!(results.header.host.placement.contains(part.as_str()), "{}", results.header.host.placement);
    }
    let report = fs::read_to_string(bench.path("r.md")).unwrap();
    assert!(report.contains("The link between client and gateway") && report.contains("Mbit/s"), "{report}");
    assert!(report.contains("no times of different hosts were compared"), "{report}");
    let left = bench.started_here();
    assert_eq!(left.len(), 3, "only the agents remain: {left:?}");
    drop(agents);
    bench.no_process_is_left();
}

#[test]
fn the_generator_at_an_agent_has_a_thread_for_each_of_its_cores() {
    let machine = std::thread::available_parallelism().unwrap().get();
    let bench = Bench::new();
    let key = key(&bench, "lab.pem");
    // On two cores the roles of one host have one each, so the threads show whose cores are counted.
    let cores = if machine > 1 { "0-1" } else { "0" };
    let client = agent_with(&bench, &key, None, "127.0.0.1:0", &["--cores", cores]);
    let origin = agent_with(&bench, &key, None, "127.0.0.1:0", &["--cores", cores]);
    let hosts = format!("client: '{}', origin: '{}'", client.address, origin.address);
    let text = study(&hosts, "").replace("connections: 1", "connections: 8, rate: 200");
    bench.write("far.yaml", &text);
    let answer = bench.command(&["run", "far.yaml", "--out", "r.jsonl", "--key", &key]).output().unwrap();
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    let results = bench.results("r.jsonl");
    let wanted = machine.min(2);
    assert_eq!(results.cells[0].settings["threads"], wanted.to_string());
    for trial in &results.trials {
        let load = trial.load.as_ref().unwrap();
        assert_eq!((load.threads as usize, load.connections), (wanted, 8));
        assert!(load.ok > 100 && load.failures.total() == 0, "{load:?}");
        let threads = &trial.evidence.generator.threads;
        assert!(threads.iter().filter(|thread| thread.share > 0.0).count() >= wanted, "{threads:?}");
    }
    drop((client, origin));
    bench.no_process_is_left();
}

#[test]
fn a_tool_without_phases_is_measured_over_its_own_interval_at_agents() {
    let bench = Bench::new();
    let key = key(&bench, "lab.pem");
    let agents: Vec<Running> = (0..2).map(|_| agent(&bench, &key, None, "127.0.0.1:0")).collect();
    let hosts = format!("gateway: '{}', origin: '{}'", agents[0].address, agents[1].address);
    let text = study(&hosts, ", tool: wrk").replace("origin: builtin", "origin: nginx");
    bench.write("far.yaml", &text);
    let answer = bench.command(&["run", "far.yaml", "--out", "r.jsonl", "--key", &key]).output().unwrap();
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    let results = bench.results("r.jsonl");
    assert_eq!(results.trials.len(), 4);
    for trial in &results.trials {
        assert_eq!(reason(trial), None, "{}", trial.system);
        let (ok, evidence) = (trial.load.as_ref().unwrap().ok, &trial.evidence);
        // The readings of nginx's own counter are requests too, and are not among these.
        let received = evidence.upstream.requests.unwrap();
        assert!(received >= ok && received <= ok + ok / 20 + 16, "the origin received {received} of {ok}");
        let checks = evidence.checks.as_ref().unwrap();
        assert!(checks.ok == 32 && checks.failures.total() == 0, "{checks:?}");
        assert_eq!(trial.cost.is_some(), trial.system == "wire", "{trial:?}");
        assert!(evidence.origin.cpu_us() > 0.0, "the origin's agent reads its CPU time");
    }
    drop(agents);
    bench.no_process_is_left();
}

#[test]
fn a_daemon_at_an_agent_is_accounted_for() {
    if Quota::account("probe").is_err() {
        eprintln!("SKIPPED: no control groups can be made here");
        return;
    }
    let bench = Bench::new();
    bench.wrapped("daemon", DAEMON);
    let key = key(&bench, "lab.pem");
    let gateway = agent(&bench, &key, None, "127.0.0.1:0");
    let text = study(&format!("gateway: '{}'", gateway.address), "");
    bench.write("far.yaml", &text.replace("[direct, wire]", "[wire, daemon]").replace("direct", "wire"));
    let answer = bench.command(&["run", "far.yaml", "--out", "r.jsonl", "--key", &key]).output().unwrap();
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    let results = bench.results("r.jsonl");
    let cost = |system: &str| {
        let trials = results.trials.iter().filter(|trial| trial.system == system);
        trials.filter_map(|trial| trial.cost).map(|cost| cost.total_us()).sum::<f64>()
    };
    // The same program does the same work; a supervisor's own CPU time would be a hundredth of it.
    assert!(cost("daemon") > cost("wire") / 4.0, "{} us beside {} us", cost("daemon"), cost("wire"));
    assert!(cost("wire") > 0.0);
    drop(gateway);
    bench.no_process_is_left();
}

#[test]
fn a_session_that_is_cut_off_leaves_nothing_behind() {
    let bench = Bench::new();
    let key = key(&bench, "lab.pem");
    let gateway = agent(&bench, &key, None, "127.0.0.1:0");
    let origin = agent(&bench, &key, None, "127.0.0.1:0");
    let hosts = format!("gateway: '{}', origin: '{}'", gateway.address, origin.address);
    bench.write("far.yaml", &study(&hosts, "").replace("seconds: 1", "seconds: 60"));
    let mut lab = bench
        .command(&["run", "far.yaml", "--out", "r.jsonl", "--key", &key])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let relays = || bench.started_here().iter().filter(|line| line.contains(" relay ")).count();
    while relays() == 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", bench.started_here());
        sleep(Duration::from_millis(20));
    }
    lab.kill().unwrap();
    lab.wait().unwrap();
    let begun = Instant::now();
    while bench.started_here().len() > 2 {
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", bench.started_here());
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_agent_serves_only_clients_with_its_key() {
    let bench = Bench::new();
    let (own, other) = (key(&bench, "lab.pem"), key(&bench, "other.pem"));
    let gateway = agent(&bench, &own, None, "127.0.0.1:0");
    bench.write("far.yaml", &study(&format!("gateway: '{}'", gateway.address), ""));
    let run = |key: &str| {
        let answer = bench
            .command(&["run", "far.yaml", "--fresh", "--out", "r.jsonl", "--key", key])
            .output()
            .unwrap();
        (answer.status.success(), String::from_utf8_lossy(&answer.stderr).into_owned())
    };
    let (well, told) = run(&other);
    assert!(!well && told.contains(&format!("the agent {}", gateway.address)), "{told}");
    // A peer that speaks no TLS is no harm.
    TcpStream::connect(&gateway.address).unwrap().write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let (well, told) = run(&own);
    assert!(well, "{told}");

    fs::set_permissions(&own, fs::Permissions::from_mode(0o644)).unwrap();
    let (well, told) = run(&own);
    assert!(!well && told.contains("others may read it"), "{told}");
    let answer = bench.command(&["run", "far.yaml", "--fresh", "--out", "r.jsonl"]).output().unwrap();
    assert!(String::from_utf8_lossy(&answer.stderr).contains("--key FILE"), "{answer:?}");
}

/// Three network namespaces on one switch, removed when dropped.
struct Namespaces {
    names: Vec<String>,
    switch: String,
    /// Whether each link delays by a millisecond in one direction.
    delayed: bool,
}

impl Namespaces {
    /// Creates the namespaces with the addresses 10.77.0.1, 10.77.0.2 and 10.77.0.3, each behind a link of
    /// `rate`. `None` with a reason if this machine does not allow it.
    fn create(rate: &str) -> Result<Self, String> {
        let id = std::process::id();
        let switch = format!("tg{id}s");
        let names: Vec<String> = (1..=3).map(|number| format!("tg{id}n{number}")).collect();
        let mut made = Self { names, switch, delayed: true };
        run(&["ip", "netns", "add", &made.switch])?;
        let inside =
            |namespace: &str, words: &[&str]| run(&[&["ip", "netns", "exec", namespace], words].concat());
        inside(&made.switch, &["ip", "link", "add", "br0", "type", "bridge"])?;
        inside(&made.switch, &["ip", "link", "set", "br0", "up"])?;
        let mut refused = None;
        for (number, name) in (1..).zip(&made.names) {
            let port = format!("p{number}");
            run(&["ip", "netns", "add", name])?;
            inside(
                &made.switch,
                &["ip", "link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns", name],
            )?;
            inside(&made.switch, &["ip", "link", "set", &port, "master", "br0", "up"])?;
            inside(name, &["ip", "address", "add", &format!("10.77.0.{number}/24"), "dev", "eth0"])?;
            inside(name, &["ip", "link", "set", "lo", "up"])?;
            inside(name, &["ip", "link", "set", "eth0", "up"])?;
            let limit = ["root", "tbf", "rate", rate, "burst", "64kb", "latency", "50ms"];
            inside(name, &[&["tc", "qdisc", "add", "dev", "eth0"], &limit[..]].concat())?;
            let delay = ["tc", "qdisc", "add", "dev", &port, "root", "netem", "delay", "1ms"];
            // The kernel may lack the module.
            refused = inside(&made.switch, &delay).err().or(refused);
        }
        if let Some(why) = refused {
            made.delayed = false;
            let text = format!("SKIPPED: the delay of the links: {why}\n");
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
        Ok(made)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in self.names.iter().chain([&self.switch]) {
            let _ = run(&["ip", "netns", "del", name]);
        }
    }
}

fn run(words: &[&str]) -> Result<(), String> {
    let output =
        Command::new(words[0]).args(&words[1..]).output().map_err(|error| format!("{words:?}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim())),
    }
}

#[test]
fn three_hosts_with_links_of_a_limited_rate() {
    let hosts = match Namespaces::create("200mbit") {
        Ok(hosts) => hosts,
        Err(why) => {
            let text = format!("SKIPPED: this machine allows no network namespaces: {why}\n");
            let _ = std::io::stderr().write_all(text.as_bytes());
            return;
        }
    };
    let bench = Bench::new();
    let key = key(&bench, "lab.pem");
    let gateway = agent(&bench, &key, Some(&hosts.names[1]), "10.77.0.2:7921");
    let origin = agent(&bench, &key, Some(&hosts.names[2]), "10.77.0.3:7921");
    bench.write("far.yaml", &study("gateway: 10.77.0.2, origin: 10.77.0.3", ", response_body: 900"));
    let plain = bench.command(&["run", "far.yaml", "--out", "r.jsonl", "--key", &key]);
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &hosts.names[0]]).arg(plain.get_program()).args(plain.get_args());
    for (name, value) in plain.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    let answer = command.current_dir(bench.path("")).output().unwrap();
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    let results = bench.results("r.jsonl");
    assert_eq!(results.trials.len(), 4);
    for trial in &results.trials {
        assert_eq!(reason(trial), None, "{}", trial.system);
        assert!(trial.load.as_ref().unwrap().ok > 50, "{:?}", trial.load);
    }
    let links: Vec<&String> =
        results.notes.iter().map(|(_, text)| text).filter(|text| text.starts_with("The link")).collect();
    assert_eq!(links.len(), 2, "{:?}", results.notes);
    for link in links {
        let rate = link.split(" Mbit/s").next().and_then(|text| text.rsplit(' ').next());
        let rate: f64 = rate.unwrap().parse().unwrap_or_else(|_| panic!("{link}"));
        assert!((100.0..=220.0).contains(&rate), "the rate of the link is measured: {link}");
    }
    if hosts.delayed {
        let trip =
            results.notes.iter().find_map(|(_, text)| text.split("round trip ").nth(1)?.split(' ').next());
        let trip: f64 = trip.unwrap().parse().unwrap();
        assert!((2.0..20.0).contains(&trip), "the round trip of the links is measured: {trip}");
    }
    drop((gateway, origin));
    bench.no_process_is_left();
}
