//! The names of endpoints, which are resolved at each connect.

use std::io;
use std::net::SocketAddr;

/// Resolves a name, and connects to the first of its addresses that `connect` accepts, in order.
///
/// # Errors
/// The error of the resolver, or of the last address; [`io::ErrorKind::NotFound`] if the name does not resolve.
pub(crate) async fn connect_by_name<T>(
    host: &str,
    port: u16,
    connect: impl AsyncFn(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let not_found = |text: String| io::Error::new(io::ErrorKind::NotFound, text);
    let addresses =
        tokio::net::lookup_host((host, port)).await.map_err(|error| not_found(error.to_string()))?;
    let mut last = not_found(format!("{host} has no address"));
    for address in addresses {
        match connect(address).await {
            Ok(connected) => return Ok(connected),
            Err(error) => last = error,
        }
    }
    Err(last)
}
