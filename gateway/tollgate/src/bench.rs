//! `tollgate bench`: starts the laboratory. It is a separate program, so that the gateway contains none of
//! it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::print::{print, print_error};

/// The file name of the laboratory's program.
const LAB: &str = "tollgate-lab";

/// How to get the laboratory.
const INSTALL: &str = "In Tollgate's source tree, `cargo build --release -p tollgate-lab` builds it. \
    Copy `tollgate-lab` next to `tollgate`, or into a folder of PATH.";

/// The help of `tollgate bench` without the laboratory. A test compares the commands with its own help.
const HELP: &str = "\
Measure the toll of any gateway, side by side

Usage: tollgate bench <COMMAND>

Commands:
  run        Run a study and print its report
  studies    List the studies, with how long each takes here
  systems    List the systems: ready, installable, or missing with the reason
  install    Install a system or a load tool
  tools      List the load tools: ready, or how to get them
  report     Write the report of a result file
  compare    Compare two result files of one study
  gate       Fail (exit status 1) if a cost has certainly grown beyond the allowance
  capacity   Compute the cores that a rate needs, for each system of a result file
  schema     Print the JSON Schema of a line of a result file
  load       Run the built-in generator with a plan in JSON from a file
";

/// Replaces this process by the laboratory. Returns only if it cannot be started.
pub fn bench(arguments: &[OsString]) -> ExitCode {
    let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join(LAB)));
    let program = beside.filter(|file| file.is_file()).unwrap_or_else(|| PathBuf::from(LAB));
    let error = Command::new(&program).args(arguments).exec();
    if asks_for_help(arguments) {
        let missing =
            format!("These commands need the laboratory, the program `{LAB}`, which is not installed.");
        return print(&format!("{HELP}\n{missing}\n{INSTALL}\n"), ExitCode::SUCCESS);
    }
    print_error(format_args!(
        "error: the laboratory `{LAB}` was found neither beside this program nor on PATH ({error}). {INSTALL}"
    ));
    ExitCode::FAILURE
}

/// Returns whether the arguments ask for help.
fn asks_for_help(arguments: &[OsString]) -> bool {
    arguments.first().is_some_and(|first| first == "help")
        || arguments.iter().any(|argument| argument == "--help" || argument == "-h")
}
