//! Who may do what over the admin listener.
//!
//! | Module | What it has |
//! |---|---|
//! | `tokens` | tokens and their hashes, and what is open without one |
//! | `guard` | what a request needs, and whether who asks has it |
//! | `audit` | the log of who changed what |

mod audit;
mod guard;
mod tokens;

pub use audit::check as check_audit_log;
pub use guard::{Asker, Changed, Problem, guard};
pub use tokens::Access;
