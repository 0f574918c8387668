//! TLS to an endpoint: the handshake, and which name the certificate must hold.

use std::future::poll_fn;

use tollgate_net::{Address, ServerName, Stream, TlsFault, TlsFaultKind};
use tollgate_plan::Tls;

/// Performs the TLS handshake with an endpoint and verifies its certificate. The caller bounds the time.
///
/// # Errors
/// Returns the TLS failure.
pub(crate) async fn connect_tls(stream: Stream, tls: &Tls, address: &Address) -> Result<Stream, TlsFault> {
    let verified = match server_name(tls, address) {
        // The TLS library needs a name even if it does not count.
        None if tls.client.ignores_name() => ServerName::try_from("localhost").ok(),
        verified => verified,
    };
    let verified = verified.ok_or_else(|| {
        let text = "nothing says which name the certificate is to hold: set `tls.server_name`";
        TlsFault::new(TlsFaultKind::CertificateWrongName, text)
    })?;
    let asked = tls.sni.as_ref().and_then(|name| ServerName::try_from(name.clone()).ok());
    let (config, name) = match asked {
        // The configuration verifies `server_name`, if there is one.
        Some(asked) if tls.server_name.is_some() => (tls.client.config(), asked),
        Some(asked) => (tls.client.config_verifying(verified), asked),
        None => (tls.client.config(), verified),
    };
    let mut stream = stream.connect_tls(config, name).map_err(|error| TlsFault::from(&error))?;
    poll_fn(|cx| stream.poll_handshake(cx)).await.map_err(|error| TlsFault::from(&error))?;
    Ok(stream)
}

/// Returns the name that the endpoint's certificate must hold: the name from the plan, else the endpoint's
/// host name or the name that discovery looked up, else its IP address.
fn server_name(tls: &Tls, address: &Address) -> Option<ServerName<'static>> {
    match (&tls.server_name, address) {
        (Some(name), _) => ServerName::try_from(name.clone()).ok(),
        (None, Address::Name { host, .. }) => ServerName::try_from(host.clone()).ok(),
        (None, Address::Socket(address)) => match &tls.discovery_name {
            Some(name) => ServerName::try_from(name.clone()).ok(),
            None => Some(ServerName::from(address.ip())),
        },
        (None, Address::Unix(_)) => None,
    }
}
