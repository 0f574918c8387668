//! Prints the results of commands on standard output.

use std::io::{self, Write};
use std::process::ExitCode;

use tollgate_net::notice;

/// Prints a result and returns `code`. A reader that closes the pipe early (`tollgate schema | head`) is not
/// a failure; any other error is.
pub fn print(text: &str, code: ExitCode) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => code,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => code,
        Err(error) => {
            notice!("error: cannot write to standard output: {error}");
            ExitCode::FAILURE
        }
    }
}
