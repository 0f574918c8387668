//! The name servers of an upstream, and the answer to one question.

use std::path::Path;
use std::time::{Duration, SystemTime};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ServerOrderingStrategy,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use tokio::sync::oneshot;
use tollgate_plan::{DnsRules, file_access};

use super::LookupError;

/// Upper bound of the names in a chain of CNAMEs.
const CNAME_CHAIN_MAX: usize = 32;

/// Timeout of one question, including its repetitions and all search domains.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of one try for servers that the configuration names; otherwise `/etc/resolv.conf` decides.
const TRY_TIMEOUT: Duration = Duration::from_secs(2);
/// The system files that name the servers, and the names that need no server.
const SYSTEM_FILES: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];

/// Records that answer a question, and how long they may be used.
#[derive(Debug)]
pub(super) struct DnsRecords {
    /// Records of the requested type, of the requested name or of a name at the end of a chain of CNAMEs.
    pub(super) found: Vec<RData>,
    /// Additional records of the answer: addresses of SRV targets.
    pub(super) additional: Vec<Record>,
    /// The shortest TTL of the answer, including its CNAMEs (RFC 2181, 5.2).
    pub(super) ttl: Duration,
}

/// The name servers of one upstream. It caches no answers: the schedule decides how long an answer is used.
#[derive(Debug)]
pub(super) struct Resolver {
    rules: DnsRules,
    built: Option<BuiltResolver>,
}

impl Resolver {
    pub(super) fn new(rules: &DnsRules) -> Self {
        Self { rules: rules.clone(), built: None }
    }

    /// Returns a handle for the questions of one lookup.
    ///
    /// # Errors
    /// Returns a failure if no name server is known.
    pub(super) async fn handle(&mut self) -> Result<ResolverHandle, LookupError> {
        // The control thread does not wait for the system's files.
        let (rules, built) = (self.rules.clone(), self.built.clone());
        let (done, made) = oneshot::channel();
        let failed = |error: &dyn std::fmt::Display| LookupError::Other(format!("no name server: {error}"));
        file_access::start(move || {
            let made = reuse_or_build(&rules, built).map_err(|error| error.to_string());
            // The lookup may have been aborted.
            let _ = done.send(made);
        })
        .map_err(|stalled| failed(&stalled))?;
        let made = made.await.map_err(|_| failed(&"its settings cannot be read"))?;
        let made = made.map_err(|error| failed(&error))?;
        self.built = Some(made.clone());
        Ok(ResolverHandle(made.0))
    }

    /// Makes the next lookup use new sockets, because the servers did not answer correctly.
    pub(super) fn discard(&mut self) {
        self.built = None;
    }
}

/// A resolver, and the modification times of the system's files that it was made from.
type BuiltResolver = (TokioResolver, [Option<SystemTime>; 2]);

/// Returns the known resolver, or a new one if the system's files changed. A machine that moves to another
/// network has other servers.
fn reuse_or_build(rules: &DnsRules, known: Option<BuiltResolver>) -> Result<BuiltResolver, NetError> {
    let stamps = if rules.servers.is_empty() { SYSTEM_FILES.map(changed) } else { [None; 2] };
    match known {
        Some((resolver, of)) if of == stamps => Ok((resolver, of)),
        _ => Ok((build(rules)?, stamps)),
    }
}

fn changed(path: &str) -> Option<SystemTime> {
    Path::new(path).metadata().and_then(|metadata| metadata.modified()).ok()
}

fn build(rules: &DnsRules) -> Result<TokioResolver, NetError> {
    let provider = TokioRuntimeProvider::default();
    let mut builder = if rules.servers.is_empty() {
        TokioResolver::builder(provider)?
    } else {
        let servers = rules.servers.iter().map(|address| {
            let mut server = NameServerConfig::udp_and_tcp(address.ip());
            server.connections.iter_mut().for_each(|connection: &mut ConnectionConfig| {
                connection.port = address.port();
            });
            server
        });
        let config = ResolverConfig::from_parts(None, Vec::new(), servers.collect());
        let mut builder = TokioResolver::builder_with_config(config, provider);
        let options = builder.options_mut();
        options.timeout = TRY_TIMEOUT;
        options.use_hosts_file = ResolveHosts::Never;
        options.server_ordering_strategy = ServerOrderingStrategy::UserProvidedOrder;
        builder
    };
    let options = builder.options_mut();
    options.cache_size = 0;
    // The TTLs of a chain's CNAMEs count.
    options.preserve_intermediates = true;
    builder.build()
}

/// A handle for questions to the name servers.
#[derive(Clone, Debug)]
pub(super) struct ResolverHandle(TokioResolver);

impl ResolverHandle {
    /// Asks for the records of a type.
    ///
    /// # Errors
    /// Returns a failure if no server answers, or if there are no such records.
    pub(super) async fn ask(&self, name: &Name, kind: RecordType) -> Result<DnsRecords, LookupError> {
        let answer = tokio::time::timeout(QUESTION_TIMEOUT, self.0.lookup(name.clone(), kind)).await;
        let lookup = answer.map_err(|_| LookupError::Timeout)?.map_err(failure)?;
        // With search domains, the name in the answer differs from the name in the configuration.
        let asked = [lookup.query().name(), name].into_iter();
        let own = records_of(lookup.answers(), asked);
        let of_kind = |record: &&&Record| record.record_type() == kind;
        let found: Vec<_> = own.iter().filter(of_kind).map(|record| record.data.clone()).collect();
        if found.is_empty() {
            return Err(LookupError::NoRecords);
        }
        let counts = |record: &&&Record| of_kind(record) || record.record_type() == RecordType::CNAME;
        let ttl = own.iter().filter(counts).map(|record| record.ttl).min().unwrap_or_default();
        Ok(DnsRecords {
            found,
            additional: lookup.additionals().to_vec(),
            ttl: Duration::from_secs(ttl.into()),
        })
    }
}

/// Returns the records of these names, and of the names to which a chain of CNAMEs leads from them (RFC 1034,
/// 3.6.2). An answer may hold other records; these were not requested and must not become endpoints.
pub(super) fn records_of<'r, 'n>(
    answers: &'r [Record],
    asked: impl Iterator<Item = &'n Name>,
) -> Vec<&'r Record> {
    let absolute = |name: &Name| {
        let mut name = name.to_lowercase();
        name.set_fqdn(true);
        name
    };
    let owned: Vec<(Name, &Record)> = answers.iter().map(|record| (absolute(&record.name), record)).collect();
    let mut names: Vec<Name> = asked.map(absolute).collect();
    let mut at = 0;
    // An answer can hold thousands of links, and each link takes a pass over all records.
    while at < names.len() && names.len() <= CNAME_CHAIN_MAX {
        for (owner, record) in &owned {
            if let RData::CNAME(target) = &record.data
                && *owner == names[at]
            {
                let target = absolute(&target.0);
                // Each name once, so that a circular chain ends.
                if !names.contains(&target) {
                    names.push(target);
                }
            }
        }
        at += 1;
    }
    owned.into_iter().filter(|(owner, _)| names.contains(owner)).map(|(_, record)| record).collect()
}

fn failure(error: NetError) -> LookupError {
    match error {
        NetError::Timeout => LookupError::Timeout,
        NetError::Dns(DnsError::NoRecordsFound(none)) => match none.response_code {
            ResponseCode::NoError => LookupError::NoRecords,
            ResponseCode::NXDomain => LookupError::NoName,
            code => server(code),
        },
        NetError::Dns(DnsError::ResponseCode(ResponseCode::NXDomain)) => LookupError::NoName,
        NetError::Dns(DnsError::ResponseCode(code)) => server(code),
        NetError::Io(error) => LookupError::Other(format!("no name server can be asked: {error}")),
        error => LookupError::Other(error.to_string()),
    }
}

/// Names the code as tools print it: `SERVFAIL`, `REFUSED`.
fn server(code: ResponseCode) -> LookupError {
    LookupError::Server(format!("{code:?}").to_uppercase())
}

/// Parses a name. Only a final dot makes it absolute.
///
/// # Errors
/// Returns a failure if `text` is not a name.
pub(super) fn name(text: &str) -> Result<Name, LookupError> {
    Name::from_str_relaxed(text)
        .map_err(|error| LookupError::Other(format!("`{text}` is not a name: {error}")))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use hickory_resolver::proto::rr::rdata::CNAME;

    use super::*;

    fn own(text: &str) -> Name {
        name(text).unwrap_or_else(|failure| panic!("{failure:?}"))
    }

    fn alias(from: usize, to: usize) -> Record {
        Record::from_rdata(
            own(&format!("n{from}.example")),
            1,
            RData::CNAME(CNAME(own(&format!("N{to}.example.")))),
        )
    }

    fn address(at: usize) -> Record {
        Record::from_rdata(
            own(&format!("n{at}.example")),
            1,
            RData::from(std::net::IpAddr::from(Ipv4Addr::LOCALHOST)),
        )
    }

    fn found(answers: &[Record]) -> usize {
        let asked = own("n0.example");
        records_of(answers, std::iter::once(&asked))
            .iter()
            .filter(|record| record.data.ip_addr().is_some())
            .count()
    }

    #[test]
    fn chains_are_followed_in_any_order_and_end() {
        assert_eq!(found(&[address(2), alias(1, 2), alias(0, 1), address(3)]), 1);
        assert_eq!(found(&[alias(0, 1), alias(1, 0), address(1)]), 1, "a circle");
        assert_eq!(found(&[alias(1, 0), address(1)]), 0, "not backwards");
        let chain = |links: usize| {
            let links: Vec<Record> = (0..links).map(|at| alias(at, at + 1)).chain([address(links)]).collect();
            found(&links)
        };
        assert_eq!((chain(CNAME_CHAIN_MAX), chain(4000)), (1, 0));
    }
}
