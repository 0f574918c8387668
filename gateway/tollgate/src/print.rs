//! Prints the results of commands on standard output, and their errors on standard error.

use std::fmt::Arguments;
use std::io::{self, Write};
use std::process::ExitCode;

/// Prints a line on standard error: why a command fails.
pub fn print_error(line: Arguments<'_>) {
    print_error_text(&format!("{line}\n"));
}

/// Prints a text on standard error, in one call if possible, so that lines of two processes do not mix. The
/// part that cannot be written is lost; `eprintln!` would panic.
pub fn print_error_text(text: &str) {
    // No channel remains on which to report the error.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Returns whether the user accepts colours on a terminal (<https://no-color.org>).
pub fn can_show_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none()
}

/// Prints a result and returns `code`. A reader that closes the pipe early (`tollgate schema | head`) is not
/// a failure; any other error is.
pub fn print(text: &str, code: ExitCode) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => code,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => code,
        Err(error) => {
            print_error(format_args!("error: cannot write to standard output: {error}"));
            ExitCode::FAILURE
        }
    }
}
