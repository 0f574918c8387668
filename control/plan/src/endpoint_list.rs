//! Reads endpoints from a separate file, for `discover: {file: PATH}`.

use tollgate_config::Scheme;
use tollgate_config::file_access::NamedFile;

use crate::Endpoint;
use crate::compile::upstreams::endpoint;

/// Reads a file of endpoints. Blocks for as long as the file system takes, so callers use a thread of their
/// own.
///
/// # Errors
/// Returns readable text: each problem with its position, and with the faulty line if the operator named the
/// file.
pub fn read_endpoints(file: &NamedFile) -> Result<Vec<Endpoint>, String> {
    let read = tollgate_config::load_endpoints(file).map_err(|bad| bad.text)?;
    if read.iter().any(|endpoint| endpoint.address.value.scheme == Scheme::H2c) {
        return Err(
            "an endpoint in it is `h2c://`: that its endpoints speak HTTP/2 the upstream says, with \
                    `http2: on`"
                .to_owned(),
        );
    }
    Ok(read.iter().map(endpoint).collect())
}
