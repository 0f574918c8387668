//! gRPC calls by how they ended.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::counter::Counter;
use super::exposition::Page;
use super::snapshot::RouteSnapshot;

/// The codes that there are, 0 to 16, and a place for calls without one.
const CODES: usize = 18;
/// Methods with counts of their own. Services have some dozens; past this many all others share one place.
const METHODS: usize = 256;
/// The longest path of one, bytes.
const LONGEST: usize = 256;
/// Stands for all that have no place of their own.
const OTHERS: &str = "-/-";
/// The code of who does not know a method (UNIMPLEMENTED).
const UNKNOWN_METHOD: u8 = 12;
/// As in the label: what `grpc-status` says, or `-`.
const LABELS: [&str; CODES] =
    ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "-"];

/// How many calls ended with each code, the last place being for none.
pub type GrpcSnapshot = [u64; CODES];

/// One worker's counts of one route.
#[derive(Debug, Default)]
pub(super) struct GrpcCounts([Counter; CODES]);

impl GrpcCounts {
    /// A code that there is not counts as none: the label has no more values than these.
    pub(super) fn count(&self, status: Option<u8>) {
        let place = status.map_or(CODES - 1, |status| usize::from(status).min(CODES - 1));
        self.0[place].increment();
    }

    pub(super) fn add_to(&self, sum: &mut GrpcSnapshot) {
        for (total, count) in sum.iter_mut().zip(&self.0) {
            *total += count.get();
        }
    }
}

/// The counts of methods: calls that ended, by the path that names service and method.
pub type MethodsSnapshot = BTreeMap<Arc<str>, GrpcSnapshot>;

/// One worker's counts by method. Behind a lock that its worker alone takes, but for whoever reads the metrics.
#[derive(Debug, Default)]
pub(super) struct Methods(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    methods: HashMap<Arc<str>, GrpcCounts>,
    /// Of calls of methods that nobody is known to have.
    others: GrpcCounts,
}

impl Methods {
    /// A method is known from the first answer of an endpoint that has it: clients cannot make up names that stay.
    pub(super) fn count(&self, path: &[u8], status: Option<u8>, by_endpoint: bool) {
        let known = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let path = std::str::from_utf8(path).ok().filter(|path| is_method(path));
        if let Some(counts) = path.and_then(|path| known.methods.get(path)) {
            return counts.count(status);
        }
        let has_it = by_endpoint && status.is_some_and(|status| status != UNKNOWN_METHOD);
        match path.filter(|_| has_it && known.methods.len() < METHODS) {
            Some(path) => known.methods.entry(path.into()).or_default().count(status),
            None => known.others.count(status),
        }
    }

    pub(super) fn add_to(&self, sum: &mut MethodsSnapshot) {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (path, counts) in &known.methods {
            counts.add_to(sum.entry(path.clone()).or_default());
        }
        known.others.add_to(sum.entry(OTHERS.into()).or_default());
    }
}

/// Whether a path is that of a method: `/package.Service/Method`.
fn is_method(path: &str) -> bool {
    path.len() <= LONGEST
        && path.bytes().all(|byte| byte.is_ascii_graphic())
        && path.strip_prefix('/').and_then(|path| path.split_once('/')).is_some_and(|(service, method)| {
            !service.is_empty() && !method.is_empty() && !method.contains('/')
        })
}

/// Calls by method, of which only codes that came up.
pub(super) fn encode_methods(methods: &MethodsSnapshot, page: &mut Page<'_>) -> fmt::Result {
    let mut family = page.counter(
        "tollgate_grpc_method_requests_total",
        "gRPC calls that ended, by service, method and grpc-status.",
    )?;
    let mut add = |path: &str, counts: &GrpcSnapshot| {
        let (service, method) = path.trim_start_matches('/').split_once('/').unwrap_or_default();
        for (label, count) in LABELS.iter().zip(counts).filter(|(_, count)| **count > 0) {
            family.add(&[("service", service), ("method", method), ("grpc_status", label)], *count)?;
        }
        Ok(())
    };
    let mut others = GrpcSnapshot::default();
    // Each worker has come to know its own. By name, so that the same ones have a series each time.
    for (place, (path, counts)) in methods.iter().filter(|(path, _)| &***path != OTHERS).enumerate() {
        if place < METHODS {
            add(path, counts)?;
        } else {
            others.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
    }
    if let Some(counts) = methods.get(OTHERS) {
        others.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    add(OTHERS, &others)
}

/// Only codes that came up: a route has two or three of them.
pub(super) fn encode(routes: &[RouteSnapshot], page: &mut Page<'_>) -> fmt::Result {
    let mut family =
        page.counter("tollgate_grpc_requests_total", "gRPC calls that ended, by route and grpc-status.")?;
    for route in routes {
        for (label, count) in LABELS.iter().zip(route.grpc.unwrap_or_default()) {
            if count > 0 {
                family.add(&[("route", &*route.name), ("grpc_status", label)], count)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::Registry;
    use crate::record::sample;

    #[test]
    fn calls_by_route_and_code() {
        let registry = Registry::new(true);
        let worker = registry.worker();
        let greeter = registry.route_slot("greeter");
        worker.record(&crate::Tally { route_slot: greeter, ..sample::tally() });
        for status in [Some(0), Some(14), Some(0), None, Some(99)] {
            worker.grpc_ended(greeter, status, (b"/hello.Greeter/Say", true));
        }
        let text = registry.render();
        for line in [
            r#"tollgate_grpc_requests_total{route="greeter",grpc_status="0"} 2"#,
            r#"tollgate_grpc_requests_total{route="greeter",grpc_status="14"} 1"#,
            r#"tollgate_grpc_requests_total{route="greeter",grpc_status="-"} 2"#,
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert_eq!(text.matches("tollgate_grpc_requests_total{").count(), 3);
    }

    #[test]
    fn calls_by_method_and_code() {
        let registry = Registry::new(true);
        let (one, two) = (registry.worker(), registry.worker());
        let route = registry.route_slot("r");
        for (worker, path, status, by_endpoint) in [
            (&one, &b"/a.B/C"[..], Some(0), true),
            (&one, b"/a.B/C", Some(14), false),
            (&two, b"/a.B/C", Some(5), true),
            (&two, b"/a.B/C", None, false),
            // Nobody has shown that there are such methods.
            (&one, b"/a.B/Made-up", Some(12), true),
            (&one, b"/a.B/Made-up", Some(14), false),
            (&one, b"/a.B/Made-up", None, true),
            (&one, b"/a.B/C/D", Some(0), true),
            (&one, b"no", Some(0), true),
            (&one, b"//C", Some(0), true),
        ] {
            worker.grpc_ended(route, status, (path, by_endpoint));
        }
        let text = registry.render();
        for line in [
            r#"{service="a.B",method="C",grpc_status="0"} 1"#,
            r#"{service="a.B",method="C",grpc_status="14"} 1"#,
            r#"{service="a.B",method="C",grpc_status="5"} 1"#,
            r#"{service="a.B",method="C",grpc_status="-"} 1"#,
            r#"{service="-",method="-",grpc_status="0"} 3"#,
            r#"{service="-",method="-",grpc_status="12"} 1"#,
            r#"{service="-",method="-",grpc_status="14"} 1"#,
            r#"{service="-",method="-",grpc_status="-"} 1"#,
        ] {
            assert!(text.contains(&format!("tollgate_grpc_method_requests_total{line}")), "{line}\n{text}");
        }
        assert_eq!(text.matches("tollgate_grpc_method_requests_total{").count(), 8);
        // Names are bounded, whatever endpoints say to them.
        for worker in [&one, &two] {
            for number in 0..1_000 {
                let path = format!("/a.B/{}{number}", if std::ptr::eq(worker, &one) { "x" } else { "y" });
                worker.grpc_ended(route, Some(0), (path.as_bytes(), true));
            }
        }
        let methods = registry.render().matches("tollgate_grpc_method_requests_total{").count();
        assert!((256..=270).contains(&methods), "{methods}");
    }
}
