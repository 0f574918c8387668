//! Counts of gRPC calls, by route, method and final status.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::counter::Counter;
use super::page::Exporter;

/// The status codes 0 to 16, and an index for calls without one.
const CODES: usize = 18;
/// Number of methods with counts of their own. Services have some dozens; all methods past this bound share
/// one entry.
const METHODS_MAX: usize = 256;
/// The longest path of a counted method, in bytes.
const METHOD_PATH_MAX_BYTES: usize = 256;
/// The path under which all other methods are counted.
const OTHERS: &str = "-/-";
/// The status of an endpoint that does not know the method (UNIMPLEMENTED).
const UNKNOWN_METHOD: u8 = 12;
/// The label values: the `grpc-status`, or `-`.
const LABELS: [&str; CODES] =
    ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "-"];

/// Ended calls by status code; the last entry counts calls without one.
pub type GrpcSnapshot = [u64; CODES];

/// One worker's counts for one route.
#[derive(Debug, Default)]
pub(super) struct GrpcCounts([Counter; CODES]);

impl GrpcCounts {
    /// Counts a call. An unknown code counts as none, so that the label has no further values.
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

/// Ended calls by method: the key is the path, which names service and method.
pub type MethodsSnapshot = BTreeMap<Arc<str>, GrpcSnapshot>;

/// One worker's counts by method. Only that worker and readers of the metrics take the lock.
#[derive(Debug, Default)]
pub(super) struct Methods(Mutex<MethodTable>);

#[derive(Debug, Default)]
struct MethodTable {
    methods: HashMap<Arc<str>, GrpcCounts>,
    /// Calls of methods without an entry.
    others: GrpcCounts,
}

impl Methods {
    /// Counts a call. A method gets an entry with the first endpoint answer that shows that it exists, so
    /// clients cannot fill the table with invented names.
    pub(super) fn count(&self, path: &[u8], status: Option<u8>, by_endpoint: bool) {
        let known = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let path = std::str::from_utf8(path).ok().filter(|path| is_method(path));
        if let Some(counts) = path.and_then(|path| known.methods.get(path)) {
            return counts.count(status);
        }
        let has_it = by_endpoint && status.is_some_and(|status| status != UNKNOWN_METHOD);
        match path.filter(|_| has_it && known.methods.len() < METHODS_MAX) {
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

/// Returns whether a path has the form of a method: `/package.Service/Method`.
fn is_method(path: &str) -> bool {
    path.len() <= METHOD_PATH_MAX_BYTES
        && path.bytes().all(|byte| byte.is_ascii_graphic())
        && path.strip_prefix('/').and_then(|path| path.split_once('/')).is_some_and(|(service, method)| {
            !service.is_empty() && !method.is_empty() && !method.contains('/')
        })
}

/// Writes the calls by method, with only the codes that occurred.
pub(super) fn encode_methods(methods: &MethodsSnapshot, page: &mut Exporter<'_>) -> fmt::Result {
    let mut family = page.counter(
        "tollgate_grpc_method_requests_total",
        "Finished gRPC calls, by service, method and grpc-status.",
    )?;
    let mut add = |path: &str, counts: &GrpcSnapshot| {
        let (service, method) = path.trim_start_matches('/').split_once('/').unwrap_or_default();
        for (label, count) in LABELS.iter().zip(counts).filter(|(_, count)| **count > 0) {
            family.add(&[("service", service), ("method", method), ("grpc_status", label)], *count)?;
        }
        Ok(())
    };
    let mut others = GrpcSnapshot::default();
    // Each worker learns methods independently, so the sum may exceed the bound. The order by name keeps the
    // same methods in each scrape.
    for (place, (path, counts)) in methods.iter().filter(|(path, _)| &***path != OTHERS).enumerate() {
        if place < METHODS_MAX {
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

/// Writes the calls by route, with only the codes that occurred: a route has two or three.
pub(super) fn encode<'a>(
    routes: impl Iterator<Item = (&'a str, Option<GrpcSnapshot>)>,
    page: &mut Exporter<'_>,
) -> fmt::Result {
    let mut family =
        page.counter("tollgate_grpc_requests_total", "Finished gRPC calls, by route and grpc-status.")?;
    for (route, counts) in routes {
        for (label, count) in LABELS.iter().zip(counts.unwrap_or_default()) {
            if count > 0 {
                family.add(&[("route", route), ("grpc_status", label)], count)?;
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
        worker.record(&crate::Tally { route_slot: greeter, ..sample::tally() }, || greeter);
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
            // No endpoint has shown that these methods exist.
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
        // The number of entries is bounded, whatever endpoints answer.
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
