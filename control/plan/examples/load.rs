//! How long it takes from the text of 10,000 routes to a plan: `cargo run --release -p tollgate-plan --example load`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant};

use tollgate_config::from_text;
use tollgate_plan::compile;

const ROUTES: usize = 10_000;
const ROUNDS: usize = 15;

fn main() {
    let mut text = String::from("listen: 127.0.0.1:8080\nroutes:\n");
    for i in 0..ROUTES {
        let _ = write!(
            text,
            "  - name: route-{i}\n    match: host{}.example.com/service{i}/*\n    to: [10.0.0.1:8080, 10.0.0.2:8080]\n",
            i % 100
        );
    }
    let mut read: Vec<Duration> = Vec::new();
    let mut compiled: Vec<Duration> = Vec::new();
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let config = from_text("routes.yaml", &text, &|_| None).config.expect("a config without a mistake");
        read.push(started.elapsed());
        let started = Instant::now();
        let plan = compile(&config).expect("routes that differ").plan;
        compiled.push(started.elapsed());
        assert_eq!(plan.routes.len(), ROUTES);
    }
    let mut both: Vec<Duration> =
        read.iter().zip(&compiled).map(|(read, compiled)| *read + *compiled).collect();
    for (name, times) in [("read", &mut read), ("compile", &mut compiled), ("both", &mut both)] {
        times.sort();
        let (median, most) = (times[ROUNDS / 2], times[ROUNDS - 1]);
        let _ = writeln!(std::io::stdout(), "{name:8} median {median:.1?}, most {most:.1?}");
    }
}
