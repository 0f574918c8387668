//! Commands that query or change a running gateway through its admin API.
//!
//! | Module | Contents |
//! |---|---|
//! | `args` | arguments of the commands |
//! | `ask` | requests and their responses |
//! | `resources` | `get`, `set`, `delete` |
//! | `whole` | `export`, `import`, `diff`, `backup` |
//! | `versions` | `history`, `rollback` |
//! | `show` | results as text, JSON or YAML |

mod args;
mod ask;
mod lines;
mod resources;
mod show;
mod versions;
mod whole;

use std::process::ExitCode;

pub use args::{Backup, Delete, Diff, Export, Get, History, Import, Rollback, Set};
pub use resources::{delete, get, set};
pub use versions::{history, rollback};
pub use whole::{backup, diff, export, import};

use tollgate_net::notice;

use crate::print::print;

/// The result of a command: a text and the exit code.
pub struct Said {
    text: String,
    code: ExitCode,
}

impl Said {
    fn good(text: String) -> Self {
        Self { text, code: ExitCode::SUCCESS }
    }
}

/// Prints a result. An error message gives the exit code `bad`.
pub fn run(said: Result<Said, String>, bad: u8) -> ExitCode {
    match said {
        Ok(Said { text, code }) => print(&text, code),
        Err(message) => {
            // A problem of a configuration is rendered as `check` does, and already begins with its severity.
            let prefix = if message.starts_with("error: ") { "" } else { "error: " };
            notice!("{prefix}{}", message.trim_end());
            ExitCode::from(bad)
        }
    }
}
