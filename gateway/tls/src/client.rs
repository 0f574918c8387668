//! The TLS configuration of connections to endpoints, and to auxiliary services.
//!
//! [`TlsClientConfig`] is built from the contents of files when a plan is compiled, and shared by all
//! workers. Verification uses webpki with the configured authorities or the system's. The custom verifiers
//! serve a fixed certificate name, a list of accepted names, and the option to verify nothing.

use std::sync::{Arc, OnceLock};

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, Error, RootCertStore};

use crate::accepted_names::{AcceptedName, AcceptedNames};
use crate::certificate_rule::{CertificateRule, PresentedCertificate, RuleVerifier};
use crate::{FileProblem, InputFile, Pem, TlsIdentity, provider};

/// The inputs of an upstream's TLS configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClientOptions {
    /// Authorities that may sign the endpoints' certificates; `None`: the system's trusted authorities.
    pub authorities: Option<Pem>,
    /// The gateway's client certificate; `None`: it has none.
    pub identity: Option<TlsIdentity>,
    /// Protocols to offer (ALPN), the preferred one first.
    pub alpn: Vec<Vec<u8>>,
    /// Whether any certificate is accepted, whatever its issuer and names. Dangerous: an attacker between
    /// gateway and endpoint can impersonate the endpoint.
    pub unverified: bool,
    /// The name that certificates must contain, if it differs from the name in SNI.
    pub verified_name: Option<String>,
    /// Whether SNI is omitted.
    pub without_sni: bool,
    /// Names of which the endpoints' certificates must hold one, whatever name the connection is for; empty: that name
    /// counts.
    pub accepted_names: Vec<AcceptedName>,
}

/// The TLS configuration of an upstream, shared by all workers. Two are equal if they were built from the
/// same inputs.
#[derive(Debug)]
pub struct TlsClientConfig {
    files: ClientOptions,
    config: Arc<ClientConfig>,
    /// Verifies endpoint certificates for the name of a connection; `None`: that name does not count.
    verifier: Option<Arc<WebPkiServerVerifier>>,
}

impl PartialEq for TlsClientConfig {
    fn eq(&self, other: &Self) -> bool {
        self.files == other.files
    }
}

impl Eq for TlsClientConfig {}

impl TlsClientConfig {
    /// Builds the configuration from the contents of files.
    ///
    /// # Errors
    /// The first file that cannot be used, and why.
    pub fn new(files: &ClientOptions) -> Result<Self, Vec<FileProblem>> {
        let (config, verifier) = config(files).map_err(|problem| vec![problem])?;
        Ok(Self { files: files.clone(), config: Arc::new(config), verifier })
    }

    /// The rustls configuration for handshakes.
    #[must_use]
    pub fn config(&self) -> Arc<ClientConfig> {
        self.config.clone()
    }

    /// As [`config`](Self::config), but the certificate must contain `name`, whatever name SNI holds.
    /// Sessions are not resumed, because the cache identifies them only by the name in SNI.
    #[must_use]
    pub fn config_verifying(&self, name: ServerName<'static>) -> Arc<ClientConfig> {
        let Some(verifier) = &self.verifier else { return self.config.clone() };
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::disabled();
        config
            .dangerous()
            .set_certificate_verifier(Arc::new(RuleVerifier(FixedName { verifier: verifier.clone(), name })));
        Arc::new(config)
    }

    /// Whether certificates are accepted whatever name the connection is for: without verification, or for names of their
    /// own.
    #[must_use]
    pub fn ignores_name(&self) -> bool {
        self.files.unverified || !self.files.accepted_names.is_empty()
    }
}

/// Accepts certificates for a fixed name, whatever name SNI holds.
#[derive(Debug)]
struct FixedName {
    verifier: Arc<WebPkiServerVerifier>,
    name: ServerName<'static>,
}

impl CertificateRule for FixedName {
    fn verify(&self, certificate: &PresentedCertificate<'_>) -> Result<(), Error> {
        let PresentedCertificate { end_entity, intermediates, ocsp_response, now } = *certificate;
        self.verifier.verify_server_cert(end_entity, intermediates, &self.name, ocsp_response, now).map(drop)
    }
}

/// Accepts every certificate whose key the endpoint has.
#[derive(Debug)]
struct AnyCertificate;

impl CertificateRule for AnyCertificate {
    fn verify(&self, _: &PresentedCertificate<'_>) -> Result<(), Error> {
        Ok(())
    }
}

type ConfigAndVerifier = (ClientConfig, Option<Arc<WebPkiServerVerifier>>);

fn config(files: &ClientOptions) -> Result<ConfigAndVerifier, FileProblem> {
    let general = |error: String| FileProblem::new(InputFile::Authorities, error);
    let verifier = if files.unverified { None } else { Some(verifier(files)?) };
    let builder = ClientConfig::builder_with_provider(provider().clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| general(error.to_string()))?;
    let accepted = &files.accepted_names;
    let (builder, verifier) = match (verifier, &files.verified_name) {
        (None, _) => {
            let any = RuleVerifier(AnyCertificate);
            (builder.dangerous().with_custom_certificate_verifier(Arc::new(any)), None)
        }
        (Some(_), _) if !accepted.is_empty() => {
            let accepting = RuleVerifier(AcceptedNames::new(roots(files)?, accepted)?);
            (builder.dangerous().with_custom_certificate_verifier(Arc::new(accepting)), None)
        }
        (Some(verifier), None) => (builder.with_webpki_verifier(verifier.clone()), Some(verifier)),
        (Some(verifier), Some(name)) => {
            let name = ServerName::try_from(name.clone()).map_err(|error| general(error.to_string()))?;
            let named = RuleVerifier(FixedName { verifier: verifier.clone(), name });
            (builder.dangerous().with_custom_certificate_verifier(Arc::new(named)), Some(verifier))
        }
    };
    let mut config = match &files.identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let certified = Arc::new(identity.certified_key(0)?);
            builder.with_client_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(certified)))
        }
    };
    config.alpn_protocols = files.alpn.clone();
    config.enable_sni = !files.without_sni;
    Ok((config, verifier))
}

/// Returns the authorities that may sign the endpoints' certificates.
fn roots(files: &ClientOptions) -> Result<Arc<RootCertStore>, FileProblem> {
    match &files.authorities {
        Some(pem) => pem.authorities(),
        None => system_roots().map_err(|message| FileProblem::new(InputFile::Authorities, message)),
    }
}

fn verifier(files: &ClientOptions) -> Result<Arc<WebPkiServerVerifier>, FileProblem> {
    WebPkiServerVerifier::builder_with_provider(roots(files)?, provider().clone())
        .build()
        .map_err(|error| FileProblem::new(InputFile::Authorities, error.to_string()))
}

/// Returns the authorities that the system trusts, read once: some 140 certificates. Unusable ones are left
/// out.
fn system_roots() -> Result<Arc<RootCertStore>, String> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let roots = ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    });
    if roots.is_empty() {
        return Err("this system trusts no authority: name the authorities that sign the endpoints' certificates, with `ca`"
            .to_owned());
    }
    Ok(roots.clone())
}
