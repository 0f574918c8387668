//! Who may do what over the admin listener.
//!
//! | Module | What it has |
//! |---|---|
//! | `tokens` | tokens and their hashes, and what is open without one |
//! | `guard` | what a request needs, and whether who asks has it |
//! | `host` | whether the listener answers to the host that a request names |
//! | `attempts` | wrong credentials: how many came from where, and how they are slowed |
//! | `audit` | the log of who changed what |

mod attempts;
mod audit;
mod guard;
mod host;
mod tokens;

pub use attempts::Attempts;
pub use audit::check as check_audit_log;
pub use guard::{Asker, Changed, Problem, guard, refused_certificate};
pub use tokens::Access;
