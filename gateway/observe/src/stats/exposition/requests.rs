//! The metrics of requests: by route, reason, method and version of HTTP.

use std::fmt;

use super::Scrape;
use crate::stats::page::Exporter;
use crate::stats::{grpc, responses};
use crate::{Protocol, Reason};

impl Scrape {
    pub(super) fn requests(&self, page: &mut Exporter<'_>) -> fmt::Result {
        let sum = &self.snapshot;
        let mut family =
            page.counter("tollgate_requests_total", "Finished requests, by route, status and method.")?;
        for route in &sum.routes {
            for ((status, method), count) in &route.responses {
                let code = responses::label(*status);
                family
                    .add(&[("route", &*route.name), ("code", &code), ("method", method.as_str())], *count)?;
            }
        }
        let mut family = page.counter("tollgate_reasons_total", "Finished requests, by route and reason.")?;
        for route in &sum.routes {
            for (reason, count) in Reason::ALL.iter().zip(route.reasons) {
                if count > 0 {
                    family.add(&[("route", &*route.name), ("reason", reason.as_str())], count)?;
                }
            }
        }
        page.counter(
            "tollgate_internal_errors_total",
            "Requests that failed because of the gateway itself.",
        )?
        .set(sum.reasons[Reason::ProxyInternalError as usize])?;
        let mut family = page.gauge(
            "tollgate_other_names",
            "Routes and upstreams that were used, and share the label `other`.",
        )?;
        for (label, count) in ["route", "upstream"].into_iter().zip(sum.in_other) {
            family.add(&[("label", label)], count)?;
        }
        let mut family = page.histogram(
            "tollgate_request_duration_seconds",
            "Time from the first byte of a request to the end of its exchange.",
        )?;
        for route in &sum.routes {
            family.add(&[("route", &*route.name)], &route.duration)?;
        }
        grpc::encode(sum.routes.iter().map(|route| (&*route.name, route.grpc)), page)?;
        grpc::encode_methods(&sum.grpc_methods, page)?;
        page.gauge("tollgate_requests_in_flight", "Requests in flight.")?.set(sum.in_flight)?;
        let mut family =
            page.counter("tollgate_protocol_requests_total", "Finished requests, by HTTP version.")?;
        for (protocol, count) in Protocol::ALL.iter().zip(sum.protocols) {
            family.add(&[("protocol", protocol.as_str())], count)?;
        }
        page.counter("tollgate_received_bytes_total", "Bytes of request bodies from clients.")?
            .set(sum.bytes_in)?;
        page.counter("tollgate_sent_bytes_total", "Bytes of response bodies to clients.")?.set(sum.bytes_out)
    }
}
