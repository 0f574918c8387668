//! The reports of handlers to the guard, as extensions of their responses, for the audit log.

use serde_json::Value;

/// The change that a response reports, for the audit log.
#[derive(Clone, Debug)]
pub struct AuditedChange {
    /// The store's version before the change.
    pub before: u64,
    /// The store's version after it.
    pub after: u64,
    /// Whether the client asked only what would change.
    pub dry_run: bool,
    /// The changed resources, as `routes/a` and the like.
    pub resources: Vec<String>,
}

/// Marks the response to a check, which changes nothing and is not in the audit log.
#[derive(Clone, Copy, Debug)]
pub struct UnauditedCheck;

/// The change of a setting of this process, for the audit log.
#[derive(Clone, Debug)]
pub struct AuditedSetting {
    /// The name of the setting.
    pub name: &'static str,
    /// Its value after the change.
    pub value: Value,
    /// Whether the value differs from the one before.
    pub is_changed: bool,
}

/// The code of an error response, for the audit log.
#[derive(Clone, Debug)]
pub struct ApiErrorCode(pub String);
