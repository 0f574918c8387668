//! TLS towards endpoints.

use std::sync::{Arc, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::{ClientConfig, RootCertStore};

use crate::{File, Identity, Pem, Problem, provider};

/// What an upstream's TLS is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientFiles {
    /// Who may have signed the endpoints' certificates; `None`: whom the system trusts.
    pub authorities: Option<Pem>,
    /// What is shown to them.
    pub identity: Option<Identity>,
    /// Protocols that are offered (ALPN), the best first.
    pub alpn: Vec<Vec<u8>>,
}

/// TLS towards endpoints, as all workers use it. Two are the same that are made of the same.
#[derive(Debug)]
pub struct Client {
    files: ClientFiles,
    config: Arc<ClientConfig>,
}

impl PartialEq for Client {
    fn eq(&self, other: &Self) -> bool {
        self.files == other.files
    }
}

impl Eq for Client {}

impl Client {
    /// From the contents of files.
    ///
    /// # Errors
    /// Every file that cannot be used, and why.
    pub fn new(files: &ClientFiles) -> Result<Self, Vec<Problem>> {
        let config = config(files).map_err(|problem| vec![problem])?;
        Ok(Self { files: files.clone(), config: Arc::new(config) })
    }

    /// What handshakes are configured with.
    #[must_use]
    pub fn config(&self) -> Arc<ClientConfig> {
        self.config.clone()
    }
}

fn config(files: &ClientFiles) -> Result<ClientConfig, Problem> {
    let roots = match &files.authorities {
        Some(pem) => pem.authorities()?,
        None => system_roots().map_err(|message| Problem::new(File::Authorities, message))?,
    };
    let general = |error: String| Problem::new(File::Authorities, error);
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider().clone())
        .build()
        .map_err(|error| general(error.to_string()))?;
    let builder = ClientConfig::builder_with_provider(provider().clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| general(error.to_string()))?
        .with_webpki_verifier(verifier);
    let mut config = match &files.identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let certified = Arc::new(identity.certified(0)?);
            builder.with_client_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(certified)))
        }
    };
    config.alpn_protocols = files.alpn.clone();
    Ok(config)
}

/// Whom the system trusts, read once: some 140 certificates, of which those that cannot be used are left out.
fn system_roots() -> Result<Arc<RootCertStore>, String> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let roots = ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    });
    if roots.is_empty() {
        return Err("this system trusts nobody: name those who sign the endpoints' certificates, with `ca`"
            .to_owned());
    }
    Ok(roots.clone())
}
