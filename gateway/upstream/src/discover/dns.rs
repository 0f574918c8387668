//! Discovery by DNS: the addresses of a name, or SRV records and the addresses of their targets.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hickory_resolver::proto::rr::rdata::SRV;
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use tokio::task::JoinSet;
use tollgate_net::Address;
use tollgate_plan::{DnsRules, Endpoint};

use super::host::{HostAddresses, addresses, reachable};
use super::resolver::{Resolver, ResolverHandle, name, records_of};
use super::schedule::LookupSchedule;
use super::srv::{SrvTarget, endpoints};
use super::{EndpointSource, LookupError};

/// How many targets of one SRV name are looked up concurrently.
const CONCURRENT_TARGETS_MAX: usize = 16;
/// Timeout of a lookup with all its questions; after it, the lookup counts as failed and is repeated.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(30);

/// Looks up a name repeatedly.
#[derive(Debug)]
pub(super) struct DnsSource {
    query: DnsQuery,
    resolver: Resolver,
    schedule: LookupSchedule,
    /// How long to wait before the next lookup; `None` before the first.
    wait: Option<Duration>,
}

#[derive(Debug)]
enum DnsQuery {
    ResolvedAddresses { name: String, port: u16, host: HostAddresses },
    Srv { name: String, hosts: HashMap<Name, HostAddresses> },
}

impl DnsSource {
    /// Creates a source of the addresses of a name, all with this port.
    pub(super) fn addresses(name: &str, port: u16, rules: &DnsRules) -> Self {
        Self::new(
            DnsQuery::ResolvedAddresses { name: name.to_owned(), port, host: HostAddresses::default() },
            rules,
        )
    }

    /// Creates a source of the targets of SRV records.
    pub(super) fn srv(name: &str, rules: &DnsRules) -> Self {
        Self::new(DnsQuery::Srv { name: name.to_owned(), hosts: HashMap::new() }, rules)
    }

    fn new(query: DnsQuery, rules: &DnsRules) -> Self {
        let schedule = LookupSchedule::new(rules, fastrand::Rng::new());
        Self { query, resolver: Resolver::new(rules), schedule, wait: None }
    }

    pub(super) async fn look_up(&mut self) -> Result<(Vec<Endpoint>, Duration), LookupError> {
        let servers = self.resolver.handle().await?;
        match &mut self.query {
            DnsQuery::ResolvedAddresses { name: text, port, host } => {
                let found = host.look_up(&servers, &name(text)?).await?;
                let endpoints = found.all.iter().map(|address| Endpoint {
                    address: Address::Socket(SocketAddr::new(*address, *port)),
                    weight: 1,
                    priority: 0,
                    zone: None,
                });
                Ok((endpoints.collect(), found.ttl))
            }
            DnsQuery::Srv { name: text, hosts } => targets(&servers, &name(text)?, hosts).await,
        }
    }
}

impl EndpointSource for DnsSource {
    async fn next(&mut self) -> Result<Vec<Endpoint>, LookupError> {
        if let Some(wait) = self.wait {
            tokio::time::sleep(wait).await;
        }
        let looked = tokio::time::timeout(LOOKUP_TIMEOUT, self.look_up()).await;
        match looked.unwrap_or(Err(LookupError::Timeout)) {
            Ok((endpoints, ttl)) => {
                self.wait = Some(self.schedule.answered(ttl));
                Ok(endpoints)
            }
            Err(failure) => {
                self.wait = Some(self.schedule.failed());
                if !matches!(failure, LookupError::NoName | LookupError::NoRecords) {
                    self.resolver.discard();
                }
                Err(failure)
            }
        }
    }
}

/// Returns the endpoints of SRV records. The addresses of targets come from the same answer, or else from
/// further questions.
async fn targets(
    servers: &ResolverHandle,
    name: &Name,
    hosts: &mut HashMap<Name, HostAddresses>,
) -> Result<(Vec<Endpoint>, Duration), LookupError> {
    let records = servers.ask(name, RecordType::SRV).await?;
    let services: Vec<&SRV> = records.found.iter().filter_map(service).collect();
    let mut ttl = records.ttl;
    let mut known: HashMap<Name, Vec<IpAddr>> = HashMap::new();
    let mut unknown = HashMap::new();
    for service in &services {
        match additional_addresses(&records.additional, &service.target) {
            Some((addresses, shortest)) => {
                ttl = ttl.min(shortest);
                known.insert(service.target.clone(), addresses);
            }
            None => {
                unknown
                    .entry(service.target.clone())
                    .or_insert_with(|| hosts.remove(&service.target).unwrap_or_default());
            }
        }
    }
    hosts.clear();
    let mut failure = None;
    let mut waiting = unknown.into_iter();
    let mut asked = JoinSet::new();
    loop {
        for (name, mut host) in waiting.by_ref().take(CONCURRENT_TARGETS_MAX - asked.len()) {
            let servers = servers.clone();
            asked.spawn(async move {
                let result = host.look_up(&servers, &name).await;
                (name, host, result)
            });
        }
        // A panic in one lookup fails the whole.
        let Some(done) = asked.join_next().await else { break };
        let (name, host, result) = done.map_err(|error| LookupError::Other(error.to_string()))?;
        match result {
            Ok(addresses) => {
                ttl = ttl.min(addresses.ttl);
                known.insert(name.clone(), addresses.all);
            }
            Err(LookupError::NoName | LookupError::NoRecords) => {}
            // No server says that the target is gone, so its last addresses stay, and it is asked again soon.
            Err(other) => {
                ttl = Duration::ZERO;
                known.insert(name.clone(), host.last());
                failure = Some(other);
            }
        }
        hosts.insert(name, host);
    }
    let targets = services.iter().map(|service| SrvTarget {
        priority: service.priority,
        weight: service.weight,
        port: service.port,
        addresses: known.get(&service.target).cloned().unwrap_or_default(),
    });
    let endpoints = endpoints(&targets.collect::<Vec<_>>());
    if endpoints.is_empty() { Err(failure.unwrap_or(LookupError::NoRecords)) } else { Ok((endpoints, ttl)) }
}

/// Returns the SRV record, unless its target is `.`, which means that there is no such service (RFC 2782).
fn service(record: &RData) -> Option<&SRV> {
    match record {
        RData::SRV(service) if !service.target.is_root() && service.port > 0 => Some(service),
        _ => None,
    }
}

/// Returns the addresses of a target among the additional records of an answer, with the shortest TTL.
fn additional_addresses(records: &[Record], target: &Name) -> Option<(Vec<IpAddr>, Duration)> {
    let own: Vec<&Record> = records_of(records, std::iter::once(target));
    let ttl = own.iter().filter(|record| record.data.ip_addr().is_some()).map(|record| record.ttl).min()?;
    let data: Vec<RData> = own.iter().map(|record| record.data.clone()).collect();
    let addresses = reachable(addresses(&data));
    (!addresses.is_empty()).then(|| (addresses, Duration::from_secs(ttl.into())))
}
