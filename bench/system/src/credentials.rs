//! Credentials of the laboratory's clients, for the features that authenticate them.
//!
//! They are used on loopback only and protect nothing, so the source contains them in plain text. Cells with
//! `known_client` send [`header_lines`]; readiness checks always send them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use serde::Serialize;
use std::time::SystemTime;

/// Returns the headers of a known client: an API key, user name and password, a token, and an HMAC-SHA-256
/// signature of these (RFC 9421). The signature is created now, because a verifier checks its age.
pub fn header_lines() -> Vec<(&'static str, String)> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let names = SIGNED.map(|(name, _)| format!("\"{}\"", name.to_lowercase()));
    let parameters = format!("({});created={now};keyid=\"{KEY_ID}\"", names.join(" "));
    let mut base = String::new();
    for (name, (_, value)) in names.iter().zip(SIGNED) {
        base += &format!("{name}: {value}\n");
    }
    base += &format!("\"@signature-params\": {parameters}");
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, HMAC_KEY.as_bytes()), base.as_bytes());
    let mut lines = SIGNED.map(|(name, value)| (name, value.to_owned())).to_vec();
    lines.push(("Signature-Input", format!("lab={parameters}")));
    lines.push(("Signature", format!("lab=:{}:", STANDARD.encode(tag))));
    lines
}

/// The header fields that the signature covers.
const SIGNED: [(&str, &str); 3] = [
    ("X-Api-Key", API_KEY),
    ("Authorization", "Basic bGFiOnRvbGxnYXRl"),
    (
        "Cookie",
        "token=eyJhbGciOiJFUzI1NiIsImtpZCI6ImxhYiIsInR5cCI6IkpXVCJ9.\
         eyJpc3MiOiJ0b2xsZ2F0ZS1sYWIiLCJhdWQiOiJiZW5jaCIsInN1YiI6ImxhYiIsImV4cCI6NDEwMjQ0NDgwMH0.\
         W4kfSoyWX7orwmeQYoUoJJa3JP5sumsbKLc9HPGYI4RN7oM7fjBDK2S0WvlhA2hoZuS_yE1YYWVS7h5CRQvTnQ",
    ),
];

const API_KEY: &str = "tollgate-lab";
const HMAC_KEY: &str = "tollgate-lab-signs";
const KEY_ID: &str = "lab";

/// The credentials as template variables.
#[derive(Serialize)]
pub(crate) struct Credentials {
    /// The API key, and its SHA-256 in hexadecimal.
    api_key: &'static str,
    api_key_sha256: &'static str,
    /// The shared secret of the signatures, and its key id.
    hmac_key: &'static str,
    key_id: &'static str,
    /// User name and password, and the password's hashes: bcrypt (cost 8), and SHA-1 in Base64.
    user: &'static str,
    password: &'static str,
    password_bcrypt: &'static str,
    password_sha1: &'static str,
    /// Issuer and audience of the tokens, and the key to verify them, as a JWK set (RFC 7517) and in PEM.
    issuer: &'static str,
    audience: &'static str,
    jwks: &'static str,
    public_key: &'static str,
}

pub(crate) const CREDENTIALS: Credentials = Credentials {
    api_key: API_KEY,
    api_key_sha256: "01e3d3d393bf844b0325e84f2771b105940039165efa1533fe314d496224894b",
    hmac_key: HMAC_KEY,
    key_id: KEY_ID,
    user: "lab",
    password: "tollgate",
    password_bcrypt: "$2y$08$xBaHKOIiM3rdINKOwTqU.OQTAPa8Ie0ncZ.9v1tkqZ1oQBNF8wVY.",
    password_sha1: "KCEBY/soFDDGrNWrPgn7jCWspX8=",
    issuer: "tollgate-lab",
    audience: "bench",
    jwks: r#"{"keys": [{"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "lab", "x": "sAMHIeAVUp85ymSwI_6Kj6L6gp9lnciUG2849WmEPuE", "y": "o3CqhjbynNpotca_SNqjnYkL5VvISmBxklxISsNq9EY"}]}"#,
    public_key: "-----BEGIN PUBLIC KEY-----\n\
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEsAMHIeAVUp85ymSwI/6Kj6L6gp9l\n\
        nciUG2849WmEPuGjcKqGNvKc2mi1xr9I2qOdiQvlW8hKYHGSXEhKw2r0Rg==\n\
        -----END PUBLIC KEY-----",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_what_was_signed() {
        let lines = header_lines();
        let value = |name: &str| lines.iter().find(|(other, _)| *other == name).unwrap().1.clone();
        let input = value("Signature-Input");
        let parameters = input.strip_prefix("lab=").unwrap();
        assert!(
            parameters.starts_with("(\"x-api-key\" \"authorization\" \"cookie\");created="),
            "{parameters}"
        );
        let signature = value("Signature");
        let tag = STANDARD.decode(signature.trim_start_matches("lab=:").trim_end_matches(':')).unwrap();
        let base = format!(
            "\"x-api-key\": {}\n\"authorization\": {}\n\"cookie\": {}\n\"@signature-params\": {parameters}",
            value("X-Api-Key"),
            value("Authorization"),
            value("Cookie")
        );
        let key = hmac::Key::new(hmac::HMAC_SHA256, HMAC_KEY.as_bytes());
        assert!(hmac::verify(&key, base.as_bytes(), &tag).is_ok());
    }
}
