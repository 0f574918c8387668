//! Commands that query or change a running gateway through its admin API.
//!
//! | Module | Contents |
//! |---|---|
//! | `args` | arguments of the commands |
//! | `request` | requests and their responses |
//! | `resources` | `get`, `set`, `delete` |
//! | `log` | levels of the log |
//! | `cache` | the stored responses |
//! | `controller` | the gateways of a fleet |
//! | `process` | `status`, `reload`, `stop`, `cost` |
//! | `whole` | `export`, `import`, `diff`, `backup` |
//! | `versions` | `history`, `rollback` |
//! | `show` | results as text, JSON or YAML |

mod args;
mod bulk;
mod cache;
mod controller;
mod format;
mod line_diff;
mod log;
mod process;
mod request;
mod resources;
mod versions;

use std::process::ExitCode;

pub use args::{
    BackupArgs, CacheCommand, ControllerArgs, CostArgs, DeleteArgs, DiffArgs, ExportArgs, GetArgs,
    HistoryArgs, ImportArgs, ImportFrom, LogArgs, ReloadArgs, RollbackArgs, SetArgs, StatusArgs, StopArgs,
};
pub use bulk::{backup, diff, export, import};
pub use cache::cache;
pub use controller::controller;
pub use log::log;
pub use process::{cost, reload, status, stop};
pub use request::percent_encode;
pub use resources::{delete, get, set};
pub use versions::{history, rollback};

use crate::print::{print, print_error};

/// The result of a command: a text and the exit code.
pub struct CommandOutput {
    text: String,
    code: ExitCode,
}

impl CommandOutput {
    fn success(text: String) -> Self {
        Self { text, code: ExitCode::SUCCESS }
    }

    /// The result was obtained, and tells of a failure.
    fn failure(text: String) -> Self {
        Self { text, code: ExitCode::FAILURE }
    }
}

/// Prints a result. An error message gives the exit code `bad`.
pub fn run(result: Result<CommandOutput, String>, bad: u8) -> ExitCode {
    match result {
        Ok(CommandOutput { text, code }) => print(&text, code),
        Err(message) => {
            // A problem of a configuration is rendered as `check` does, and already begins with its severity.
            let prefix = if message.starts_with("error: ") { "" } else { "error: " };
            print_error(format_args!("{prefix}{}", message.trim_end()));
            ExitCode::from(bad)
        }
    }
}
