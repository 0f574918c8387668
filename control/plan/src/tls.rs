//! From files of certificates and keys to what handshakes are configured with.

use std::sync::Arc;

use tollgate_config as config;
use tollgate_config::{At, Http2, PemFile, Problem, StrictTransportSecurity};
use tollgate_tls::{Client, ClientAuthentication, ClientFiles, File, Identity, Pem, Server, ServerFiles};

use crate::{Listener, Redirect, Tls};

/// The protocols that are spoken over TLS (ALPN; RFC 7301), the best first.
fn alpn(http2: Http2) -> Vec<Vec<u8>> {
    let protocols: &[&[u8]] = match http2 {
        Http2::On => &[b"h2", b"http/1.1"],
        Http2::Off => &[b"http/1.1"],
        Http2::Only => &[b"h2"],
    };
    protocols.iter().map(|protocol| protocol.to_vec()).collect()
}

/// The listeners, each with its TLS.
pub(crate) fn listeners(config: &config::Config, problems: &mut Vec<Problem>) -> Vec<Arc<Listener>> {
    let mut listeners: Vec<Arc<Listener>> = Vec::new();
    for (index, listener) in config.listen.iter().enumerate() {
        let bind = listener.bind.value;
        let before = &config.listen[..index];
        if before.iter().any(|other| {
            other.bind.value == bind
                && (&other.tls, other.http2, other.redirect_to_https, &other.proxy_protocol)
                    != (&listener.tls, listener.http2, listener.redirect_to_https, &listener.proxy_protocol)
        }) {
            let message = "this address is written twice, with other settings";
            problems.push(Problem::error(listener.bind.at, message));
        }
        let tls = listener.tls.as_ref().and_then(|tls| server(tls, listener.http2, problems));
        let told = listener.tls.as_ref().and_then(|tls| tls.strict_transport_security.as_ref());
        listeners.push(Arc::new(Listener {
            bind,
            tls,
            http2: listener.http2,
            proxy_protocol: listener.proxy_protocol.clone(),
            redirect: listener.redirect_to_https.map(|to| Redirect {
                status: to.status,
                to: None,
                scheme: Some("https".to_owned()),
                host: None,
                port: Some(to.port).filter(|port| *port != 443),
                path: None,
            }),
            strict_transport_security: told.map(strict_transport_security).unwrap_or_default(),
        }));
    }
    listeners
}

/// The TLS of the admin listener, which speaks HTTP/1 alone.
pub(crate) fn admin(config: &config::Config, problems: &mut Vec<Problem>) -> Option<Server> {
    let tls = config.admin.as_ref()?.tls.as_ref()?;
    server(tls, Http2::Off, problems)
}

/// The field's line (RFC 6797, 6.1).
fn strict_transport_security(told: &StrictTransportSecurity) -> Vec<u8> {
    let mut line = format!("Strict-Transport-Security: max-age={}", told.max_age.as_secs());
    if told.include_subdomains {
        line.push_str("; includeSubDomains");
    }
    if told.preload {
        line.push_str("; preload");
    }
    line.push_str("\r\n");
    line.into_bytes()
}

fn server(tls: &config::ListenTls, http2: Http2, problems: &mut Vec<Problem>) -> Option<Server> {
    let files = ServerFiles {
        certificates: tls.certificates.iter().map(identity).collect(),
        only_13: tls.min_version == config::TlsVersion::Tls13,
        clients: tls
            .client
            .as_ref()
            .map(|client| ClientAuthentication { authorities: pem(&client.ca), required: client.required }),
        alpn: alpn(http2),
    };
    let wrong = Server::new(&files);
    let ca = tls.client.as_ref().map(|client| &client.ca);
    told(wrong, &tls.certificates, ca, None, problems)
}

/// The TLS of upstreams; those that are made of the same files share it, and with it the sessions to resume.
#[derive(Default)]
pub(crate) struct Clients(Vec<(ClientFiles, Arc<Client>)>);

impl Clients {
    /// The TLS of an upstream whose endpoints are `https://`. `at` is where that is written.
    pub fn get(
        &mut self,
        tls: Option<&config::UpstreamTls>,
        http2: bool,
        at: At,
        problems: &mut Vec<Problem>,
    ) -> Option<Tls> {
        let certificate = tls.and_then(|tls| tls.certificate.as_ref());
        let ca = tls.and_then(|tls| tls.ca.as_ref());
        let files = ClientFiles {
            authorities: ca.map(pem),
            identity: certificate.map(identity),
            // Nothing but what will be spoken: an endpoint that does not know it says so.
            alpn: alpn(if http2 { Http2::Only } else { Http2::Off }),
        };
        let server_name = tls.and_then(|tls| tls.server_name.clone());
        if let Some((_, client)) = self.0.iter().find(|(known, _)| *known == files) {
            return Some(Tls { client: client.clone(), server_name });
        }
        let certificates = certificate.map_or(&[][..], std::slice::from_ref);
        let client = Arc::new(told(Client::new(&files), certificates, ca, Some(at), problems)?);
        self.0.push((files, client.clone()));
        Some(Tls { client, server_name })
    }
}

/// That what etcd's members are spoken to with can be used; whoever asks them makes it of the same files.
pub(crate) fn etcd(config: &config::Config, problems: &mut Vec<Problem>) {
    let Some(etcd) = &config.etcd else { return };
    let secure = etcd.endpoints.iter().find(|endpoint| endpoint.value.scheme == config::Scheme::Https);
    if let Some(endpoint) = secure {
        Clients::default().get(etcd.tls.as_ref(), false, endpoint.at, problems);
    }
}

impl Tls {
    /// Where only addresses are known of the endpoints, they are called by the name that was looked up.
    pub(crate) fn named(mut self, discover: Option<&config::Discover>) -> Self {
        if let (None, Some(config::Discover::Dns { name, .. })) = (&self.server_name, discover) {
            self.server_name = Some(name.trim_end_matches('.').to_owned());
        }
        self
    }
}

/// Says what is wrong with files where they are named; `at` is for what is in none of them.
fn told<T>(
    result: Result<T, Vec<tollgate_tls::Problem>>,
    certificates: &[config::Certificate],
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
            File::Chain(index) => certificates.get(index).map(|it| &it.chain),
            File::Key(index) => certificates.get(index).map(|it| &it.key),
            File::Authorities => ca,
        };
        problems.push(match file {
            Some(file) => Problem::error(file.at, format!("cannot use {}: {}", file.shown, problem.message)),
            None => Problem::error(at.unwrap_or_default(), problem.message),
        });
    }
    None
}

fn identity(certificate: &config::Certificate) -> Identity {
    Identity { chain: pem(&certificate.chain), key: pem(&certificate.key) }
}

fn pem(file: &PemFile) -> Pem {
    Pem::from(file.bytes.0.as_slice())
}
