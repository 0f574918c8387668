//! Commands that ask a running gateway over its admin API, and change it.
//!
//! | Module | What it has |
//! |---|---|
//! | `args` | the command line of each |
//! | `ask` | a request, and its answer or why there is none |
//! | `resources` | `get`, `set`, `delete` |
//! | `whole` | `export`, `import`, `diff`, `backup` |
//! | `versions` | `history`, `rollback` |
//! | `show` | answers, for people and for programs |

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

/// What a command has to say: a text, and whether it is good news.
pub struct Said {
    text: String,
    code: ExitCode,
}

impl Said {
    fn good(text: String) -> Self {
        Self { text, code: ExitCode::SUCCESS }
    }
}

/// Says it; a message is an error. `bad` is the exit status for that.
pub fn run(said: Result<Said, String>, bad: u8) -> ExitCode {
    match said {
        Ok(Said { text, code }) => print(&text, code),
        Err(message) => {
            // A problem of a configuration is rendered as `check` does, and begins with its severity.
            let prefix = if message.starts_with("error: ") { "" } else { "error: " };
            notice!("{prefix}{}", message.trim_end());
            ExitCode::from(bad)
        }
    }
}
