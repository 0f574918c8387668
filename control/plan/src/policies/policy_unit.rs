//! A unit that a request passes at most once: a built-in kind of policy, or a plugin.

use std::sync::Arc;

use tollgate_policy::Planned;

/// Identifies a built-in kind by its key, or a plugin by its number. A request passes at most one policy of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PolicyUnit {
    BuiltIn(&'static str),
    Plugin(usize),
}

/// A policy, or `None` if the configuration turns this kind off.
pub(super) type CompiledPolicy = (PolicyUnit, Option<Arc<dyn Planned>>);
