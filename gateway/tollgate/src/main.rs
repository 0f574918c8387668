//! The gateway's binary: command line, start, signals, reload, drain. The only place that wires the parts.

mod check;
mod cli;
mod compiled;
mod control;
mod demo;
mod explain;
mod gateway;
mod pages;
mod print;
mod run;
mod startup;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run { file } => run::run(&file),
        Command::Check { files } => check::check(&files),
        Command::Explain(question) => explain::explain(&question),
        Command::Demo(addresses) => demo::demo(&addresses),
        Command::Schema => pages::schema(),
        Command::Reference => pages::reference(),
        Command::Completions { shell } => pages::completions(shell),
        Command::Man { command } => pages::man(command.as_deref()),
    }
}
