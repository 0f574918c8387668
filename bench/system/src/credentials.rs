//! Who the laboratory's clients are, where a feature wants to know.
//!
//! They are for measuring on loopback and guard nothing, so they stand here in the open. Studies whose cells ask for such a
//! feature send [`HEADER_LINES`]; the questions whether a system is ready always do.

use serde::Serialize;

/// What a known client sends: an API key, name and password, and a token.
pub const HEADER_LINES: [(&str, &str); 3] = [
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

/// What a template is told of them.
#[derive(Serialize)]
pub(crate) struct Credentials {
    /// The API key, and its SHA-256 in hexadecimal.
    api_key: &'static str,
    api_key_sha256: &'static str,
    /// Name and password, and the password's hashes: by bcrypt (8 rounds of doubling), and SHA-1 in Base64.
    user: &'static str,
    password: &'static str,
    password_bcrypt: &'static str,
    password_sha1: &'static str,
    /// Who signs tokens, whom they are for, and the key to check them with, as a JWK set (RFC 7517) and in PEM.
    issuer: &'static str,
    audience: &'static str,
    jwks: &'static str,
    public_key: &'static str,
}

pub(crate) const CREDENTIALS: Credentials = Credentials {
    api_key: API_KEY,
    api_key_sha256: "01e3d3d393bf844b0325e84f2771b105940039165efa1533fe314d496224894b",
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
