//! `tollgate bench`: starts the laboratory. It is a separate program, so that the gateway contains none of
//! it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::print::print_error;

/// The file name of the laboratory's program.
const LAB: &str = "tollgate-lab";

/// Replaces this process by the laboratory. Returns only if it cannot be started.
pub fn bench(arguments: &[OsString]) -> ExitCode {
    let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join(LAB)));
    let program = beside.filter(|file| file.is_file()).unwrap_or_else(|| PathBuf::from(LAB));
    let error = Command::new(&program).args(arguments).exec();
    print_error(format_args!(
        "tollgate: the laboratory `{LAB}` was found neither beside this program nor on PATH ({error}). \
         To build it: cargo build --release -p tollgate-lab"
    ));
    ExitCode::FAILURE
}
