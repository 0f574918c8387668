//! Certificates from Secrets, and CA certificates from ConfigMaps.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tollgate_tls::{Pem, TlsIdentity};

use crate::object::ObjectName;
use crate::objects::Objects;

/// Returns the CA certificates of a ConfigMap.
pub fn authorities<'a>(objects: &'a Objects, name: &ObjectName) -> Option<&'a str> {
    let map = objects.config_maps.get(name)?.spec.as_ref().ok()?;
    let text = map.data.get("ca.crt").map(|text| text.trim_end())?;
    text.contains("-----BEGIN CERT").then_some(text)
}

/// Returns the certificate of a Secret with its key, in the gateway's form.
///
/// # Errors
/// Returns a message if there is none.
pub fn certificate(objects: &Objects, name: &ObjectName) -> Result<Value, String> {
    let secret = objects.secrets.get(name).and_then(|secret| secret.spec.as_ref().ok());
    let Some(secret) = secret else { return Err(format!("there is no Secret {name}")) };
    let entry = |key: &str| {
        let text = secret.data.get(key)?;
        STANDARD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok())
    };
    let (Some(chain), Some(key)) = (entry("tls.crt"), entry("tls.key")) else {
        return Err(format!("the Secret {name} has no `tls.crt` and `tls.key`"));
    };
    let identity = TlsIdentity { chain: Pem::from(chain.as_bytes()), key: Pem::from(key.as_bytes()) };
    match identity.check() {
        Ok(()) => Ok(json!({ "certificate": chain, "key": key })),
        Err(problem) => Err(format!("the Secret {name}: {}", problem.message)),
    }
}
