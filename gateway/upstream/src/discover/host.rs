//! The IPv4 and IPv6 addresses of one name.

use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use hickory_resolver::proto::rr::{Name, RData, RecordType};

use super::LookupError;
use super::resolver::{DnsRecords, ResolverHandle};

/// The addresses of one name that are currently known.
///
/// The two families are asked for separately and fail separately. Some name servers answer A correctly and
/// never answer AAAA, and one family's answer must not wait for the other's.
#[derive(Debug, Default)]
pub(super) struct HostAddresses {
    v4: Vec<IpAddr>,
    v6: Vec<IpAddr>,
}

/// Addresses, and how long they may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResolvedAddresses {
    /// At least one, in no particular order.
    pub(super) all: Vec<IpAddr>,
    /// The shortest TTL among them.
    pub(super) ttl: Duration,
}

impl HostAddresses {
    /// Asks for A and AAAA records concurrently.
    ///
    /// # Errors
    /// Returns a failure if neither family has a usable address.
    pub(super) async fn look_up(
        &mut self,
        servers: &ResolverHandle,
        name: &Name,
    ) -> Result<ResolvedAddresses, LookupError> {
        let (v4, v6) = tokio::join!(servers.ask(name, RecordType::A), servers.ask(name, RecordType::AAAA));
        self.take(v4, v6)
    }

    /// Returns the addresses of the last successful lookup.
    pub(super) fn last(&self) -> Vec<IpAddr> {
        reachable(self.v4.iter().chain(&self.v6).copied().collect())
    }

    fn take(
        &mut self,
        v4: Result<DnsRecords, LookupError>,
        v6: Result<DnsRecords, LookupError>,
    ) -> Result<ResolvedAddresses, LookupError> {
        let ttl = match (&v4, &v6) {
            (Ok(v4), Ok(v6)) => v4.ttl.min(v6.ttl),
            (Ok(one), Err(_)) | (Err(_), Ok(one)) => one.ttl,
            (Err(first), Err(second)) => return Err(more_important(first, second)),
        };
        for (known, answer) in [(&mut self.v4, v4), (&mut self.v6, v6)] {
            match answer {
                Ok(records) => *known = addresses(&records.found),
                // The server denies addresses of this family, and the other family has some: these were
                // removed.
                Err(LookupError::NoName | LookupError::NoRecords) => known.clear(),
                // The server gave no answer, so this family keeps the addresses of the last one.
                Err(_) => {}
            }
        }
        let all = self.last();
        if all.is_empty() { Err(LookupError::NoRecords) } else { Ok(ResolvedAddresses { all, ttl }) }
    }
}

/// Returns the more important of two failures: a broken server rather than a family without records.
fn more_important(first: &LookupError, second: &LookupError) -> LookupError {
    let says_none = |failure: &LookupError| matches!(failure, LookupError::NoName | LookupError::NoRecords);
    match (says_none(first), says_none(second)) {
        (true, false) => second.clone(),
        _ => first.clone(),
    }
}

pub(super) fn addresses(records: &[RData]) -> Vec<IpAddr> {
    records.iter().filter_map(RData::ip_addr).filter(is_endpoint).collect()
}

/// Whether an address can be an endpoint. Blocking name servers answer with addresses such as `0.0.0.0`,
/// which would be this machine.
fn is_endpoint(address: &IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !(address.is_unspecified() || address.is_multicast() || broadcast)
}

/// Returns the addresses to which this machine has a route, if there are any, else all. A name with A and
/// AAAA records is common, and so is a machine without IPv6: half of its requests would fail. This is the
/// first rule by which getaddrinfo sorts (RFC 6724, 5).
pub(super) fn reachable(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let some: Vec<_> = addresses.iter().copied().filter(|address| has_route(*address)).collect();
    if some.is_empty() { addresses } else { some }
}

/// Whether the kernel has a route. Connecting a datagram socket asks the kernel and sends nothing.
fn has_route(address: IpAddr) -> bool {
    let any = match address {
        IpAddr::V4(_) => "0.0.0.0:0",
        IpAddr::V6(_) => "[::]:0",
    };
    match UdpSocket::bind(any).and_then(|socket| socket.connect((address, 9))) {
        Ok(()) => true,
        // Out of sockets, or forbidden: this says nothing about the address.
        Err(error) => !matches!(
            error.kind(),
            ErrorKind::NetworkUnreachable
                | ErrorKind::HostUnreachable
                | ErrorKind::AddrNotAvailable
                | ErrorKind::Unsupported
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(texts: &[&str], ttl: u64) -> Result<DnsRecords, LookupError> {
        let found = texts.iter().map(|text| RData::from(text.parse::<IpAddr>().expect("an address")));
        Ok(DnsRecords { found: found.collect(), additional: Vec::new(), ttl: Duration::from_secs(ttl) })
    }

    fn taken(
        host: &mut HostAddresses,
        v4: Result<DnsRecords, LookupError>,
        v6: Result<DnsRecords, LookupError>,
    ) -> Vec<String> {
        let addresses = host.take(v4, v6).expect("addresses");
        addresses.all.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn both_families_count_and_the_shorter_ttl_holds() {
        let found =
            HostAddresses::default().take(records(&["127.0.0.1"], 30), records(&["::1"], 7)).expect("both");
        assert_eq!(found.ttl, Duration::from_secs(7));
        // A machine without IPv6 has no route to ::1.
        assert!(found.all.contains(&IpAddr::from([127, 0, 0, 1])), "{found:?}");
    }

    #[test]
    fn a_family_that_fails_keeps_what_it_had_while_the_other_answers() {
        let mut host = HostAddresses::default();
        taken(&mut host, records(&["127.0.0.1"], 1), records(&["127.0.0.9"], 1));
        let failed = || Err(LookupError::Timeout);
        assert_eq!(taken(&mut host, records(&["127.0.0.2"], 1), failed()), ["127.0.0.2", "127.0.0.9"]);
        let none = || Err(LookupError::NoRecords);
        assert_eq!(taken(&mut host, records(&["127.0.0.3"], 1), none()), ["127.0.0.3"]);
    }

    #[test]
    fn no_answer_of_either_family_is_a_failure() {
        let mut host = HostAddresses::default();
        for (v4, v6, failure) in [
            (LookupError::NoName, LookupError::NoName, LookupError::NoName),
            (LookupError::NoRecords, LookupError::Timeout, LookupError::Timeout),
            (
                LookupError::Server("SERVFAIL".into()),
                LookupError::NoRecords,
                LookupError::Server("SERVFAIL".into()),
            ),
        ] {
            assert_eq!(host.take(Err(v4), Err(v6)), Err(failure));
        }
    }

    #[test]
    fn addresses_that_are_no_endpoint_are_left_out() {
        let mut host = HostAddresses::default();
        let mixed = records(&["0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255"], 1);
        assert_eq!(taken(&mut host, mixed, Err(LookupError::NoRecords)), ["127.0.0.1"]);
        let sink = host.take(records(&["0.0.0.0"], 1), Err(LookupError::NoRecords));
        assert_eq!(sink, Err(LookupError::NoRecords));
    }
}
