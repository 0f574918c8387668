//! Tests the table of upstreams across changes of plan.

use std::time::Duration;

use tollgate_net::{Address, BulkQueue, Runtime};
use tollgate_plan::{Discover, Endpoint, HashBy, Policy, Rules, Sticky};

use super::*;
use crate::{EndpointState, PickHints, ProbeHealth};

fn run(test: impl Future<Output = ()>) {
    Runtime::new().expect("a runtime").run(test);
}

/// The table of a worker that is the only one.
fn table(shared: &Arc<UpstreamStates>) -> Upstreams {
    let registry = Registry::new(true);
    let stats = registry.worker();
    Upstreams::new(
        (0, 1),
        (Timers::start().expect("timers"), BulkQueue::default()),
        stats,
        registry,
        shared.clone(),
    )
}

fn endpoint(text: &str, weight: u32) -> Endpoint {
    let (host, port) = text.split_once(':').expect("host:port");
    let address = Address::tcp(host, port.parse().expect("a port"));
    Endpoint { address, weight, priority: 0, zone: None }
}

fn planned(name: &str, endpoints: &[&str], change: impl FnOnce(&mut Planned)) -> Arc<Planned> {
    let mut planned = Planned {
        name: name.to_owned(),
        endpoints: endpoints.iter().map(|text| endpoint(text, 1)).collect(),
        discover: None,
        tls: None,
        http2: None,
        proxy_protocol: None,
        zone: None,
        pool: tollgate_plan::Pool::default(),
        rules: Rules::default(),
    };
    change(&mut planned);
    Arc::new(planned)
}

fn looks_up(planned: &mut Planned) {
    planned.discover = Some(Discover::File(std::path::Path::new("endpoints.yaml").into()));
}

/// Adopts a plan that changes this one upstream.
fn change(table: &mut Upstreams, planned: &Arc<Planned>) -> Rc<Upstream> {
    let generation = table.generation + 1;
    let change = UpstreamChange { changed: vec![planned.clone()], ..UpstreamChange::default() };
    table.apply_plan(generation, &change);
    table.get(planned, generation)
}

/// Returns the endpoints that this many requests go to.
fn picks(upstream: &Upstream, count: usize) -> Vec<String> {
    (0..count)
        .filter_map(|_| upstream.pick(&PickHints::default()))
        .map(|pool| pool.name().to_owned())
        .collect()
}

fn state(upstream: &Upstream, endpoint: &str) -> Arc<EndpointState> {
    let (host, port) = endpoint.split_once(':').expect("host:port");
    upstream.state().endpoint(&Address::tcp(host, port.parse().expect("a port")))
}

#[test]
fn unchanged_upstreams_keep_pool_and_balancer() {
    run(async {
        let mut table = table(&UpstreamStates::new());
        let old = change(&mut table, &planned("u", &["h:1", "h:2", "h:3"], |_| {}));
        assert_eq!(picks(&old, 1), ["h:1"]);
        let pools: Vec<_> = (0..3).filter_map(|_| old.pick(&PickHints::default())).collect();
        let more = planned("u", &["h:0", "h:1", "h:2"], |planned| planned.endpoints[1].weight = 2);
        let new = change(&mut table, &more);
        // Of the endpoints that stayed it was h:2's turn; h:3 has left.
        let next: Vec<_> = (0..4).filter_map(|_| new.pick(&PickHints::default())).collect();
        assert_eq!(next.iter().filter(|pool| pool.name() == "h:1").count(), 2);
        for pool in next.iter().filter(|pool| pool.name() != "h:0") {
            assert!(pools.iter().any(|known| Rc::ptr_eq(known, pool)), "{} has another pool", pool.name());
        }
        // An exchange that began before continues with its old members.
        assert_eq!(picks(&old, 3).len(), 3);
    });
}

#[test]
fn an_endpoint_listed_twice_has_one_pool() {
    run(async {
        let upstream = change(&mut table(&UpstreamStates::new()), &planned("u", &["h:1", "h:1"], |_| {}));
        let pools: Vec<_> = (0..2).filter_map(|_| upstream.pick(&PickHints::default())).collect();
        assert!(Rc::ptr_eq(&pools[0], &pools[1]));
        let other = upstream.pick(&PickHints { avoid: &pools, ..PickHints::default() });
        assert!(other.is_some(), "better than none");
    });
}

#[test]
fn looked_up_endpoints_come_and_go() {
    run(async {
        let mut table = table(&UpstreamStates::new());
        let upstream = change(&mut table, &planned("u", &["h:1"], looks_up));
        assert_eq!(picks(&upstream, 2), ["h:1", "h:1"]);
        upstream.state().set_discovered([endpoint("h:2", 1), endpoint("h:1", 9), endpoint("h:2", 1)].into());
        let mut seen = picks(&upstream, 10);
        seen.sort();
        assert_eq!((seen[4].as_str(), seen[5].as_str()), ("h:1", "h:2"), "the plan says more than a look-up");
        let kept = upstream.pick(&PickHints::default()).expect("one");
        upstream.state().set_discovered([endpoint("h:3", 1)].into());
        let seen = picks(&upstream, 10);
        assert!(!seen.contains(&"h:2".to_owned()) && seen.contains(&"h:3".to_owned()), "{seen:?}");
        // A plan without discovery.
        let fixed = change(&mut table, &planned("u", &["h:1"], |_| {}));
        assert_eq!(picks(&fixed, 2), ["h:1", "h:1"]);
        // The replaced members take no part in later changes.
        upstream.state().set_discovered([endpoint("h:4", 1)].into());
        assert!(!picks(&upstream, 10).contains(&"h:4".to_owned()));
        drop(kept);
    });
}

#[test]
fn members_are_rebuilt_only_after_a_change() {
    run(async {
        let upstream =
            change(&mut table(&UpstreamStates::new()), &planned("u", &["h:1", "h:2", "h:3"], |_| {}));
        state(&upstream, "h:2").set_health(ProbeHealth::Unhealthy);
        assert!(picks(&upstream, 3).contains(&"h:2".to_owned()));
        upstream.state().mark_changed();
        assert_eq!(picks(&upstream, 4), ["h:1", "h:3", "h:1", "h:3"]);
        state(&upstream, "h:3").set_ejected_until(1);
        upstream.state().mark_changed();
        assert!(picks(&upstream, 3).contains(&"h:2".to_owned()), "a panic");
    });
}

#[test]
fn a_cookie_leads_to_its_endpoint_while_that_takes_requests() {
    run(async {
        let sticky = |planned: &mut Planned| planned.rules.balance.sticky = Some(Sticky::default());
        let upstream =
            change(&mut table(&UpstreamStates::new()), &planned("u", &["h:1", "h:2", "h:3"], sticky));
        let pool = upstream.pick(&PickHints::default()).expect("one");
        let value = upstream.sticky_value(&pool).expect("a value");
        let wanted = PickHints { sticky: Some(&value), ..PickHints::default() };
        let stays = |wanted: &PickHints<'_>| {
            (0..3).all(|_| upstream.pick(wanted).is_some_and(|one| Rc::ptr_eq(&one, &pool)))
        };
        assert!(stays(&wanted) && upstream.accepts_cookie(&value));
        assert!(
            !stays(&PickHints { avoid: std::slice::from_ref(&pool), ..wanted }),
            "it has failed the request"
        );
        pool.state().set_health(ProbeHealth::Unhealthy);
        upstream.state().mark_changed();
        assert!(!stays(&wanted) && !upstream.accepts_cookie(&value));
        assert!(upstream.pick(&wanted).is_some());
    });
}

#[test]
fn slow_start_progresses_without_events() {
    run(async {
        let slow =
            |planned: &mut Planned| planned.rules.balance.slow_start = Some(Duration::from_millis(300));
        let mut table = table(&UpstreamStates::new());
        let upstream = change(&mut table, &planned("u", &["h:1", "h:2"], slow));
        assert_eq!(
            picks(&upstream, 4).iter().filter(|name| *name == "h:2").count(),
            2,
            "all are new together"
        );
        let upstream = change(&mut table, &planned("u", &["h:1", "h:2", "h:3"], slow));
        let share = || picks(&upstream, 300).iter().filter(|name| *name == "h:3").count();
        let mut shares = vec![share()];
        assert!(shares[0] < 90, "{shares:?}");
        let start = tollgate_net::now();
        // No change is signalled: time alone continues the slow start.
        while shares.last() != Some(&100) {
            assert!(start.elapsed() < Duration::from_secs(20), "{shares:?}");
            std::thread::sleep(Duration::from_millis(10));
            shares.push(share());
        }
        assert!(shares.is_sorted_by(|one, next| one <= &(next + 3)), "{shares:?}");
    });
}

#[test]
fn nothing_grows_over_thousands_of_reloads() {
    run(async {
        let shared = UpstreamStates::new();
        // The second of two workers adopts each plan after the first has adopted the next one.
        let mut tables = [table(&shared), table(&shared)];
        let hash = |planned: &mut Planned| planned.rules.balance.policy = Policy::Hash(HashBy::Path);
        let plans: Vec<_> = (0..2_000)
            .map(|n| {
                let endpoints = [format!("h:{}", n % 50_000 + 1), "h:1".to_owned()];
                let endpoints: Vec<_> = endpoints.iter().map(String::as_str).collect();
                (planned("stays", &endpoints, hash), planned(&format!("passing {n}"), &endpoints, |_| {}))
            })
            .collect();
        let apply = |table: &mut Upstreams, n: usize| {
            let (stays, passing) = &plans[n];
            let gone = n.checked_sub(1).map(|before| plans[before].1.clone()).into_iter().collect();
            let (changed, added) = (vec![stays.clone()], vec![passing.clone()]);
            table.apply_plan(n as u64 + 1, &UpstreamChange { removed: gone, changed, added });
            for planned in [stays, passing] {
                table
                    .get(planned, n as u64 + 1)
                    .pick(&PickHints { hash: Some(7), ..PickHints::default() })
                    .expect("one");
            }
        };
        let first = |tables: &[Upstreams; 2]| tables[0].upstreams["stays"].state().clone();
        apply(&mut tables[0], 0);
        let state = first(&tables);
        let table_of_hashes = |state: &UpstreamState| state.tables.count();
        for n in 1..plans.len() {
            apply(&mut tables[0], n);
            apply(&mut tables[1], n - 1);
            assert!(Arc::ptr_eq(&state, &first(&tables)), "what stays is the same");
            assert!(shared.upstreams().len() <= 4, "{}", shared.upstreams().len());
            assert!(state.endpoints().len() <= 4);
            // Each worker has one table, and makes the next one before it drops the old one.
            assert!(table_of_hashes(&state) <= 3);
        }
        tables[1].apply_plan(9_999, &UpstreamChange::default());
        assert!(shared.entries() <= 16 && state.entries() <= 16, "{} {}", shared.entries(), state.entries());
        drop(tables);
        assert_eq!(shared.upstreams().len(), 1, "the one that this test has");
    });
}
