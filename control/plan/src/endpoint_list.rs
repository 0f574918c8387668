//! Endpoints from a file of their own.

use std::path::Path;

use tollgate_config::Scheme;

use crate::Endpoint;
use crate::compile::endpoint;

/// Reads a file of endpoints, as `discover: {file: PATH}` names it.
///
/// # Errors
/// What is wrong with it, as text for people: each problem with its line and a caret.
pub fn read_endpoints(path: &Path) -> Result<Vec<Endpoint>, String> {
    let read = tollgate_config::load_endpoints(path).map_err(|problems| problems.render(false))?;
    if read.iter().any(|endpoint| endpoint.address.value.scheme == Scheme::H2c) {
        return Err(
            "an endpoint in it is `h2c://`: that its endpoints speak HTTP/2 the upstream says, with \
                    `http2: on`"
                .to_owned(),
        );
    }
    Ok(read.iter().map(endpoint).collect())
}
