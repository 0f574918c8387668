//! gRPC calls by how they ended.

use std::fmt;

use super::counter::Counter;
use super::exposition::Page;
use super::snapshot::RouteSnapshot;

/// The codes that there are, 0 to 16, and a place for calls without one.
const CODES: usize = 18;
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
            worker.grpc_ended(greeter, status);
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
}
