//! Measures the time from a file of 10,000 routes to a plan, and to the next plan after one route has
//! changed: `cargo run --release -p tollgate-plan --example load [ROUNDS]`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Instant;

use tollgate_config::{CombinedResources, ConfigSource};
use tollgate_plan::{CompileCache, compile_with_cache};

const ROUTES: usize = 10_000;

fn text(round: usize) -> String {
    let mut text = String::from("listen: 127.0.0.1:8080\nroutes:\n");
    for i in 0..ROUTES {
        let changed = if i == ROUTES / 2 { format!("v{round}/") } else { String::new() };
        let _ = write!(
            text,
            "  - name: route-{i}\n    match: host{}.example.com/{changed}service{i}/*\n    to: [10.0.0.1:8080, 10.0.0.2:8080]\n",
            i % 100
        );
    }
    text
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(15);
    let path = std::env::temp_dir().join(format!("tollgate-load-{}.yaml", std::process::id()));
    tollgate_plan::register_policies();
    let mut source = ConfigSource::new(&path);
    let mut cache = CompileCache::default();
    let mut times: Vec<[f64; 3]> = Vec::new();
    for round in 0..=rounds {
        std::fs::write(&path, text(round)).expect("a temporary file");
        let started = Instant::now();
        let reading = source.load();
        let read = started.elapsed();
        let config = reading.config.expect("a config without a mistake");
        let plan =
            compile_with_cache(&CombinedResources::of(&config), &mut cache).expect("routes that differ").plan;
        let both = started.elapsed();
        assert_eq!(plan.routes.len(), ROUTES);
        times.push([read, both - read, both].map(|took| took.as_secs_f64() * 1e3));
    }
    // It does no harm if the file stays.
    let _ = std::fs::remove_file(&path);
    let first = times.remove(0);
    for (what, index) in [("read", 0), ("compile", 1), ("both", 2)] {
        let mut again: Vec<f64> = times.iter().map(|times| times[index]).collect();
        again.sort_by(f64::total_cmp);
        let least = again.first().copied().unwrap_or_default();
        let median = again.get(again.len() / 2).copied().unwrap_or_default();
        let _ = writeln!(
            std::io::stdout(),
            "{what:8} first {:.1} ms; one route changed: least {least:.1} ms, median {median:.1} ms",
            first[index]
        );
    }
}
