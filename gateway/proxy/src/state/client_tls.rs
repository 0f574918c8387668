//! The TLS properties of a client's connection, as the access log and endpoints see them.

use std::rc::Rc;

use tollgate_net::Negotiated;
use tollgate_observe::TlsRecord;

use crate::state::client_certificate::PresentedCertificate;

/// The TLS properties of a client's connection.
#[derive(Debug)]
pub(crate) struct ClientTls {
    version: &'static str,
    cipher: &'static str,
    server_name: Option<Box<str>>,
    /// The certificate that the client has presented.
    pub identity: Option<PresentedCertificate>,
}

impl ClientTls {
    pub fn of(tls: Option<&Negotiated>) -> Option<Rc<Self>> {
        let tls = tls?;
        Some(Rc::new(Self {
            version: tls.version_number(),
            cipher: tls.cipher_name(),
            server_name: tls.server_name.clone(),
            identity: match &tls.certificates {
                None if !tls.has_unverified_certificate => None,
                chain => Some(PresentedCertificate::new(chain.clone())),
            },
        }))
    }

    pub fn record(&self) -> TlsRecord<'_> {
        let verified = self.identity.as_ref().filter(|identity| identity.is_verified());
        TlsRecord {
            version: self.version,
            cipher: self.cipher,
            server_name: self.server_name.as_deref(),
            client_subject: verified.map(PresentedCertificate::subject),
            client_fingerprint: verified.map(PresentedCertificate::fingerprint),
            client_unverified: self.identity.is_some() && verified.is_none(),
        }
    }
}
