//! Endpoints from a file of their own.

use std::path::Path;

use crate::Endpoint;
use crate::compile::endpoint;

/// Reads a file of endpoints, as `discover: {file: PATH}` names it.
///
/// # Errors
/// What is wrong with it, as text for people: each problem with its line and a caret.
pub fn read_endpoints(path: &Path) -> Result<Vec<Endpoint>, String> {
    let read = tollgate_config::load_endpoints(path).map_err(|problems| problems.render(false))?;
    read.iter().map(endpoint).collect::<Result<_, _>>().map_err(|problem| problem.message)
}
