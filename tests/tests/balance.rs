//! The choice of an endpoint for a request: policies, sticky sessions, hashing, priorities and zones, splits,
//! slow start. And that few connections spread over workers and endpoints.

mod affinity;
mod few;
mod policies;
mod reloads;

use std::fmt::Write as _;

use tollgate_tests::{Gateway, Origin, Signal, eventually};

/// Starts origins that answer with their names: `a`, `b` and so on.
fn origins(count: usize) -> Vec<Origin> {
    "abcdefghij".chars().take(count).map(|name| Origin::named(&name.to_string())).collect()
}

/// Returns a config with an upstream `u` of these origins and further keys, and a route that sends all
/// requests to it.
fn to(origins: &[Origin], keys: &str) -> String {
    let entries: Vec<_> =
        origins.iter().map(|origin| format!("{{address: \"{}\"}}", origin.address())).collect();
    listed(&entries, keys)
}

/// Returns the config as [`to`] does, from endpoints that are already written as YAML.
fn listed(endpoints: &[String], keys: &str) -> String {
    let mut text = "routes: [{match: \"/*\", to: u}]\nupstreams:\n  u:\n    endpoints:\n".to_owned();
    for endpoint in endpoints {
        writeln!(text, "      - {endpoint}").expect("text");
    }
    format!("{text}    {keys}\n")
}

/// Sends a `GET` with further header lines on a connection of its own, and returns the body of the answer.
fn get(gateway: &Gateway, target: &str, lines: &str) -> String {
    ask(gateway, target, lines).text()
}

fn ask(gateway: &Gateway, target: &str, lines: &str) -> tollgate_tests::Response {
    let response = gateway.client().ask(format!("GET {target} HTTP/1.1\r\nHost: h\r\n{lines}\r\n"));
    assert_eq!(response.status, 200, "{}", response.reason());
    response
}

/// Counts the answers of each origin, in the order of `origins`.
fn tally(answers: impl IntoIterator<Item = String>, count: usize) -> Vec<usize> {
    let mut seen = vec![0; count];
    for answer in answers {
        let name = answer.bytes().next().expect("a name");
        seen[usize::from(name - b'a')] += 1;
    }
    seen
}

/// Writes a new config, and returns when it is in force.
fn reload(gateway: &Gateway, yaml: &str) {
    let generation = || {
        let text = gateway.admin("/status").text();
        let (_, rest) = text.split_once("\"generation\":").expect("a number");
        rest.trim_start().split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse::<u64>().ok())
    };
    let before = generation();
    gateway.write_config(yaml);
    gateway.signal(Signal::HUP);
    eventually("the new plan", || generation() > before);
}
