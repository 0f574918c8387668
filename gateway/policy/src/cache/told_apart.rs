//! The inputs of a request by which a cache tells requests apart, for the check that no other input changes a response.

use super::active::CacheRules;
use crate::template::TemplatePart;

impl CacheRules {
    /// Returns whether requests that differ in this part get different keys, or are not answered from the cache for each
    /// other at all.
    #[must_use]
    pub fn tells_apart(&self, part: &TemplatePart) -> bool {
        let has_parameter = |name: &str| self.key.query.counts_parameter(name.as_bytes());
        match part {
            // These are part of each key, except for an id, which is for the log and changes no response.
            TemplatePart::Text(_)
            | TemplatePart::Method
            | TemplatePart::Scheme
            | TemplatePart::Path
            | TemplatePart::Route
            | TemplatePart::RequestId => true,
            TemplatePart::Host => self.key.host,
            TemplatePart::Query => self.key.query.is_all(),
            TemplatePart::Parameter(name) => has_parameter(name),
            TemplatePart::Header(name) => self.has_key_field(name),
            TemplatePart::Cookie(name) => self.key.cookies.contains(name),
            TemplatePart::Consumer => !self.across_identities,
            TemplatePart::Client => false,
        }
    }

    /// Returns whether a field is a part of the key.
    #[must_use]
    pub fn has_key_field(&self, name: &str) -> bool {
        self.key.headers.iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}
