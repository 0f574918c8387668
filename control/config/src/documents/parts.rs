//! What all sources say together.

use super::{Documents, kinds};
use crate::model::{Config, ConsumerSpec, NamedCertificate, PolicySet, Route, Upstream};

/// A configuration whose resources come from several sources. The file's come first, then the documents' by
/// name: where two matches tie, the earlier one wins.
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    /// What holds for the whole gateway: the file's alone. Its resources count only as far as they are below.
    pub config: &'a Config,
    /// All routes.
    pub routes: Vec<&'a Route>,
    /// All upstreams.
    pub upstreams: Vec<&'a Upstream>,
    /// All consumers.
    pub consumers: Vec<&'a ConsumerSpec>,
    /// All certificates that have names.
    pub certificates: Vec<&'a NamedCertificate>,
    /// All sets of policies, the file's first.
    pub policy_sets: Vec<&'a PolicySet>,
    /// Whether the file names a store that was not looked at: what is put in force has seen all.
    pub unseen: bool,
}

impl<'a> Parts<'a> {
    /// A configuration of one source.
    #[must_use]
    pub fn of(config: &'a Config) -> Self {
        Self {
            config,
            routes: config.routes.iter().collect(),
            upstreams: config.upstreams.iter().collect(),
            consumers: config.consumers.iter().collect(),
            certificates: config.certificates.iter().collect(),
            policy_sets: config.policy_sets.iter().collect(),
            unseen: false,
        }
    }

    /// Adds what a source of documents says.
    #[must_use]
    pub fn with(mut self, documents: &'a Documents) -> Self {
        for document in documents.by_kind.iter().flat_map(|documents| documents.values()) {
            self.routes.extend(&document.routes);
            self.upstreams.extend(&document.upstreams);
            self.consumers.extend(&document.consumers);
            self.certificates.extend(&document.certificates);
            self.policy_sets.extend(&document.policy_sets);
        }
        debug_assert_eq!(documents.by_kind.len(), kinds::KINDS.len());
        self
    }
}
