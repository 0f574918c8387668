//! The gateway's binary, without plugins. The library of this package does the work.

use std::process::ExitCode;

fn main() -> ExitCode {
    tollgate::run_with(Vec::new())
}
