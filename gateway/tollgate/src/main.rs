//! The gateway's binary: command line, start, signals, reload, drain. The only place that wires the parts.
#![allow(clippy::print_stdout, reason = "a command line's answers go to standard output")]

mod check;
mod cli;
mod compiled;
mod control;
mod gateway;
mod run;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run { file } => run::run(&file),
        Command::Check { file } => check::check(&file),
    }
}
