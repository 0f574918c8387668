//! Compiles `security_headers`.

use tollgate_config as config;
use tollgate_policy::SecurityHeaders;

pub(super) fn security_headers(headers: &config::SecurityHeaders) -> SecurityHeaders {
    SecurityHeaders { fields: headers.fields.clone(), overwrite: headers.overwrite }
}
