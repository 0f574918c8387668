//! Counts of how client connections start: the PROXY protocol header and the TLS handshake.

use std::fmt;

use super::counter::Counter;
use super::page::Exporter;

/// Result of waiting for a PROXY protocol header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeaderResult {
    /// The header names the client's address.
    Proxied,
    /// The header says that the connection is the proxy's own, or names no usable address.
    Local,
    /// The received bytes are not a header.
    Malformed,
    /// The peer closed the connection before the header was complete.
    Closed,
    /// The header did not arrive in time.
    Timeout,
}

const PROXY_HEADERS: [&str; 5] = ["proxied", "local", "malformed", "closed", "timeout"];

/// Why a TLS handshake failed. Each is a metric label; the last one counts all other failures.
pub const HANDSHAKE_FAILURES: [&str; 13] = [
    "closed",
    "timeout",
    "not_tls",
    "version",
    "parameters",
    "application_protocol",
    "server_name",
    "certificate_missing",
    "certificate_expired",
    "certificate_unknown_issuer",
    "certificate",
    "alert",
    "protocol",
];

const VERSIONS: [&str; 2] = ["1.2", "1.3"];
const KINDS: [&str; 2] = ["full", "resumed"];

/// One worker's counts of how client connections start.
#[derive(Debug, Default)]
pub(super) struct Handshakes {
    pub(super) done: [[Counter; KINDS.len()]; VERSIONS.len()],
    pub(super) failed: [Counter; HANDSHAKE_FAILURES.len()],
    pub(super) headers: [Counter; PROXY_HEADERS.len()],
}

/// The counts of all workers at one moment.
#[derive(Clone, Debug, Default)]
pub struct HandshakesSnapshot {
    /// Successful handshakes of TLS 1.2 and 1.3, each full and resumed.
    pub done: [[u64; KINDS.len()]; VERSIONS.len()],
    /// Failed handshakes, in the order of [`HANDSHAKE_FAILURES`].
    pub failed: [u64; HANDSHAKE_FAILURES.len()],
    /// PROXY protocol headers, in the order of [`ProxyHeaderResult`].
    pub headers: [u64; PROXY_HEADERS.len()],
}

impl Handshakes {
    pub(super) fn add_to(&self, sum: &mut HandshakesSnapshot) {
        for (sum, counts) in sum.done.iter_mut().zip(&self.done) {
            add(sum, counts);
        }
        add(&mut sum.failed, &self.failed);
        add(&mut sum.headers, &self.headers);
    }
}

fn add(sum: &mut [u64], counts: &[Counter]) {
    for (sum, count) in sum.iter_mut().zip(counts) {
        *sum += count.get();
    }
}

/// Writes the families. `certificates` holds the name of each listener certificate, and when it ends.
pub(super) fn encode(
    counts: &HandshakesSnapshot,
    certificates: &[(String, i64)],
    page: &mut Exporter<'_>,
) -> fmt::Result {
    let HandshakesSnapshot { done, failed, headers } = counts;
    let mut family = page.counter(
        "tollgate_tls_handshakes_total",
        "Successful TLS handshakes of clients, by version and whether a session was resumed.",
    )?;
    for (version, counts) in VERSIONS.iter().zip(done) {
        for (kind, count) in KINDS.iter().zip(counts) {
            family.add(&[("version", version), ("kind", kind)], *count)?;
        }
    }
    let mut family =
        page.counter("tollgate_tls_handshake_failures_total", "Failed TLS handshakes of clients.")?;
    for (reason, count) in HANDSHAKE_FAILURES.iter().zip(failed) {
        family.add(&[("reason", reason)], *count)?;
    }
    let mut family = page.gauge(
        "tollgate_tls_certificate_not_after_timestamp_seconds",
        "Expiry of a listener's certificate, in seconds since 1970.",
    )?;
    for (file, not_after) in certificates {
        family.add(&[("certificate", file)], u64::try_from(*not_after).unwrap_or_default())?;
    }
    let mut family = page.counter(
        "tollgate_proxy_protocol_headers_total",
        "Client connections that must start with a PROXY protocol header, by result.",
    )?;
    for (result, count) in PROXY_HEADERS.iter().zip(headers) {
        family.add(&[("result", result)], *count)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Exposition, Registry};

    #[test]
    fn each_has_its_series() {
        let registry = Registry::new(true);
        let worker = registry.worker();
        worker.handshake_done(true, false);
        worker.handshake_done(false, true);
        worker.handshake_failed("version");
        worker.handshake_failed("nobody knows");
        worker.proxy_header(ProxyHeaderResult::Timeout);
        registry.update_status(|status| status.certificates = vec![("a.pem".to_owned(), 1_900_000_000)]);
        let text = registry.render_as(Exposition::Text);
        for line in [
            "tollgate_tls_handshakes_total{version=\"1.3\",kind=\"full\"} 1",
            "tollgate_tls_handshakes_total{version=\"1.3\",kind=\"resumed\"} 0",
            "tollgate_tls_handshakes_total{version=\"1.2\",kind=\"resumed\"} 1",
            "tollgate_tls_handshake_failures_total{reason=\"version\"} 1",
            "tollgate_tls_handshake_failures_total{reason=\"protocol\"} 1",
            "tollgate_tls_certificate_not_after_timestamp_seconds{certificate=\"a.pem\"} 1900000000",
            "tollgate_proxy_protocol_headers_total{result=\"timeout\"} 1",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} in {text}");
        }
    }
}
