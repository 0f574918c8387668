//! Policies as attached to the gateway, a listener, a route or an upstream.

use std::sync::Arc;

use super::{At, Spanned};
use crate::policy_kinds::PolicySettings;

/// The policies attached in one place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policies {
    /// The sets used here, in the order written. A policy in `list` overrides the sets, and a later set
    /// overrides an earlier one.
    pub sets: Vec<UsedSet>,
    /// Policies in the order written; at most one of a kind.
    pub list: Vec<Attached>,
}

impl Policies {
    /// Returns whether nothing is attached.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty() && self.list.is_empty()
    }
}

/// A use of a policy set. The plan's compiler checks that the set exists, because another source may define
/// it.
#[derive(Clone, Debug, PartialEq)]
pub struct UsedSet {
    /// Name of the set.
    pub name: Spanned<String>,
    /// The original text, if it contained an environment variable: messages must then not show `name`.
    pub written: Option<String>,
}

/// A named set of policies.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicySet {
    /// Unique name of the set.
    pub name: Spanned<String>,
    /// The policies; they use no other sets.
    pub policies: Policies,
}

/// A policy that is attached or switched off.
#[derive(Clone, Debug, PartialEq)]
pub struct Attached {
    /// Its key: the kind of the policy.
    pub kind: &'static str,
    /// Source position of its key.
    pub at: At,
    /// Its settings. `None` is `off`: a policy inherited from an outer level does not apply here.
    pub spec: Option<Arc<dyn PolicySettings>>,
}
