//! The settings of `client_certificate`.

use std::sync::Arc;

use tollgate_config::section::{
    CERTIFICATE_NAME, Fields, KeySpec, Problem, Reader, Section, certificate_name,
};

use super::CertificateRules;
use crate::Planned;
use crate::credential::Admission;
use crate::policy_config::{Compilation, PolicyConfig, policy_key};

/// Admits clients whose certificate the listener's `tls.client_certificates` verified.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "client_certificate_policy", noun = "`client_certificate`", switch, check = check)]
pub(crate) struct ClientCertificateSettings {
    /// Admitted certificates, by name or fingerprint. Default: every verified one.
    #[key(
        text = CERTIFICATE_NAME, each = certificate_name,
        also = ["subjects", "names", "fingerprints", "san", "require"],
    )]
    allow: Vec<tollgate_config::CertificateName>,
    #[key(flatten)]
    admission: Admission,
}

impl PolicyConfig for ClientCertificateSettings {
    const KEY: KeySpec =
        policy_key::<Self>("client_certificate", "Admits clients with a verified certificate (403).")
            .aliases(&["mtls", "mtls_auth", "mtls-auth", "certificate"]);
    const IS_GUARD: bool = true;

    fn compile(&self, compilation: &mut Compilation<'_>) -> Arc<dyn Planned> {
        Arc::new(CertificateRules {
            allow: self.allow.iter().cloned().map(Into::into).collect(),
            optional: self.admission.optional,
            identity: self.admission.identity.compile(),
            consumers: compilation.consumers.clone(),
        })
    }
}

fn check(reader: &mut Reader, fields: &Fields<'_>, settings: &mut ClientCertificateSettings) {
    // An empty `allow` would otherwise admit every certificate.
    if let Some(field) = fields.get("allow").filter(|_| settings.allow.is_empty() && reader.complete) {
        reader.problems.push(
            Problem::error(field.at, "`allow` has no certificate")
                .help("remove it to admit every verified certificate"),
        );
    }
}
