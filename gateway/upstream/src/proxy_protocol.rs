//! The PROXY protocol to an endpoint.

use std::future::poll_fn;
use std::io;

use tollgate_net::{ProxyHeader, ProxyVersion, Stream};

/// Tells the endpoint whose a connection is, before all else on it. The time is the caller's to bound.
pub(crate) async fn announce(
    stream: &mut Stream,
    whose: ProxyHeader,
    version: ProxyVersion,
) -> io::Result<()> {
    let header = whose.to_bytes(version);
    let mut left = header.as_slice();
    while !left.is_empty() {
        match poll_fn(|cx| stream.poll_write(cx, left)).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => left = &left[count..],
        }
    }
    Ok(())
}
