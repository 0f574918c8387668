//! `client_certificate`: admits clients with a verified certificate.

use super::IdentityHeaders;
use crate::model::CertificateName;
use crate::section::{Fields, Problem, Reader, Section};
use crate::sections::consumers::{CERTIFICATE_NAME, certificate_name};

/// Admits clients whose certificate the listener's `tls.client_certificates` verified.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "client_certificate_policy", noun = "`client_certificate`", switch, check = check)]
pub struct ClientCertificate {
    /// Admitted certificates, by name or fingerprint. Default: every verified one.
    #[key(
        text = CERTIFICATE_NAME, each = certificate_name,
        also = ["subjects", "names", "fingerprints", "san", "require"]
    )]
    pub allow: Vec<CertificateName>,
    /// Whether a request without such a credential passes, without a consumer. An invalid credential is still
    /// rejected (401).
    #[key(default = off)]
    pub optional: bool,
    /// Fields that tell the upstream which consumer it is.
    #[key(flatten)]
    pub identity: IdentityHeaders,
}

fn check(reader: &mut Reader, fields: &Fields<'_>, policy: &mut ClientCertificate) {
    // An empty `allow` would otherwise admit every certificate.
    if let Some(field) = fields.get("allow").filter(|_| policy.allow.is_empty() && reader.complete) {
        reader.problems.push(
            Problem::error(field.at, "`allow` has no certificate")
                .help("remove it to admit every verified certificate"),
        );
    }
}
