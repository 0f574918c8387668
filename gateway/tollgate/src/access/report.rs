//! What handlers report to the guard about their responses, as extensions of them, for the audit log.

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

/// The code of an error response, for the audit log.
#[derive(Clone, Debug)]
pub struct ErrorCode(pub String);
