//! Compiles `client_certificate`.

use std::sync::Arc;

use tollgate_config as config;
use tollgate_policy::{CertificateName, CertificateRules, Consumers};

use super::shared::identity;

pub(super) fn client_certificate(
    spec: &config::ClientCertificate,
    consumers: &Arc<Consumers>,
) -> CertificateRules {
    CertificateRules {
        allow: spec.allow.iter().map(certificate_name).collect(),
        optional: spec.optional,
        identity: identity(&spec.identity),
        consumers: consumers.clone(),
    }
}

/// Converts the name by which a consumer's certificate is recognised.
pub(super) fn certificate_name(name: &config::CertificateName) -> CertificateName {
    match name.clone() {
        config::CertificateName::Subject(name) => CertificateName::Subject(name),
        config::CertificateName::Alternative(name) => CertificateName::Alternative(name),
        config::CertificateName::Fingerprint(name) => CertificateName::Fingerprint(name),
    }
}
