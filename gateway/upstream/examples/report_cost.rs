//! Reports the outcome of many attempts, for a count of instructions with callgrind:
//!
//! ```sh
//! cargo build --release -p tollgate-upstream --example report_cost
//! for reports in 0 100000; do
//!   valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/report_cost 200 $reports
//! done
//! ```
//!
//! The difference, divided by the number of reports, is the cost of one report. The first argument is the
//! status of every attempt; 200 shows what the data path adds to each successful request.

use std::hint::black_box;
use std::sync::Arc;

use tollgate_net::{Address, BulkQueue, Runtime, Timers};
use tollgate_observe::Registry;
use tollgate_plan::{Endpoint, Pool, Rules, Upstream};
use tollgate_upstream::{Outcome, PickHints, UpstreamStates, Upstreams};

fn main() {
    let mut words = std::env::args().skip(1);
    let mut number = |default: u64| words.next().and_then(|word| word.parse().ok()).unwrap_or(default);
    let (status, reports) = (number(200), number(100_000));
    let endpoint = Endpoint { address: Address::tcp("10.0.0.1", 80), weight: 1, priority: 0, zone: None };
    let planned = Arc::new(Upstream {
        name: "u".to_owned(),
        endpoints: vec![endpoint],
        discover: None,
        tls: None,
        http2: None,
        proxy_protocol: None,
        zone: None,
        pool: Pool::default(),
        rules: Rules::default(),
    });
    Runtime::new().expect("a runtime").run(async {
        let registry = Registry::new(true);
        let stats = registry.worker();
        let timers = Timers::start().expect("timers");
        let upstream =
            Upstreams::new((0, 1), (timers, BulkQueue::default()), stats, registry, UpstreamStates::new())
                .get(&planned, 0);
        let pool = upstream.pick(&PickHints::default()).expect("an endpoint");
        for _ in 0..reports {
            upstream.report(black_box(&pool), Outcome::Answered(black_box(status as u16)));
        }
    });
}
