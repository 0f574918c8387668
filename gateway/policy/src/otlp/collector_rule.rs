//! A collector and its settings, from the configuration of the access log or of `trace`.

use tollgate_config::{ExportSettings, Problem, Secret};

use crate::Trust;
use crate::client::trust;

/// Returns the rule for a collector at this URL. Files for its TLS are checked here.
pub fn collector(url: &str, export: &ExportSettings, problems: &mut Vec<Problem>) -> CollectorRule {
    let ExportSettings { service, headers, resource, ca } = export;
    CollectorRule {
        url: url.to_owned(),
        trust: trust(url, ca.as_ref(), problems),
        headers: headers.clone(),
        service: service.clone(),
        resource: resource.clone(),
    }
}

/// A collector and its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectorRule {
    /// The URL for this signal.
    pub url: String,
    /// The TLS settings for the URL.
    pub trust: Trust,
    /// Header fields of each batch.
    pub headers: Vec<(String, Secret)>,
    /// The value of `service.name`.
    pub service: String,
    /// Further attributes of the resource.
    pub resource: Vec<(String, String)>,
}
