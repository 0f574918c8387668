//! Picks an endpoint repeatedly, for a count of instructions with callgrind:
//!
//! ```sh
//! cargo build --release -p tollgate-upstream --example pick_cost
//! for picks in 0 100000; do
//!   valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/pick_cost round_robin 3 $picks
//! done
//! ```
//!
//! The difference, divided by the number of picks, is the cost of one pick. Policies: `round_robin`,
//! `weighted` (round robin with unequal weights), `least_requests`, `least_requests_of_all`, `random`,
//! `hash`.

use std::hint::black_box;
use std::sync::Arc;

use tollgate_net::{Address, BulkQueue, Runtime, Timers};
use tollgate_observe::Registry;
use tollgate_plan::{Endpoint, HashBy, Policy, Pool, Rules, Upstream};
use tollgate_upstream::{PickHints, UpstreamStates, Upstreams, hash};

fn main() {
    let mut words = std::env::args().skip(1);
    let policy = words.next().unwrap_or_else(|| "round_robin".to_owned());
    let mut number = |default| words.next().and_then(|word| word.parse().ok()).unwrap_or(default);
    let (endpoints, picks) = (number(3), number(100_000));
    let mut rules = Rules::default();
    rules.balance.policy = match policy.as_str() {
        "least_requests" => Policy::LeastRequests,
        "least_requests_of_all" => Policy::LeastRequestsOfAll,
        "random" => Policy::Random,
        "hash" => Policy::Hash(HashBy::Path),
        _ => Policy::RoundRobin,
    };
    let hashed = policy == "hash";
    let endpoint = |n: u32| Endpoint {
        address: Address::tcp(&format!("10.0.{}.{}", n / 256, n % 256), 80),
        weight: if policy == "weighted" { n % 5 + 1 } else { 1 },
        priority: 0,
        zone: None,
    };
    let planned = Arc::new(Upstream {
        name: "u".to_owned(),
        endpoints: (0..endpoints).map(endpoint).collect(),
        discover: None,
        tls: None,
        http2: None,
        proxy_protocol: None,
        zone: None,
        pool: Pool::default(),
        rules,
    });
    Runtime::new().expect("a runtime").run(async {
        let registry = Registry::new(true);
        let stats = registry.worker();
        let timers = Timers::start().expect("timers");
        let upstream =
            Upstreams::new((0, 1), (timers, BulkQueue::default()), stats, registry, UpstreamStates::new())
                .get(&planned, 0);
        for pick in 0..picks {
            let hash = if hashed { Some(hash(&pick.to_le_bytes())) } else { None };
            black_box(upstream.pick(&PickHints { hash, ..PickHints::default() }));
        }
    });
}
