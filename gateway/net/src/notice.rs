//! Lines for people on the standard error.
//!
//! Not by `eprintln!`, which panics when its line cannot be written: a gateway goes on where the reader of its notices has
//! ended (`2>&1 | logger`) or the disk with their file is full. Crates that tell people something while requests pass
//! deny `clippy::print_stderr`.

use std::fmt::Arguments;
use std::io::{self, Write};

/// Writes a line on the standard error; arguments as of [`format!`]. One that cannot be written is lost.
#[macro_export]
macro_rules! notice {
    ($($text:tt)*) => {
        $crate::write_notice(format_args!($($text)*))
    };
}

/// Writes a line on the standard error, for [`notice!`].
pub fn write_notice(line: Arguments<'_>) {
    write_error(&format!("{line}\n"));
}

/// Writes a text on the standard error in one call where that can be, so that lines of two threads or processes do not
/// mix. What cannot be written is lost.
pub fn write_error(text: &str) {
    // There is nobody left who could be told.
    let _ = io::stderr().write_all(text.as_bytes());
}
