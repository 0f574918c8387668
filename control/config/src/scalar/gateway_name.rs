//! Names by which a gateway is known to others: in etcd, and at a controller.

use super::ScalarError;

const NAME_BYTES_MAX: usize = 200;

/// Checks the name of a gateway and returns it as written.
pub(crate) fn gateway_name(text: &str) -> Result<String, ScalarError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
    let is_valid = (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(fits);
    if is_valid { Ok(text.to_owned()) } else { Err(ScalarError::new("{} is not a valid name")) }
}
