//! Compiles certificates and keys to the TLS configuration of listeners, upstreams and the admin listener.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_config as config;
use tollgate_config::{At, Http2, PemFile, Problem};
use tollgate_tls::{
    AcceptedName, AdmittedClients, CertificateScope, ClientAuthentication, ClientOptions, InputFile, Pem,
    ServerOptions, TlsClientConfig, TlsIdentity, TlsServerConfig,
};

use crate::Tls;
use crate::compile_cache::CompileCache;

/// Returns the protocols offered over TLS, the preferred one first (ALPN, RFC 7301).
fn alpn(http2: Http2) -> Vec<Vec<u8>> {
    let protocols: &[&[u8]] = match http2 {
        Http2::On => &[b"h2", b"http/1.1"],
        Http2::Off => &[b"http/1.1"],
        Http2::Only => &[b"h2"],
    };
    protocols.iter().map(|protocol| protocol.to_vec()).collect()
}

/// Returns the file name to show.
pub(crate) fn file_name(file: &PemFile) -> String {
    file.shown.trim_matches('`').to_owned()
}

/// Returns the name to show for a named certificate.
pub(crate) fn named_certificate(named: &config::NamedCertificate) -> String {
    let chain = &named.certificate.chain;
    match chain.path {
        Some(_) => file_name(chain),
        None => format!("certificates/{}", named.name.value),
    }
}

/// Returns whether a named certificate applies to this listener, provided that the listener has TLS.
pub(crate) fn is_for(named: &config::NamedCertificate, listener: &config::Listener) -> bool {
    named.listeners.is_empty()
        || named.listeners.iter().any(|bind| listener.bind.value.tcp() == Some(bind.value))
}

/// Returns the errors of named certificates, except errors that a listener finds when it loads them.
pub(crate) fn named_certificate_problems(parts: &config::CombinedResources<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let secure = || parts.listeners.iter().filter(|listener| listener.tls.is_some());
    for named in &parts.certificates {
        for bind in &named.listeners {
            if !secure().any(|listener| listener.bind.value.tcp() == Some(bind.value)) {
                let message = format!("no listener with `tls` has the address {}", bind.value);
                let problem = Problem::error(bind.at, message);
                let binds: Vec<String> =
                    secure().map(|listener| format!("`{}`", listener.bind.value)).collect();
                problems.push(match binds.is_empty() {
                    true => problem.help("no listener has `tls`"),
                    false => problem.help(format!("listeners with `tls`: {}", binds.join(", "))),
                });
            }
        }
        if !secure().any(|listener| is_for(named, listener)) {
            let wrong = identity(&named.certificate).check().map_err(|problem| vec![problem]);
            report_file_problems(wrong, &[&named.certificate], None, None, &mut problems);
        }
    }
    problems
}

/// Returns a warning for each named certificate if no listener has TLS.
pub(crate) fn unused_certificates(parts: &config::CombinedResources<'_>) -> Vec<Problem> {
    if parts.listeners.iter().any(|listener| listener.tls.is_some()) {
        return Vec::new();
    }
    parts.certificates.iter().map(|named| named.unused()).collect()
}

/// Returns the TLS of the admin listener, which supports only HTTP/1.
pub(crate) fn admin(config: &config::Config, problems: &mut Vec<Problem>) -> Option<TlsServerConfig> {
    let tls = config.admin.as_ref()?.tls.as_ref()?;
    let certificates = tls.certificates.iter().collect();
    server(tls, certificates, Vec::new(), Some(Http2::Off), &CompileCache::default(), problems)
        .map(|(_, server)| server)
}

/// Returns a TLS configuration of listeners. `scopes` are the listeners that share it, if their hosts tell them apart.
pub(crate) fn server(
    tls: &config::ListenTls,
    certificates: Vec<&config::Certificate>,
    scopes: Vec<CertificateScope>,
    offer: Option<Http2>,
    cache: &CompileCache,
    problems: &mut Vec<Problem>,
) -> Option<(ServerOptions, TlsServerConfig)> {
    let files = ServerOptions {
        certificates: certificates.iter().copied().map(identity).collect(),
        scopes,
        only_13: tls.min_version == config::TlsVersion::Tls13,
        clients: tls
            .client
            .as_ref()
            .map(|client| ClientAuthentication { authorities: pem(&client.ca), admits: admits(client.mode) }),
        alpn: offer.map(alpn).unwrap_or_default(),
    };
    if let Some(server) = cache.server(&files) {
        return Some((files, server));
    }
    let made = TlsServerConfig::new(&files);
    let ca = tls.client.as_ref().map(|client| &client.ca);
    report_file_problems(made, &certificates, ca, None, problems).map(|server| (files, server))
}

fn admits(mode: config::ClientCertificateMode) -> AdmittedClients {
    match mode {
        config::ClientCertificateMode::Required => AdmittedClients::Certified,
        config::ClientCertificateMode::Optional => AdmittedClients::CertifiedOrWithout,
        config::ClientCertificateMode::InsecureFallback => AdmittedClients::All,
    }
}

/// The TLS of upstreams. Upstreams with the same files share it, and with it the sessions that can be
/// resumed.
#[derive(Default)]
pub(crate) struct Clients(HashMap<ClientOptions, Arc<TlsClientConfig>>);

impl Clients {
    /// Returns the TLS of an upstream whose endpoints are `https://`. `at` is where that is written. `offer`: the
    /// versions of HTTP that it offers (ALPN); `None`: the bytes may be of any protocol.
    pub fn get(
        &mut self,
        tls: Option<&config::UpstreamTls>,
        offer: Option<Http2>,
        at: At,
        problems: &mut Vec<Problem>,
    ) -> Option<Tls> {
        let certificate = tls.and_then(|tls| tls.certificate.as_ref());
        let ca = tls.and_then(|tls| tls.ca.as_ref());
        let files = ClientOptions {
            authorities: ca.map(pem),
            identity: certificate.map(identity),
            // Offers only the protocol that will be used: an endpoint without it then fails the handshake.
            alpn: offer.map(alpn).unwrap_or_default(),
            unverified: tls.is_some_and(|tls| tls.unverified),
            verified_name: tls
                .filter(|tls| matches!(tls.sni, Some(Some(_))))
                .and_then(|tls| tls.server_name.clone()),
            without_sni: tls.is_some_and(|tls| tls.sni == Some(None)),
            accepted_names: tls.map(accepted_names).unwrap_or_default(),
        };
        let server_name = tls.and_then(|tls| tls.server_name.clone());
        let sni = tls.and_then(|tls| tls.sni.clone()).flatten();
        if let Some(client) = self.0.get(&files) {
            return Some(Tls { client: client.clone(), server_name, discovery_name: None, sni });
        }
        let certificates: Vec<_> = certificate.into_iter().collect();
        let client = Arc::new(report_file_problems(
            TlsClientConfig::new(&files),
            &certificates,
            ca,
            Some(at),
            problems,
        )?);
        self.0.insert(files, client.clone());
        Some(Tls { client, server_name, discovery_name: None, sni })
    }
}

/// Checks that the TLS files for etcd's members can be used. The etcd client builds its own configuration
/// from the same files.
pub(crate) fn etcd(config: &config::Config, problems: &mut Vec<Problem>) {
    let Some(etcd) = &config.etcd else { return };
    let secure = etcd.endpoints.iter().find(|endpoint| endpoint.value.scheme == config::Scheme::Https);
    if let Some(endpoint) = secure {
        Clients::default().get(etcd.tls.as_ref(), Some(Http2::Off), endpoint.at, problems);
    }
}

/// Returns the names of which an endpoint's certificate must hold one.
fn accepted_names(tls: &config::UpstreamTls) -> Vec<AcceptedName> {
    let name = |name: &config::Spanned<config::SubjectName>| match &name.value {
        config::SubjectName::Host(host) => AcceptedName::Host(host.clone()),
        config::SubjectName::Uri(uri) => AcceptedName::Uri(uri.clone()),
    };
    tls.subject_alt_names.iter().map(name).collect()
}

impl Tls {
    /// Sets the name that is verified when only the addresses of endpoints are known: the name that was
    /// looked up. For SRV it is the service's domain as it was written. The targets' names come from DNS, and
    /// anyone on the path could forge an answer (RFC 6125, 6.2.1).
    pub(crate) fn named(mut self, discover: Option<&config::Discover>) -> Self {
        self.discovery_name = match discover {
            Some(config::Discover::Dns { name, .. }) => Some(name.trim_end_matches('.').to_owned()),
            Some(config::Discover::Srv { name, .. }) => domain(name),
            _ => None,
        };
        self
    }
}

/// Returns the domain of an SRV name, which has the form `_service._protocol.domain` (RFC 2782).
fn domain(name: &str) -> Option<String> {
    let name = name.trim_end_matches('.');
    let labels: Vec<_> = name.split('.').skip_while(|label| label.starts_with('_')).collect();
    (!labels.is_empty()).then(|| labels.join("."))
}

/// Reports what is wrong with files at the positions where they are named. `at` is used for problems of no
/// single file.
fn report_file_problems<T>(
    result: Result<T, Vec<tollgate_tls::FileProblem>>,
    certificates: &[&config::Certificate],
    ca: Option<&PemFile>,
    at: Option<At>,
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let wrong = match result {
        Ok(good) => return Some(good),
        Err(wrong) => wrong,
    };
    for problem in wrong {
        let file = match problem.file {
            InputFile::Chain(index) => certificates.get(index).map(|it| &it.chain),
            InputFile::Key(index) => certificates.get(index).map(|it| &it.key),
            InputFile::Authorities => ca,
        };
        problems.push(match file {
            Some(file) => Problem::error(file.at, format!("cannot use {}: {}", file.shown, problem.message)),
            None => Problem::error(at.unwrap_or_default(), problem.message),
        });
    }
    None
}

fn identity(certificate: &config::Certificate) -> TlsIdentity {
    TlsIdentity { chain: pem(&certificate.chain), key: pem(&certificate.key) }
}

fn pem(file: &PemFile) -> Pem {
    Pem::from(file.bytes.0.as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_called_by_its_domain() {
        for (name, is) in [
            ("_https._tcp.orders.internal.", Some("orders.internal")),
            ("_a.orders.internal", Some("orders.internal")),
            ("orders._tcp.internal", Some("orders._tcp.internal")),
            ("_https._tcp", None),
        ] {
            assert_eq!(domain(name).as_deref(), is, "{name}");
        }
    }
}
