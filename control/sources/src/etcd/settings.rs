//! Converts the `etcd` section of the configuration to the settings of the client.

use std::sync::Arc;

use tollgate_config::{Address, EtcdSettings, PemFile, Scheme};
use tollgate_etcd::{ClientSettings, Password};
use tollgate_tls::{ClientOptions, Pem, TlsClientConfig, TlsIdentity};

/// Returns the client's settings. `name` is the gateway's name if the configuration sets none.
pub(super) fn settings(from: &EtcdSettings, name: String) -> Result<ClientSettings, String> {
    let secure = from.endpoints.iter().any(|endpoint| endpoint.value.scheme == Scheme::Https);
    let endpoints = from.endpoints.iter().filter_map(|endpoint| {
        let Address::Tcp { host, port } = &endpoint.value.address else { return None };
        let scheme = if endpoint.value.scheme == Scheme::Https { "https" } else { "http" };
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        Some(format!("{scheme}://{host}:{port}"))
    });
    let tls = secure.then(|| client(from)).transpose()?;
    Ok(ClientSettings {
        endpoints: endpoints.collect(),
        prefix: from.prefix.clone(),
        user: from
            .user
            .as_ref()
            .map(|(user, password)| (user.clone(), Password(password.reveal().to_owned()))),
        tls: tls.map(Arc::new),
        server_name: from.tls.as_ref().and_then(|tls| tls.server_name.clone()),
        name: from.name.clone().unwrap_or(name),
    })
}

fn client(from: &EtcdSettings) -> Result<TlsClientConfig, String> {
    let pem = |file: &PemFile| Pem::from(file.bytes.0.as_slice());
    let tls = from.tls.as_ref();
    let certificate = tls.and_then(|tls| tls.certificate.as_ref());
    let files = ClientOptions {
        authorities: tls.and_then(|tls| tls.ca.as_ref()).map(pem),
        identity: certificate.map(|it| TlsIdentity { chain: pem(&it.chain), key: pem(&it.key) }),
        unverified: tls.is_some_and(|tls| tls.unverified),
        ..ClientOptions::default()
    };
    TlsClientConfig::new(&files).map_err(|problems| {
        problems.into_iter().map(|problem| problem.message).collect::<Vec<_>>().join("; ")
    })
}
