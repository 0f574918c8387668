//! The TLS configuration of a listener.
//!
//! [`TlsServerConfig`] is built from the contents of files when a plan is compiled, and shared by all
//! workers. Sessions are kept in tickets only, so the gateway stores nothing for a client.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme, SupportedProtocolVersion,
};

use crate::resolver::{CertificateResolver, ScopedResolver};
use crate::tickets::ticketer;
use crate::{
    CertificateSummary, ClientAuthoritiesSummary, FileProblem, HostTable, InputFile, Pem, TlsIdentity,
    provider,
};

/// The inputs of a listener's TLS configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    /// At least one. The first serves clients that name no host, or an unknown one.
    pub certificates: Vec<TlsIdentity>,
    /// The listeners that share the address, if its hosts tell them apart; empty: all certificates are for every host.
    pub scopes: Vec<CertificateScope>,
    /// Whether TLS 1.2 is refused.
    pub only_13: bool,
    /// Client authentication; `None`: clients are not asked for certificates.
    pub clients: Option<ClientAuthentication>,
    /// Protocols that may be chosen (ALPN), the preferred one first.
    pub alpn: Vec<Vec<u8>>,
}

/// The certificates for the hosts of one listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateScope {
    /// The hosts in lower case, exact or `*.` and a name; empty: every host that no other scope has.
    pub hosts: Vec<String>,
    /// The certificates, as indices into [`ServerOptions::certificates`].
    pub certificates: Vec<usize>,
}

/// Verification of client certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAuthentication {
    /// The authorities that may sign them.
    pub authorities: Pem,
    /// The clients that are admitted.
    pub admits: AdmittedClients,
}

/// The clients that a listener with client authentication admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AdmittedClients {
    /// Those with a valid certificate.
    Certified,
    /// Also those without one.
    CertifiedOrWithout,
    /// All. A certificate that is not valid is recorded as unverified.
    All,
}

/// The TLS configuration of a listener, shared by all workers.
#[derive(Clone, Debug)]
pub struct TlsServerConfig {
    config: Arc<ServerConfig>,
    summary: Arc<ServerSummary>,
}

/// The inputs as operators see them.
#[derive(Debug)]
struct ServerSummary {
    certificates: Vec<Option<CertificateSummary>>,
    only_13: bool,
    clients: Option<ClientAuthoritiesSummary>,
}

impl ServerSummary {
    fn new(files: &ServerOptions) -> Self {
        let certificates = files.certificates.iter();
        Self {
            certificates: certificates.map(|it| CertificateSummary::of_chain(&it.chain)).collect(),
            only_13: files.only_13,
            clients: files.clients.as_ref().map(|clients| ClientAuthoritiesSummary {
                required: clients.admits == AdmittedClients::Certified,
                insecure_fallback: clients.admits == AdmittedClients::All,
                authorities: CertificateSummary::of_bundle(&clients.authorities),
            }),
        }
    }
}

impl TlsServerConfig {
    /// Builds the configuration from the contents of files.
    ///
    /// # Errors
    /// Every file that cannot be used, and why.
    pub fn new(files: &ServerOptions) -> Result<Self, Vec<FileProblem>> {
        let config = Arc::new(config(files)?);
        Ok(Self { config, summary: Arc::new(ServerSummary::new(files)) })
    }

    /// The certificates in the order of the files; `None` for a file that cannot be parsed.
    #[must_use]
    pub fn certificates(&self) -> &[Option<CertificateSummary>] {
        &self.summary.certificates
    }

    /// When each certificate expires, in the order of the files, in seconds since 1970; `None` if it cannot
    /// be read.
    pub fn not_after(&self) -> impl Iterator<Item = Option<i64>> {
        self.certificates().iter().map(|it| it.as_ref().map(|it| it.not_after))
    }

    /// Whether TLS 1.2 is refused.
    #[must_use]
    pub fn refuses_12(&self) -> bool {
        self.summary.only_13
    }

    /// How client certificates are verified; `None`: clients are not asked for one.
    #[must_use]
    pub fn client_authorities(&self) -> Option<&ClientAuthoritiesSummary> {
        self.summary.clients.as_ref()
    }

    /// The rustls configuration for handshakes.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }
}

fn config(files: &ServerOptions) -> Result<ServerConfig, Vec<FileProblem>> {
    let mut problems = Vec::new();
    let certified: Vec<_> = (files.certificates.iter().enumerate())
        .filter_map(|(index, identity)| identity.certified_key(index).map_err(|it| problems.push(it)).ok())
        .map(Arc::new)
        .collect();
    let verifier = files
        .clients
        .as_ref()
        .and_then(|clients| verifier(clients).map_err(|problem| problems.push(problem)).ok());
    if !problems.is_empty() {
        return Err(problems);
    }
    let general = |error: rustls::Error| vec![FileProblem::new(InputFile::Chain(0), error.to_string())];
    let versions: &[&'static SupportedProtocolVersion] =
        if files.only_13 { &[&TLS13] } else { &[&TLS13, &TLS12] };
    let builder = ServerConfig::builder_with_provider(provider().clone())
        .with_protocol_versions(versions)
        .map_err(general)?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(resolver(certified, &files.scopes));
    let admits = files.clients.as_ref().map(|clients| clients.admits);
    match admits {
        // A resumed session would carry the certificate along without the result of its verification.
        Some(AdmittedClients::All) => config.send_tls13_tickets = 0,
        _ => {
            let required = admits == Some(AdmittedClients::Certified);
            let scope = files.clients.as_ref().map(|it| (it.authorities.bytes().into(), required));
            config.ticketer = ticketer(&scope).map_err(general)?;
        }
    }
    // Tickets keep sessions at the client, so the gateway stores none.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.alpn_protocols = files.alpn.clone();
    // All suites are secure. A client that prefers the slowest one should not decide what each record costs.
    config.ignore_client_order = true;
    Ok(config)
}

fn resolver(certified: Vec<Arc<CertifiedKey>>, scopes: &[CertificateScope]) -> Arc<dyn ResolvesServerCert> {
    if scopes.is_empty() {
        return Arc::new(CertificateResolver::new(certified));
    }
    let mut table = HostTable::default();
    for scope in scopes {
        let own = scope.certificates.iter().filter_map(|index| certified.get(*index).cloned());
        let own = Arc::new(CertificateResolver::new(own));
        scope.hosts.iter().for_each(|host| table.insert(host, own.clone()));
        if scope.hosts.is_empty() {
            table.insert_any(own);
        }
    }
    Arc::new(ScopedResolver(table))
}

fn verifier(clients: &ClientAuthentication) -> Result<Arc<dyn ClientCertVerifier>, FileProblem> {
    let roots = clients.authorities.authorities()?;
    let builder = WebPkiClientVerifier::builder_with_provider(roots, provider().clone());
    let builder = match clients.admits {
        AdmittedClients::Certified => builder,
        AdmittedClients::CertifiedOrWithout | AdmittedClients::All => builder.allow_unauthenticated(),
    };
    let verifier =
        builder.build().map_err(|error| FileProblem::new(InputFile::Authorities, error.to_string()))?;
    Ok(match clients.admits {
        AdmittedClients::All => Arc::new(AdmittingVerifier(verifier)),
        AdmittedClients::Certified | AdmittedClients::CertifiedOrWithout => verifier,
    })
}

/// Verifies certificates, and records invalid ones instead of refusing them. The client must still hold the key.
#[derive(Debug)]
struct AdmittingVerifier(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for AdmittingVerifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // A client that reads the hints would not send a certificate of another authority.
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.0.verify_client_cert(end_entity, intermediates, now).or_else(|_| {
            tollgate_net::record_unverified_certificate();
            Ok(ClientCertVerified::assertion())
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pem(text: &str) -> Pem {
        Pem::from(text.as_bytes())
    }

    fn files(chain: &str, key: &str) -> ServerOptions {
        let certificates = vec![TlsIdentity { chain: pem(chain), key: pem(key) }];
        ServerOptions { certificates, scopes: Vec::new(), only_13: false, clients: None, alpn: Vec::new() }
    }

    fn refused(files: &ServerOptions) -> Vec<(InputFile, String)> {
        let problems = TlsServerConfig::new(files).expect_err("refused");
        problems.into_iter().map(|problem| (problem.file, problem.message)).collect()
    }

    #[test]
    fn errors_name_the_faulty_file() {
        let make = || rcgen::generate_simple_self_signed(vec!["a.example".to_owned()]).expect("made");
        let (one, other) = (make(), make());
        let (chain, key) = (one.cert.pem(), one.signing_key.serialize_pem());
        assert!(TlsServerConfig::new(&files(&chain, &key)).is_ok());
        assert!(
            TlsServerConfig::new(&files(&(chain.clone() + &key), &(chain.clone() + &key))).is_ok(),
            "both in one file"
        );
        let text = |message: &str| message.to_owned();
        assert_eq!(
            refused(&files(&chain, &other.signing_key.serialize_pem())),
            [(InputFile::Key(0), text("it is not the key of the certificate"))]
        );
        assert_eq!(
            refused(&files(&chain, &chain)),
            [(InputFile::Key(0), text("there is no private key in it"))]
        );
        assert_eq!(
            refused(&files(&key, &key)),
            [(InputFile::Chain(0), text("there is no certificate in it"))]
        );
        let mut both = files("", &key);
        both.clients =
            Some(ClientAuthentication { authorities: pem("x"), admits: AdmittedClients::Certified });
        assert_eq!(
            refused(&both),
            [
                (InputFile::Chain(0), text("there is no certificate in it")),
                (InputFile::Authorities, text("there is no certificate in it"))
            ]
        );
        let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
        assert!(refused(&files(&chain, encrypted))[0].1.contains("passphrase"));
    }
}
