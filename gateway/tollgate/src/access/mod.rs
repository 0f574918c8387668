//! Access control of the admin listener.
//!
//! | Module | Contents |
//! |---|---|
//! | `tokens` | tokens and their hashes, and the role of clients without one |
//! | `guard` | the role that a request needs, and whether the client has it |
//! | `host` | the check that the listener answers to the host that a request names |
//! | `attempts` | wrong credentials by source address, and how they are slowed |
//! | `report` | what handlers report about their responses |
//! | `audit` | the log of all changes |

mod attempts;
mod audit;
mod guard;
mod host;
mod report;
mod tokens;

pub use attempts::FailedAttempts;
pub use audit::check as check_audit_log;
pub use guard::{ClientName, guard, report_refused_certificate};
pub use report::{ApiErrorCode, AuditedChange, AuditedSetting, UnauditedCheck};
pub use tokens::AccessRules;
