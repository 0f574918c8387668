//! How long a file of 10,000 routes takes to load: `cargo run --release -p tollgate-config --example load`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant};

use tollgate_config::from_text;

fn main() {
    let mut text = String::from("listen: 127.0.0.1:8080\nroutes:\n");
    for i in 0..10_000 {
        let _ = write!(
            text,
            "  - name: route-{i}\n    match: host{}.example.com/service{i}/*\n    to: [10.0.0.1:8080, 10.0.0.2:8080]\n",
            i % 100
        );
    }
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..15 {
        let started = Instant::now();
        let loaded = from_text("routes.yaml", &text, &|_| None);
        times.push(started.elapsed());
        assert_eq!(loaded.config.map(|config| config.routes.len()), Some(10_000));
    }
    times.sort();
    let mib = text.len() as f64 / f64::from(1 << 20);
    let _ = writeln!(
        std::io::stdout(),
        "10,000 routes, {mib:.1} MiB: median {:?}, least {:?}",
        times[7],
        times[0]
    );
}
