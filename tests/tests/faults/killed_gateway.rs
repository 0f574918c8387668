//! The gateway is killed while it writes, and started again on the same addresses.

use std::fs;
use std::thread::JoinHandle;

use serde_json::Value;
use tollgate_tests::{Client, Gateway, Origin, Signal, eventually};

/// Sends requests until there is no answer. Returns how many answers there were.
fn ask_to_the_end(mut client: Client) -> JoinHandle<usize> {
    std::thread::spawn(move || {
        let mut answers = 0;
        while client.try_exchange("/").is_ok_and(|response| response.status == 200) {
            answers += 1;
        }
        answers
    })
}

/// Returns how many lines a log has, and how many of them are not JSON.
fn lines(text: &str) -> (usize, usize) {
    let bad = text.lines().filter(|line| serde_json::from_str::<Value>(line).is_err()).count();
    (text.lines().count(), bad)
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn killed_in_mid_write() {
    const TURNS: usize = 10;
    let origin = Origin::ok();
    let log = std::env::temp_dir().join(format!("tollgate-killed-{}.log", std::process::id()));
    let config = format!(
        "workers: 2\naccess_log: {{to: \"{}\", format: json}}\nroutes: [{{match: \"/*\", to: [\"{}\"]}}]\n",
        log.display(),
        origin.address()
    );
    let mut asked = 0;
    for _ in 0..TURNS {
        let mut gateway = Gateway::start(&config);
        let before = origin.count();
        let load: Vec<_> = (0..8).map(|_| ask_to_the_end(gateway.client())).collect();
        eventually("a load", || origin.count() > before + 500);
        gateway.signal(Signal::KILL);
        let _ = gateway.wait_exit();
        asked += load.into_iter().map(|client| client.join().expect("no panic")).sum::<usize>();
    }
    let text = fs::read_to_string(&log).expect("the log");
    let (all, bad) = lines(&text);
    eprintln!(
        "gateway killed {TURNS} times in mid-write: {asked} answers, {all} lines in the log, {bad} of them cut"
    );
    let _ = fs::remove_file(&log);
    // The workers' buffered lines, at most 100 ms of them, are lost with the process. Written lines are
    // whole, except for the line that the kill cut.
    assert!(bad <= TURNS && all > TURNS * 100, "{bad} bad lines of {all}");
}
