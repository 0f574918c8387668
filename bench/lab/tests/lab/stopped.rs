//! Tests Ctrl-C, and the continuation of a stopped run.

use crate::bench::{Answer, Bench, LAB, results};
use crate::load_url::{ok, server};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tollgate_lab_record::Results;

const STUDY: &str = "
title: Long enough
about: Any.
control: wire
settings: {origin: builtin, connections: 1, seconds: 1, rounds: 3, warm_up: 0}
sections:
  - title: One
    systems: [direct, wire]
    points: [{}]
";

/// How long a run may take until it has made its first trials.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program that ends with the test, however the test ends.
struct Running(Child);

impl Running {
    fn interrupt(&self) {
        self.signal("INT");
    }

    fn signal(&self, name: &str) {
        let line = format!("kill -{name} {}", self.0.id());
        assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn trials_in(file: &Path) -> usize {
    fs::read_to_string(file).unwrap_or_default().matches("\"line\":\"trial\"").count()
}

/// Waits until the program has written this number of trials.
#[track_caller]
fn wait_for_trials(running: &mut Running, file: &Path, count: usize) {
    let started = Instant::now();
    while trials_in(file) < count {
        assert!(running.0.try_wait().unwrap().is_none(), "it ended before its time");
        assert!(started.elapsed() < PATIENCE, "no {count} trials in {}", file.display());
        sleep(Duration::from_millis(20));
    }
}

/// Returns the round, the turn and the system of each trial.
fn order(results: &Results) -> Vec<(u32, u32, &str)> {
    results.trials.iter().map(|trial| (trial.round, trial.turn, trial.system.as_str())).collect()
}

#[test]
fn an_interrupted_study_leaves_no_process_and_continues_where_it_was() {
    let bench = Bench::new();
    bench.study("long", STUDY);
    // The order depends on the seed, the cell and the number of systems, not on the length of a trial.
    bench.run(&["run", "long", "--seconds", "0.1", "--seed", "5", "--out", "whole.jsonl"]).well();
    let whole = bench.results("whole.jsonl");
    assert_eq!(whole.trials.len(), 9);

    let file = bench.path("r.jsonl");
    let errors = fs::File::create(bench.path("errors")).unwrap();
    let arguments = ["run", "long", "--seed", "5", "--out", "r.jsonl"];
    let mut running =
        Running(bench.command(&arguments).stdout(Stdio::null()).stderr(errors).spawn().unwrap());
    wait_for_trials(&mut running, &file, 4);
    // Interrupt the fifth trial.
    sleep(Duration::from_millis(300));
    assert!(bench.started_here().len() > 2, "origin and systems run");
    running.interrupt();
    let status = running.0.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    bench.no_process_is_left();
    let scratch = format!(".{}.", running.0.id());
    for folder in ["/dev/shm", "/tmp"] {
        let left = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
        let left: Vec<_> = left
            .filter(|name| {
                let name = name.to_string_lossy();
                name.starts_with("tollgate-lab.") && name.contains(&scratch)
            })
            .collect();
        assert!(left.is_empty(), "{left:?} is left in {folder}");
    }
    let said = fs::read_to_string(bench.path("errors")).unwrap();
    assert!(
        said.contains("what was measured is in r.jsonl") && said.contains("goes on from there"),
        "{said}"
    );

    let kept = results(&file);
    let made = kept.trials.len();
    assert!((4..9).contains(&made) && kept.end.is_none(), "{made} trials, end {:?}", kept.end);
    assert!(
        kept.trials.iter().all(|trial| trial.is_good()),
        "a trial that was broken off is no trial: {kept:?}"
    );

    // As if the machine had crashed while a line was written.
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}{{\"line\":\"trial\",\"cell\":\"1-")).unwrap();
    // The file's own seed is used, so that the remaining trials keep their order. Trials of 0.6 s are long
    // enough for one request even if the generator gets hardly any of its core.
    let answer = bench.run(&["run", "long", "--seconds", "0.6", "--seed", "6", "--out", "r.jsonl"]).well();
    assert!(answer.stderr.contains(&format!("r.jsonl: goes on after {made} trials")), "{}", answer.stderr);
    let ended = results(&file);
    assert_eq!(ended.trials[..made], kept.trials[..], "nothing is measured twice, nothing is changed");
    assert_eq!(order(&ended), order(&whole));
    let bad: Vec<_> = ended.trials.iter().filter(|trial| !trial.is_good()).collect();
    assert!(bad.is_empty(), "{bad:?}");
    assert!(ended.end.is_some());
    let notes: Vec<&str> = ended.notes.iter().map(|(_, text)| text.as_str()).collect();
    let stopped = format!("The run was stopped after {made} trials and continued at ");
    assert!(notes.iter().any(|text| text.starts_with(&stopped)), "{notes:?}");
    assert_eq!((ended.verdicts.len(), ended.received.len(), ended.systems.len()), (2, 2, 2));
    assert!(answer.stdout.contains("Long enough"), "{}", answer.stdout);

    bench.run(&arguments).refused(1, &["r.jsonl holds a whole run", "--out", "--fresh"]);
    assert_eq!(results(&file), ended);
}

#[test]
fn a_run_is_not_continued_with_another_program() {
    let bench = Bench::new();
    bench.study("long", STUDY);
    // A copy, so that the test can replace it.
    let gate = bench.path("gate");
    fs::copy(LAB, &gate).unwrap();
    let system = fs::read_to_string(bench.path("data/systems/wire/system.yaml")).unwrap();
    bench.write("data/systems/wire/system.yaml", &system.replace(LAB, gate.to_str().unwrap()));
    let arguments = ["run", "long", "--seconds", "0.2", "--out", "r.jsonl"];
    bench.run(&arguments).well();
    // Simulates a run that was stopped in its last cell.
    let file = bench.path("r.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    let kept = text.lines().take_while(|line| !line.contains("\"line\":\"verdict\""));
    let kept = kept.collect::<Vec<_>>().join("\n") + "\n";
    fs::write(&file, kept.rsplit_once("{\"line\":\"trial\"").unwrap().0).unwrap();
    fs::remove_file(&gate).unwrap();
    fs::copy(LAB, &gate).unwrap();
    bench.run(&arguments).refused(1, &["gate of wire is newer than the last line of r.jsonl", "--fresh"]);
    let kept = fs::read_to_string(&file).unwrap();
    fs::write(&file, kept.replace("\"version\":\"0.1.0\"", "\"version\":\"0.0.9\"")).unwrap();
    bench.run(&arguments).refused(1, &["wire was 0.0.9 (", "and is 0.1.0 (", "--fresh"]);
    // A file that was written after the program is continued.
    fs::write(&file, kept).unwrap();
    bench.run(&arguments).well();
}

#[test]
fn a_load_that_is_stopped_shows_what_it_measured_and_invents_nothing() {
    let bench = Bench::new();
    let (address, _) = server(|asked| {
        if asked.line.contains("/hang") {
            sleep(Duration::from_secs(60));
        }
        ok("fine")
    });
    let stopped = |arguments: &[&str], after: &str| {
        let errors = bench.path("errors");
        let file = fs::File::create(&errors).unwrap();
        let mut command = bench.command(&[&["load"], arguments].concat());
        let mut running = Running(command.stdout(Stdio::piped()).stderr(file).spawn().unwrap());
        let said = || fs::read_to_string(&errors).unwrap();
        let started = Instant::now();
        while said().matches(after).count() < 2 {
            assert!(started.elapsed() < PATIENCE, "{}", said());
            sleep(Duration::from_millis(20));
        }
        running.interrupt();
        let mut stdout = String::new();
        running.0.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        Answer { code: running.0.wait().unwrap().code(), stdout, stderr: said() }
    };
    // The requests in flight might have been answered: they are neither good nor failed.
    let hang = format!("http://{address}/hang");
    let answer = stopped(&[&hang, "-c", "2", "--timeout", "60s", "-z", "60s", "--live"], "errors 0").well();
    assert!(answer.stdout.contains("good        0\n"), "{answer:?}");
    assert!(answer.stdout.contains("failed      0 (0.00 %)\n"), "{answer:?}");
    // A search claims no rate that was not tried to its end.
    let url = format!("http://{address}/");
    let answer = stopped(&[&url, "-c", "1", "-z", "500ms", "--find-rate", "errors<50%"], "holds").well();
    assert!(answer.stdout.contains("/s holds errors<50%; "), "{answer:?}");
    assert!(answer.stdout.contains("stopped before"), "{answer:?}");
    let claimed = answer.stdout.split("/s").next().unwrap();
    let tried = format!("{claimed}/s  holds");
    assert!(answer.stderr.contains(&tried), "{answer:?}");
}

#[test]
fn a_study_that_is_killed_outright_takes_its_servers_along() {
    let bench = Bench::new();
    bench.study("long", STUDY);
    let mut running = Running(
        bench
            .command(&["run", "long", "--out", "r.jsonl"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    wait_for_trials(&mut running, &bench.path("r.jsonl"), 1);
    running.0.kill().unwrap();
    running.0.wait().unwrap();
    // The kernel sends the children a signal; paused ones are resumed for it.
    bench.no_process_is_left();
    assert!(bench.results("r.jsonl").trials[0].is_good());
}

#[test]
fn an_origin_by_itself_ends_upon_the_signal() {
    let bench = Bench::new();
    bench.write("origin.json", r#"{"listen": "127.0.0.1:0", "control": "127.0.0.1:0"}"#);
    let mut running = Running(bench.command(&["origin", "origin.json"]).spawn().unwrap());
    sleep(Duration::from_millis(200));
    assert!(running.0.try_wait().unwrap().is_none(), "it serves until it is told to end");
    // Not SIGINT: a shell that runs the tests in the background ignores it, and children inherit that.
    running.signal("TERM");
    assert!(!running.0.wait().unwrap().success());
    let answer = Answer::from(bench.command(&["origin", "nowhere.json"]).output().unwrap());
    answer.refused(1, &["nowhere.json: No such file"]);
}
