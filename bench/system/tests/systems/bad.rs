//! Tests of faulty descriptions and of programs that fail.

use crate::free_ports;
use crate::process::Process;
use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;
use tollgate_lab_system::ready::{Probe, wait};
use tollgate_lab_system::{Catalogue, Feature, ProgramPaths, Setting, Status, System};

const HEAD: &str = "title: T\nabout: A\nhomepage: https://example.com/\nmissing: {reason: R., get: G}\n";

struct Bed {
    folder: tempfile::TempDir,
}

impl Bed {
    /// A catalogue with one system, called `gate`.
    fn new(yaml: &str, files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let gate = folder.path().join("systems/gate");
        fs::create_dir_all(&gate).expect("made");
        fs::write(gate.join("system.yaml"), format!("{HEAD}{yaml}")).expect("written");
        for (name, text) in files {
            fs::write(gate.join(name), text).expect("written");
        }
        Self { folder }
    }

    fn load(&self) -> Result<Catalogue, String> {
        let mut paths = ProgramPaths::of_this_machine();
        paths.home = self.folder.path().join("home");
        Catalogue::load(&self.folder.path().join("systems"), &paths).map_err(|problems| problems.to_string())
    }

    fn system(&self) -> System {
        self.load().expect("read").get("gate").expect("there").clone()
    }

    fn setting(&self) -> Setting {
        let (port, admin) = free_ports();
        let mut setting = Setting::new(port, admin, 1, self.folder.path().join("run"));
        setting.features.clear();
        setting
    }
}

const SHELL: &str = "programs: {sh: {names: [sh]}}\n";

fn probe(within: Duration) -> Probe<'static> {
    Probe { path: "/", host: None, body: b"ok", within, tls: None }
}

#[test]
fn all_problems_of_all_systems_are_told_at_once() {
    let bed = Bed::new("colour: red\n", &[]);
    let second = bed.folder.path().join("systems/wall");
    fs::create_dir_all(&second).expect("made");
    fs::write(second.join("system.yaml"), format!("{HEAD}files: [{{template: x.j2, to: x}}]\n"))
        .expect("written");
    fs::write(second.join("x.j2"), "{% for %}").expect("written");
    let text = bed.load().expect_err("two problems");
    assert!(text.contains("gate/system.yaml:5:1: unknown key `colour`"), "{text}");
    assert!(text.contains("wall/x.j2:1: "), "{text}");
}

#[test]
fn a_system_that_is_not_there_gets_the_nearest_name() {
    let error = Bed::new("", &[]).load().expect("read").get("gaet").expect_err("none").to_string();
    assert_eq!(error, "gaet: no such system: did you mean `gate`?");
}

#[test]
fn a_program_that_dies_is_quoted() {
    let bed = Bed::new(
        &format!(
            "{SHELL}start: {{command: [\"{{{{ programs.sh }}}}\", -c, \"echo no such directive >&2; exit 7\"]}}\n"
        ),
        &[],
    );
    let launch = bed.system().prepare(&bed.setting()).expect("prepared");
    let mut process = Process::start(launch.command.as_ref().expect("a command"));
    let error =
        wait("gate", &launch, &probe(Duration::from_secs(20)), || process.ended()).expect_err("it died");
    let text = error.to_string();
    assert!(text.contains("it ended during its start (exit status: 7)"), "{text}");
    assert!(text.contains("no such directive"), "{text}");
}

#[test]
fn an_open_port_is_not_ready() {
    let bed = Bed::new("", &[]);
    let wrong = crate::origin::Origin::start("wrong");
    let mut setting = bed.setting();
    setting.upstreams[0].origins[0].port = wrong.port;
    let launch = bed.system().prepare(&setting).expect("prepared");
    let error =
        wait("gate", &launch, &probe(Duration::from_millis(100)), || None).expect_err("the wrong body");
    assert!(error.to_string().contains("200 with a wrong body \"wrong\""), "{error}");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let bed = Bed::new(&format!("{SHELL}start: {{command: [sh]}}\n"), &[]);
    // Take the port first: a port that is only free may be taken by another process a moment later.
    let holder = TcpListener::bind(("127.0.0.1", 0)).expect("bound");
    let mut setting = bed.setting();
    setting.listen.port = holder.local_addr().expect("an address").port();
    let error = bed.system().prepare(&setting).expect_err("taken").to_string();
    assert!(
        error.contains(&format!("127.0.0.1:{} to listen on is not free", setting.listen.port)),
        "{error}"
    );
}

#[test]
fn what_it_cannot_do_is_refused_before_it_is_started() {
    let bed = Bed::new(
        &format!(
            "{SHELL}max_workers: 1\noptions: {{mode: {{values: [fast, safe], about: M}}}}\nstart: {{command: [sh]}}\n"
        ),
        &[],
    );
    let system = bed.system();
    let mut setting = bed.setting();
    setting.features.insert(Feature::Tls);
    assert_eq!(refusal(&system, &setting), "gate: it cannot do tls");
    let mut setting = bed.setting();
    setting.workers = 2;
    assert_eq!(refusal(&system, &setting), "gate: at most 1 workers, and 2 are asked for");
    let mut setting = bed.setting();
    setting.options.insert("mood".to_owned(), "x".to_owned());
    assert_eq!(refusal(&system, &setting), "gate: unknown option `mood`: did you mean `mode`?");
    setting.options = BTreeMap::from([("mode".to_owned(), "fats".to_owned())]);
    assert_eq!(refusal(&system, &setting), "gate: option `mode` cannot be `fats`: did you mean `fast`?");
}

fn refusal(system: &System, setting: &Setting) -> String {
    system.render(setting).expect_err("refused").to_string()
}

#[test]
fn a_file_outside_of_the_run_is_refused() {
    let bed = Bed::new(
        &format!("{SHELL}files: [{{template: x.j2, to: \"../{{{{ port }}}}\"}}]\nstart: {{command: [sh]}}\n"),
        &[("x.j2", "x")],
    );
    let error = bed.system().render(&bed.setting()).expect_err("outside").to_string();
    assert!(error.contains("outside of the run's folder"), "{error}");
}

#[test]
fn the_state_of_a_system_is_the_truth() {
    let absent = "programs: {x: {names: [tollgate-lab-no-such-program]}}\n";
    let missing = Bed::new(absent, &[]).system().status();
    assert_eq!(missing, Status::Missing { reason: "R.".to_owned(), get: "G".to_owned() });
    let silent = "version: {command: [\"{{ programs.sh }}\", -c, \"true\"], pattern: 'v(.+)'}\n";
    let Status::Broken { reason } = Bed::new(&format!("{SHELL}{silent}"), &[]).system().status() else {
        panic!("a program without a version is broken")
    };
    assert!(reason.contains("nothing matches `v(.+)`"), "{reason}");
    let spoken = "version: {command: [\"{{ programs.sh }}\", -c, \"echo v1.5 >&2\"], pattern: 'v(.+)'}\n";
    let Status::Ready { version, programs } = Bed::new(&format!("{SHELL}{spoken}"), &[]).system().status()
    else {
        panic!("sh is everywhere")
    };
    assert_eq!((version.as_deref(), programs.len()), (Some("1.5"), 1));
}

const INSTALL: &str =
    "programs: {x: {paths: [\"{{ home }}/x\"]}}\ninstall: {with: apt, script: i.sh, takes: 1 s}\n";

#[test]
fn an_installation_is_run_again_without_harm_and_checked() {
    let script = "echo installing; mkdir -p \"$TOLLGATE_LAB_HOME\"; cp \"$TOLLGATE_LAB_SYSTEM/i.sh\" \"$TOLLGATE_LAB_HOME/x\"";
    let bed = Bed::new(INSTALL, &[("i.sh", script)]);
    let system = bed.system();
    assert!(matches!(system.status(), Status::Installable { .. }));
    for _ in 0..2 {
        let mut out = Vec::new();
        let status = system.install(&mut out).expect("installed");
        assert!(status.is_ready(), "{status:?}");
        assert_eq!(String::from_utf8_lossy(&out), "installing\n");
    }
}

#[test]
fn an_installation_that_fails_or_forgets_says_so() {
    let failing = Bed::new(INSTALL, &[("i.sh", "echo no such package >&2; exit 100")]);
    let error = failing.system().install(&mut Vec::new()).expect_err("it failed").to_string();
    assert!(error.contains("failed (exit status: 100): no such package"), "{error}");
    let forgetful = Bed::new(INSTALL, &[("i.sh", "true")]);
    let error = forgetful.system().install(&mut Vec::new()).expect_err("nothing there").to_string();
    assert!(error.contains("ended well, but x cannot be found"), "{error}");
    let nothing = Bed::new("", &[]);
    assert!(nothing.system().install(&mut Vec::new()).is_err());
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let error =
        Catalogue::load(Path::new("/no/such/folder"), &ProgramPaths::of_this_machine()).expect_err("none");
    assert!(
        error.to_string().starts_with("/no/such/folder: the folder of systems cannot be read"),
        "{error}"
    );
}
