//! Converts APISIX certificates to the gateway's.

use serde_json::{Map, Value, json};
use tollgate_config::MASK;

use super::fields::ObjectFields;
use super::names::resource_name;
use super::parts::DerivedDocuments;

/// Derives the documents of a certificate object, and removes the keys from the object. `known` returns the
/// key of an existing document.
///
/// # Errors
/// Names a setting that has no counterpart here.
pub fn documents(
    id: &str,
    object: &mut Map<String, Value>,
    known: &dyn Fn(&str) -> Option<Value>,
) -> Result<DerivedDocuments, String> {
    let mut fields = ObjectFields::new(object.clone(), "");
    super::parts::take_description(&mut fields)?;
    let is_on = match fields.number("status")? {
        None | Some(1) => true,
        Some(0) => false,
        Some(_) => return Err(fields.wrong("status", "0 or 1")),
    };
    fields.only("type", &[json!("server")])?;
    let names = match (fields.text("sni")?, fields.texts("snis")?) {
        (Some(one), None) => vec![one],
        (None, Some(many)) => many,
        (None, None) => return Err("`snis` is missing: the names that the certificate is for".to_owned()),
        _ => return Err("`sni` and `snis` exclude each other".to_owned()),
    };
    for key in ["validity_start", "validity_end"] {
        fields.number(key)?;
    }
    if fields.take("client").is_some() {
        return Err("`client`: whom clients' certificates are verified by, a listener says: `tls.client_certificates` in the \
                    file, and `policies.client_certificate`"
            .to_owned());
    }
    if fields.take("ssl_protocols").is_some() {
        return Err("`ssl_protocols`: the listener in the file has the versions".to_owned());
    }
    let text =
        |fields: &mut ObjectFields, key: &str| fields.text(key)?.ok_or_else(|| fields.wrong(key, "PEM"));
    let mut pairs = vec![(text(&mut fields, "cert")?, text(&mut fields, "key")?)];
    match (fields.texts("certs")?, fields.texts("keys")?) {
        (None, None) => {}
        (Some(certs), Some(keys)) if certs.len() == keys.len() => pairs.extend(certs.into_iter().zip(keys)),
        _ => return Err("`certs` and `keys` must be lists of the same length".to_owned()),
    }
    fields.end()?;
    let mut out = DerivedDocuments::new();
    for (index, (certificate, key)) in pairs.into_iter().enumerate() {
        if !certificate.contains("-----BEGIN") {
            return Err("`cert` must be PEM".to_owned());
        }
        let name = certificate_name(id, index);
        let key = match key.as_str() {
            MASK => known(&name).ok_or_else(|| format!("`key` is `{MASK}`, and there is none yet"))?,
            _ if !key.contains("PRIVATE KEY") => return Err("`key` must be a private key in PEM".to_owned()),
            _ => json!(key),
        };
        if is_on {
            out.insert(("certificates", name), json!({ "certificate": certificate, "key": key }));
        }
    }
    if names.iter().any(String::is_empty) {
        return Err("`snis` has an empty name".to_owned());
    }
    object.shift_remove("key");
    object.shift_remove("keys");
    Ok(out)
}

/// Returns the name of an object's certificate; an object may have several.
pub fn certificate_name(id: &str, index: usize) -> String {
    match index {
        0 => resource_name(id),
        index => format!("{}/{index}", resource_name(id)),
    }
}

/// Replaces each key by a mask, to show the object.
pub fn mask_secrets(object: &mut Map<String, Value>) {
    object.insert("key".to_owned(), json!(MASK));
    if let Some(certificates) = object.get("certs").and_then(Value::as_array).map(Vec::len) {
        object.insert("keys".to_owned(), json!(vec![MASK; certificates]));
    }
}
