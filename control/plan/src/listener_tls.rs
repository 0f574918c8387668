//! Compiles the TLS of listeners. Listeners that share an address have one TLS configuration, because a handshake begins
//! before the listener is known: its server name (SNI) chooses the certificates.

use std::collections::HashMap;

use tollgate_config as config;
use tollgate_config::{At, CombinedResources, Listener, ListenerProtocol, PemFile, Problem};
use tollgate_tls::{CertificateScope, TlsServerConfig};

use crate::Certificate;
use crate::compile_cache::CompileCache;
use crate::tls::{file_name, is_for, named_certificate, server};

/// The TLS of one listener.
#[derive(Debug, Default)]
pub(crate) struct ListenerTls {
    /// Whether hosts tell the listeners of its address apart.
    pub by_host: bool,
    /// Its configuration; `None`: plain text.
    pub server: Option<TlsServerConfig>,
    /// Its own certificates.
    pub certificates: Vec<Certificate>,
    /// Their indices among the certificates of `server`.
    pub own: Vec<usize>,
}

/// A certificate of a listener, with its name and place.
type NamedChain<'a> = (&'a config::Certificate, String, At);

/// Returns the TLS of all listeners, in their order.
pub(crate) fn all(
    parts: &CombinedResources<'_>,
    cache: &mut CompileCache,
    problems: &mut Vec<Problem>,
) -> Vec<ListenerTls> {
    let mut out: Vec<ListenerTls> = Vec::new();
    out.resize_with(parts.listeners.len(), ListenerTls::default);
    let mut servers = Vec::new();
    for (members, by_host) in groups(&parts.listeners) {
        let chains: Vec<Vec<NamedChain<'_>>> =
            members.iter().map(|member| certificates(parts.listeners[*member], parts)).collect();
        let (written, own) = without_duplicates(&chains);
        let scope = |(member, own): (&usize, &Vec<usize>)| CertificateScope {
            hosts: parts.listeners[*member].hosts.iter().map(|host| host.value.clone()).collect(),
            certificates: own.clone(),
        };
        let scopes = if by_host { members.iter().zip(&own).map(scope).collect() } else { Vec::new() };
        let first = parts.listeners[members[0]];
        let made = first.tls.as_ref().and_then(|tls| {
            let offer = match first.protocol {
                ListenerProtocol::Http => Some(first.http2),
                ListenerProtocol::Tcp | ListenerProtocol::Udp => None,
            };
            let (files, made) = server(tls, written, scopes, offer, cache, problems)?;
            servers.push((files, made.clone()));
            Some(made)
        });
        let ends: Vec<Option<i64>> = made.iter().flat_map(TlsServerConfig::not_after).collect();
        for ((member, chains), own) in members.iter().zip(chains).zip(own) {
            let end = |index: &usize| ends.get(*index).copied().flatten();
            let chains = chains.into_iter().zip(&own).filter(|_| made.is_some());
            let certificates = chains
                .map(|((_, name, at), index)| Certificate { name, at, not_after: end(index) })
                .collect();
            out[*member] = ListenerTls { by_host, server: made.clone(), certificates, own };
        }
    }
    cache.store_servers(servers);
    out
}

/// Returns the groups of listeners that share a handshake: listeners with hosts form one group for each address, and each
/// other listener is alone. The second value is true for listeners with hosts.
fn groups(listeners: &[&Listener]) -> Vec<(Vec<usize>, bool)> {
    let mut sharing: HashMap<String, Vec<usize>> = HashMap::new();
    for (index, listener) in listeners.iter().enumerate() {
        sharing.entry(listener.bind.value.to_string()).or_default().push(index);
    }
    let mut groups = Vec::new();
    for members in sharing.into_values() {
        match members.iter().any(|member| !listeners[*member].hosts.is_empty()) {
            true => groups.push((members, true)),
            false => groups.extend(members.into_iter().map(|member| (vec![member], false))),
        }
    }
    groups.sort();
    groups
}

/// Returns the certificates of a listener: first its own, then the named ones that apply to it.
fn certificates<'a>(listener: &'a Listener, parts: &CombinedResources<'a>) -> Vec<NamedChain<'a>> {
    let Some(tls) = &listener.tls else { return Vec::new() };
    let own = tls.certificates.iter().map(|own| (own, own_name(&own.chain, listener), own.chain.at));
    let named = parts.certificates.iter().filter(|named| is_for(named, listener));
    let named = named.map(|named| (&named.certificate, named_certificate(named), named.certificate.chain.at));
    own.chain(named).collect()
}

/// Returns the certificates of all listeners once, and for each listener the indices of its own.
fn without_duplicates<'a>(chains: &[Vec<NamedChain<'a>>]) -> (Vec<&'a config::Certificate>, Vec<Vec<usize>>) {
    let mut all = Vec::new();
    let mut places: HashMap<*const config::Certificate, usize> = HashMap::new();
    let mut place = |certificate: &'a config::Certificate| {
        *places.entry(std::ptr::from_ref(certificate)).or_insert_with(|| {
            all.push(certificate);
            all.len() - 1
        })
    };
    let own =
        chains.iter().map(|own| own.iter().map(|(certificate, ..)| place(certificate)).collect()).collect();
    (all, own)
}

/// Returns the name to show for a listener's own certificate.
fn own_name(chain: &PemFile, listener: &Listener) -> String {
    match (&chain.path, &listener.name) {
        (Some(_), _) => file_name(chain),
        (None, Some(name)) => format!("listeners/{}", name.value),
        (None, None) => format!("listeners/{}", listener.bind.value),
    }
}
