//! Measures a look-up with one route and with many, in nanoseconds; under callgrind, in instructions.
//!
//! ```text
//! cargo run --release -p tollgate-route --example lookup_cost
//! valgrind --tool=callgrind --toggle-collect='*measured*' target/release/examples/lookup_cost 10000 hosts 1000
//! ```
//!
//! Arguments: routes, shape of the table and look-ups. The shapes are `paths` (prefixes of one host),
//! `exact`, `hosts` (a host per route), `wild` (a wildcard host per route), `regex`, and `normalise` (only
//! the path's normal form). With arguments, only that cell runs; callgrind's total divided by the look-ups is
//! the figure.

use std::hint::black_box;
use std::io::Write as _;
use std::time::Instant;

use tollgate_route::{Normalised, PathRules, PathSpec, Request, RouteSpec, Router, normalise};

struct Get {
    host: String,
    path: String,
}

impl Request for Get {
    fn method(&self) -> &[u8] {
        b"GET"
    }

    fn host(&self) -> &[u8] {
        self.host.as_bytes()
    }

    fn path(&self) -> &[u8] {
        self.path.as_bytes()
    }

    fn query(&self) -> Option<&[u8]> {
        None
    }

    fn header(&self, _: &str) -> Option<&[u8]> {
        None
    }
}

const SHAPES: [&str; 6] = ["paths", "exact", "hosts", "wild", "regex", "normalise"];

/// Returns the route with this number, and a request for it.
fn route(shape: &str, number: usize) -> (RouteSpec, Get) {
    let host = |name: String| Some(name);
    let (host, path, name, target) = match shape {
        "exact" => {
            let path = format!("/api/v1/service-{number:05}/items");
            (host("api.example.com".into()), PathSpec::Exact(path.clone()), "api.example.com".into(), path)
        }
        "hosts" => {
            let name = format!("tenant-{number:05}.example.com");
            (host(name.clone()), PathSpec::Prefix("/api".into()), name, "/api/v1/items/42".into())
        }
        "wild" => {
            let name = format!("tenant-{number:05}.example.com");
            let path = PathSpec::Prefix("/api".into());
            (host(format!("*.{name}")), path, format!("a.{name}"), "/api/v1/items/42".into())
        }
        "regex" => {
            let path = PathSpec::Regex(format!("/api/v1/service-{number:05}/[0-9]+"));
            (
                host("api.example.com".into()),
                path,
                "api.example.com".into(),
                format!("/api/v1/service-{number:05}/42"),
            )
        }
        _ => {
            let path = format!("/api/v1/service-{number:05}");
            let target = format!("{path}/items/42");
            (host("api.example.com".into()), PathSpec::Prefix(path), "api.example.com".into(), target)
        }
    };
    (RouteSpec { host, path, ..RouteSpec::default() }, Get { host: name, path: target })
}

#[inline(never)]
fn measured_find(router: &Router, requests: &[Get], rounds: usize) {
    for round in 0..rounds {
        assert!(black_box(router.find(&requests[round % requests.len()])).is_some());
    }
}

#[inline(never)]
fn measured_normalise(requests: &[Get], rounds: usize) {
    let mut out = Vec::new();
    let rules = PathRules::default();
    for round in 0..rounds {
        let path = requests[round % requests.len()].path.as_bytes();
        assert_eq!(normalise(black_box(path), &rules, &mut out), Ok(Normalised::Unchanged));
    }
}

/// Measures one cell: nanoseconds to build the table, and for each look-up.
fn cell(shape: &str, routes: usize, rounds: usize) -> Result<(f64, f64), String> {
    let specs = (0..routes).map(|number| route(shape, number).0).collect();
    let begin = Instant::now();
    let (router, ties) = Router::build(specs).map_err(|errors| format!("{errors:?}"))?;
    let build = begin.elapsed().as_secs_f64() * 1e9;
    assert!(ties.is_empty());
    // A hundred targets, spread over the table.
    let requests: Vec<Get> = (0..100).map(|at| route(shape, at * routes / 100).1).collect();
    let run = |rounds| match shape {
        "normalise" => measured_normalise(&requests, rounds),
        _ => measured_find(&router, &requests, rounds),
    };
    if rounds >= 1_000_000 {
        run(rounds / 10);
    }
    let begin = Instant::now();
    run(rounds);
    Ok((build, begin.elapsed().as_secs_f64() * 1e9 / rounds as f64))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout().lock();
    let mut line = |shape: &str, routes: usize, rounds: usize| -> Result<(), Box<dyn std::error::Error>> {
        let (build, find) = cell(shape, routes, rounds)?;
        writeln!(
            out,
            "{shape:<10} {routes:>6} routes  {find:>7.1} ns a look-up  {:>7.1} ms to build",
            build / 1e6
        )?;
        Ok(())
    };
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [routes, shape, rounds] if SHAPES.contains(&shape.as_str()) => {
            line(shape, routes.parse()?, rounds.parse()?)?;
        }
        [] => {
            for shape in SHAPES {
                for routes in [1, 10_000] {
                    line(shape, routes, 2_000_000)?;
                }
            }
        }
        _ => return Err("arguments: ROUTES SHAPE LOOK-UPS, or none".into()),
    }
    Ok(())
}
