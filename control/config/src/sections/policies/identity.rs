//! The fields that tell the upstream which consumer sent a request.

use super::own_header;
use crate::section::Section;
use crate::sections::texts::HEADER_NAME;

/// The fields that tell the upstream which consumer sent a request. The gateway removes these fields from
/// client requests.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
pub struct IdentityHeaders {
    /// The field that tells the upstream the consumer's name. The gateway removes this field from client
    /// requests.
    #[key(name = "consumer_header", off, text = HEADER_NAME, parse = own_header, default = "X-Consumer-Name", also = ["user_header", "name_header"])]
    pub consumer: Option<String>,
    /// The field that tells the upstream the consumer's groups, separated by commas. The gateway removes this
    /// field from client requests.
    #[key(name = "groups_header", off, text = HEADER_NAME, parse = own_header, default = "X-Consumer-Groups")]
    pub groups: Option<String>,
}
