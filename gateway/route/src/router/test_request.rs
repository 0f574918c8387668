//! The request of this crate's unit tests.

use crate::Request;

/// A request for this path, without host and fields.
pub(crate) struct Get(pub &'static str);

impl Request for Get {
    fn method(&self) -> &[u8] {
        b"GET"
    }

    fn host(&self) -> &[u8] {
        b""
    }

    fn path(&self) -> &[u8] {
        self.0.as_bytes()
    }

    fn query(&self) -> Option<&[u8]> {
        None
    }

    fn header(&self, _lower_case_name: &str) -> Option<&[u8]> {
        None
    }
}
