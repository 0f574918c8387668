//! Counters of the whole network namespace, from `/proc/net/snmp` and `/proc/net/netstat`.

use serde::{Deserialize, Serialize};
use std::fs;

/// TCP counters of this network namespace since it was created. They include all processes in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetCounters {
    /// Connections that were refused because an accept queue was full (`TcpExt: ListenOverflows`).
    pub listen_overflows: u64,
    /// Connections that were dropped at a listening socket for any reason, overflows included (`TcpExt:
    /// ListenDrops`).
    pub listen_drops: u64,
    /// Segments that were retransmitted (`Tcp: RetransSegs`).
    pub retransmits: u64,
    /// Connections opened from here (`Tcp: ActiveOpens`).
    pub active_opens: u64,
    /// Connections accepted here (`Tcp: PassiveOpens`).
    pub passive_opens: u64,
    /// Connections that are established or half closed now (`Tcp: CurrEstab`). On loopback each has two ends
    /// and counts twice.
    pub established: u64,
}

/// The increase of the counters between two readings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetDelta {
    /// See [`NetCounters::listen_overflows`].
    pub listen_overflows: u64,
    /// See [`NetCounters::listen_drops`].
    pub listen_drops: u64,
    /// See [`NetCounters::retransmits`].
    pub retransmits: u64,
    /// See [`NetCounters::active_opens`].
    pub active_opens: u64,
    /// See [`NetCounters::passive_opens`].
    pub passive_opens: u64,
}

impl NetCounters {
    /// Reads the counters, in about 40 us. A counter that this kernel lacks stays 0.
    pub fn read() -> Self {
        let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
        Self::parse(&read("/proc/net/snmp"), &read("/proc/net/netstat"))
    }

    fn parse(snmp: &str, netstat: &str) -> Self {
        let tcp = |name| counter(snmp, "Tcp:", name).unwrap_or(0);
        let extended = |name| counter(netstat, "TcpExt:", name).unwrap_or(0);
        Self {
            listen_overflows: extended("ListenOverflows"),
            listen_drops: extended("ListenDrops"),
            retransmits: tcp("RetransSegs"),
            active_opens: tcp("ActiveOpens"),
            passive_opens: tcp("PassiveOpens"),
            established: tcp("CurrEstab"),
        }
    }

    /// Returns the increase since `earlier`.
    pub fn since(&self, earlier: &Self) -> NetDelta {
        NetDelta {
            listen_overflows: self.listen_overflows.saturating_sub(earlier.listen_overflows),
            listen_drops: self.listen_drops.saturating_sub(earlier.listen_drops),
            retransmits: self.retransmits.saturating_sub(earlier.retransmits),
            active_opens: self.active_opens.saturating_sub(earlier.active_opens),
            passive_opens: self.passive_opens.saturating_sub(earlier.passive_opens),
        }
    }
}

/// Finds a counter by name: a line of names is followed by a line of values, both starting with the same
/// label.
fn counter(text: &str, label: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.split_ascii_whitespace().next() == Some(label));
    let at = lines.next()?.split_ascii_whitespace().position(|word| word == name)?;
    lines.next()?.split_ascii_whitespace().nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{TcpListener, TcpStream};

    const SNMP: &str = "Ip: Forwarding DefaultTTL\nIp: 2 64\nTcp: MaxConn ActiveOpens PassiveOpens CurrEstab RetransSegs\n\
                        Tcp: -1 10030998 9946039 7 54884\n";
    const NETSTAT: &str =
        "TcpExt: TW ListenOverflows ListenDrops\nTcpExt: 5 34388 34390\nIpExt: ListenDrops\nIpExt: 9\n";

    #[test]
    fn counters_are_found_by_name() {
        let expected = NetCounters {
            listen_overflows: 34_388,
            listen_drops: 34_390,
            retransmits: 54_884,
            active_opens: 10_030_998,
            passive_opens: 9_946_039,
            established: 7,
        };
        assert_eq!(NetCounters::parse(SNMP, NETSTAT), expected);
        assert_eq!(NetCounters::parse("", "TcpExt: ListenDrops\n"), NetCounters::default());
        assert_eq!(counter(SNMP, "Tcp:", "MaxConn"), None);
    }

    #[test]
    fn a_connection_moves_the_counters_of_this_machine() {
        let before = NetCounters::read();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _server = listener.accept().unwrap();
        let delta = NetCounters::read().since(&before);
        assert!(delta.active_opens >= 1 && delta.passive_opens >= 1, "{delta:?}");
    }

    proptest! {
        #[test]
        fn no_text_upsets_the_reader(text in "(Tcp:|TcpExt:)[ A-Za-z0-9\n:]{0,80}") {
            let _ = NetCounters::parse(&text, &text);
        }
    }
}
