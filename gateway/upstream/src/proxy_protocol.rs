//! Writes the PROXY protocol header to an endpoint.

use std::future::poll_fn;
use std::io;

use tollgate_net::{ProxyHeader, ProxyVersion, Stream};

/// Writes the PROXY protocol header, which names the client, before all other bytes of the connection. The
/// caller bounds the time.
pub(crate) async fn write_header(
    stream: &mut Stream,
    client_header: ProxyHeader,
    version: ProxyVersion,
) -> io::Result<()> {
    let header = client_header.to_bytes(version);
    let mut left = header.as_slice();
    while !left.is_empty() {
        match poll_fn(|cx| stream.poll_write(cx, left)).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => left = &left[count..],
        }
    }
    Ok(())
}
