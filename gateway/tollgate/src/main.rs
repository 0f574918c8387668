//! The gateway's binary, without plugins. What it does is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    tollgate::run_with(Vec::new())
}
