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
            identity: tls.certificates.clone().map(PresentedCertificate::new),
        }))
    }

    pub fn record(&self) -> TlsRecord<'_> {
        TlsRecord {
            version: self.version,
            cipher: self.cipher,
            server_name: self.server_name.as_deref(),
            client_subject: self.identity.as_ref().map(PresentedCertificate::subject),
            client_fingerprint: self.identity.as_ref().map(PresentedCertificate::fingerprint),
        }
    }
}
