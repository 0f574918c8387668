//! Conversions that several policies use.

use tollgate_config as config;
use tollgate_config::{PemFile, Problem};
use tollgate_policy::{AuthBody, CredentialSource, Identity, Trust};
use tollgate_tls::{ClientOptions, Pem, TlsClientConfig};

/// Returns the request fields that carry the client's identity to the endpoint.
pub(super) fn identity(headers: &config::IdentityHeaders) -> Identity {
    Identity::new(headers.consumer.clone(), headers.groups.clone())
}

/// Returns how much of a request's body an authorization service gets.
pub(super) fn auth_body(body: config::AuthBody) -> AuthBody {
    let config::AuthBody { max, partial, as_bytes } = body;
    AuthBody { max, partial, as_bytes }
}

/// Returns the places in a request in which a credential may be.
pub(super) fn credential_places(places: &[config::CredentialSource]) -> Vec<CredentialSource> {
    let place = |place: &config::CredentialSource| match place.clone() {
        config::CredentialSource::Header { name, prefix } => CredentialSource::Header { name, prefix },
        config::CredentialSource::Cookie(name) => CredentialSource::Cookie(name),
        config::CredentialSource::Query(name) => CredentialSource::Query(name),
    };
    places.iter().map(place).collect()
}

/// Returns a name that is not taken. Characters that cannot appear in the response field that carries the
/// name are left out.
pub(super) fn unused(name: &str, taken: impl Fn(&str) -> bool) -> String {
    let fits = |c: &char| c.is_ascii_graphic() && !"\"\\".contains(*c) || *c == ' ';
    let name: String = name.chars().filter(fits).collect();
    let numbered = (2..).map(|number| format!("{name} {number}"));
    std::iter::once(name.clone()).chain(numbered).find(|name| !taken(name)).unwrap_or(name)
}

/// Returns how to verify the service at a URL.
pub(super) fn trust(url: &str, ca: Option<&PemFile>, problems: &mut Vec<Problem>) -> Trust {
    if !url.starts_with("https:") && ca.is_none() {
        return Trust::default();
    }
    let authorities = ca.map(|file| Pem::from(file.bytes.0.as_slice()));
    match TlsClientConfig::new(&ClientOptions { authorities, ..ClientOptions::default() }) {
        Ok(client) => Trust::new(Some(client)),
        Err(found) => {
            let at = ca.map(|file| file.at).unwrap_or_default();
            let shown = ca.map_or(String::new(), |file| format!("cannot use {}: ", file.shown));
            let message = |problem: &tollgate_tls::FileProblem| format!("{shown}{}", problem.message);
            problems.extend(found.iter().map(|problem| Problem::error(at, message(problem))));
            Trust::default()
        }
    }
}
