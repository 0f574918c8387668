//! Counts open connections by destination, and checks bounds on them at every connect. Scenarios use it to
//! prove that the gateway respects its connection limits at every moment, not only at the end.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

/// Connections that are open or being opened, by destination. A connection counts from its first packet until
/// its opener closes the socket, as in the kernel's table of the opener.
#[derive(Debug, Default)]
pub(super) struct ConnectionMeter {
    open: BTreeMap<SocketAddr, usize>,
    /// Keyed by first and last port, both inclusive.
    bounds: BTreeMap<(u16, u16), ConnectionBound>,
    /// Descriptions of violations, with their times.
    pub exceeded_limits: Vec<String>,
}

/// Bounds on the connections to a range of ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionBound {
    /// All of them together; `None`: unbounded.
    pub all: Option<usize>,
    /// To any one address; `None`: unbounded.
    pub each: Option<usize>,
}

impl ConnectionMeter {
    /// Counts a new connection and checks the bounds.
    pub fn opened(&mut self, to: SocketAddr, now: Duration) {
        *self.open.entry(to).or_default() += 1;
        for (ports, bound) in &self.bounds {
            if !(ports.0..=ports.1).contains(&to.port()) {
                continue;
            }
            let (all, each) = (self.sum(*ports), self.open.get(&to).copied().unwrap_or_default());
            if bound.all.is_some_and(|bound| all > bound) || bound.each.is_some_and(|bound| each > bound) {
                self.exceeded_limits.push(format!(
                    "at {now:?} there are {each} connections to {to} and {all} to all ports of {ports:?}, where {bound:?}"
                ));
            }
        }
    }

    /// Counts a closed connection.
    pub fn closed(&mut self, to: SocketAddr) {
        if let Some(open) = self.open.get_mut(&to) {
            *open -= 1;
        }
    }

    /// Sets a bound for connections that are opened from now on.
    pub fn limit_connections(&mut self, ports: &Range<u16>, bound: ConnectionBound) {
        self.bounds.insert((ports.start, ports.end - 1), bound);
    }

    /// Number of connections to a range of ports.
    pub fn sum(&self, (first, last): (u16, u16)) -> usize {
        self.open.iter().filter(|(to, _)| (first..=last).contains(&to.port())).map(|(_, open)| open).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_exceeded_bound_is_reported() {
        let mut meter = ConnectionMeter::default();
        let [a, b, other] =
            [(1, 80), (2, 81), (1, 90)].map(|(host, port)| SocketAddr::from(([10, 0, 0, host], port)));
        meter.limit_connections(&(80..82), ConnectionBound { all: Some(3), each: Some(2) });
        for to in [a, a, b, other, other, other, other] {
            meter.opened(to, Duration::ZERO);
        }
        assert_eq!((meter.sum((80, 81)), meter.exceeded_limits.len()), (3, 0));
        meter.opened(b, Duration::ZERO);
        assert_eq!(meter.exceeded_limits.len(), 1, "one too many together");
        meter.closed(b);
        meter.closed(b);
        meter.opened(a, Duration::ZERO);
        assert_eq!(meter.exceeded_limits.len(), 2, "one too many to one address");
    }
}
