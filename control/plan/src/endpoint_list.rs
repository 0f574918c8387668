//! Endpoints from a file of their own.

use tollgate_config::Scheme;
use tollgate_config::file_access::NamedFile;

use crate::Endpoint;
use crate::compile::endpoint;

/// Reads a file of endpoints, as `discover: {file: PATH}` names it. Blocks for as long as the file system takes.
///
/// # Errors
/// What is wrong with it, as text for people: each problem with its place, and with its line if the operator named the file.
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
