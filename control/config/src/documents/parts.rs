//! Combines the resources of all sources.

use super::{Documents, kinds};
use crate::model::{Config, ConsumerSpec, Listener, NamedCertificate, PolicySet, Route, Stream, Upstream};

/// A configuration whose resources come from several sources. The file's resources come first, followed by
/// the documents' by name. If two matches tie, the earlier route wins.
#[derive(Clone, Debug)]
pub struct CombinedResources<'a> {
    /// The gateway's settings, from the file alone. Its lists of resources are superseded by the fields
    /// below.
    pub config: &'a Config,
    /// All listeners.
    pub listeners: Vec<&'a Listener>,
    /// All routes.
    pub routes: Vec<&'a Route>,
    /// All streams.
    pub streams: Vec<&'a Stream>,
    /// All upstreams.
    pub upstreams: Vec<&'a Upstream>,
    /// All consumers.
    pub consumers: Vec<&'a ConsumerSpec>,
    /// All named certificates.
    pub certificates: Vec<&'a NamedCertificate>,
    /// All policy sets, the file's first.
    pub policy_sets: Vec<&'a PolicySet>,
    /// Whether the file names a store that was not read, so that resources may be missing. A plan that takes
    /// effect is always complete.
    pub store_not_read: bool,
}

impl<'a> CombinedResources<'a> {
    /// Makes the parts of a single configuration.
    #[must_use]
    pub fn of(config: &'a Config) -> Self {
        Self {
            config,
            listeners: config.listen.iter().collect(),
            routes: config.routes.iter().collect(),
            streams: config.streams.iter().collect(),
            upstreams: config.upstreams.iter().collect(),
            consumers: config.consumers.iter().collect(),
            certificates: config.certificates.iter().collect(),
            policy_sets: config.policy_sets.iter().collect(),
            store_not_read: false,
        }
    }

    /// Adds the resources of a collection of documents.
    #[must_use]
    pub fn with(mut self, documents: &'a Documents) -> Self {
        for document in documents.by_kind.iter().flat_map(|documents| documents.values()) {
            self.listeners.extend(&document.listeners);
            self.routes.extend(&document.routes);
            self.streams.extend(&document.streams);
            self.upstreams.extend(&document.upstreams);
            self.consumers.extend(&document.consumers);
            self.certificates.extend(&document.certificates);
            self.policy_sets.extend(&document.policy_sets);
        }
        debug_assert_eq!(documents.by_kind.len(), kinds::KINDS.len());
        self
    }
}
