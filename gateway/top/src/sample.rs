//! A live document for the tests.

use tollgate_observe::live::{
    Columns, CostLive, EndpointLive, Latency, LiveDocument, Requests, Resources, RouteLive, UpstreamLive,
    WorkerLive,
};

fn latency(count: u64) -> Latency {
    let mut buckets = vec![0; 22];
    (buckets[3], buckets[6]) = (count * 9 / 10, count / 10);
    Latency { count, buckets, ..Latency::default() }.since(&Latency::default())
}

fn route(name: &str, requests: u64, errors: u64) -> RouteLive {
    let codes = [0, 0, requests - errors, 0, 0, errors];
    RouteLive { name: name.to_owned(), requests, codes, latency: latency(requests), recent: None }
}

fn endpoint(address: &str, state: &str, requests: u64) -> EndpointLive {
    EndpointLive {
        address: address.to_owned(),
        weight: 1,
        state: state.to_owned(),
        health: "healthy".to_owned(),
        connections: 4,
        requests,
        ..EndpointLive::default()
    }
}

/// Returns a document after `total` requests: three quarters to `items`, the others to `cart`, where one of
/// ten fails.
pub fn live(time: f64, total: u64) -> LiveDocument {
    let (items, cart) = (total * 3 / 4, total / 4);
    let endpoints = vec![
        endpoint("10.0.0.1:8080", "available", total / 2),
        endpoint("10.0.0.2:8080", "unhealthy", total / 2),
    ];
    let history = Columns { time: vec![time], requests: vec![10.0], ..Columns::default() };
    LiveDocument {
        time,
        version: "0.1.0".to_owned(),
        state: "running".to_owned(),
        uptime: time - 900.0,
        generation: 3,
        configured_routes: 7,
        metrics: true,
        requests: Requests {
            total,
            in_flight: 2,
            codes: [0, 0, total - cart / 10, 0, 0, cart / 10],
            latency: latency(total),
            ..Requests::default()
        },
        workers: vec![WorkerLive::default(); 2],
        routes: vec![route("items", items, 0), route("cart", cart, cart / 10)],
        upstreams: vec![UpstreamLive {
            name: "shop".to_owned(),
            endpoints,
            idle: 4,
            ..UpstreamLive::default()
        }],
        cost: CostLive {
            cores: 2.0,
            requests_per_second: Some(100.0),
            cores_used: Some(0.01),
            cpu_microseconds_per_request: Some(12.34),
            headroom: Some(150_000.0),
            ..CostLive::default()
        },
        resources: Resources { memory: Some(28_900_000), ..Resources::default() },
        history,
        ..LiveDocument::default()
    }
}
