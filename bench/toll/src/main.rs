//! Runs gateway, nginx and HAProxy interleaved on equal terms and prints the toll of each.
//!
//! The way of a run: [`command`] says what is wanted, [`machine`] what there is; [`target`] starts a server with a
//! file from [`configs`]; [`trial`] lets targets take turns under a [`load`] while [`meter`] reads what they used;
//! [`result`] keeps it, [`stats`] condenses it; [`report`], [`record`] and [`mod@plot`] show it.

mod cells;
mod child;
mod command;
mod configs;
mod failure;
mod http;
mod idle;
mod install;
mod load;
mod machine;
mod meter;
mod plot;
mod record;
mod report;
mod result;
mod session;
mod stats;
mod target;
mod transfer;
mod trial;

use clap::Parser;
use command::{Action, CommandLine};
use failure::Failure;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let done = match CommandLine::parse().action {
        Action::Plain(options) => session::run(session::Extent::Plain, &options),
        Action::Full(options) => session::run(session::Extent::Full, &options),
        Action::Install => install::run().and_then(|said| print(&format!("{said}\n"))),
        Action::Plot { results, svg } => plot(&results, &svg),
    };
    child::wait_if_ending();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("tollgate-bench: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Writes to standard output, at once, so that a reader of a long run sees each cell when it is done.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::System("standard output".into(), error))
}

fn plot(results: &Path, svg: &Path) -> Result<(), Failure> {
    let text = fs::read_to_string(results).map_err(|error| Failure::file(results, error))?;
    let value = serde_json::from_str(&text)
        .map_err(|error| Failure::Lacking(format!("{}: not a results file: {error}", results.display())))?;
    let picture = plot::draw(&value)
        .ok_or_else(|| Failure::Lacking(format!("{}: no measured cell to draw", results.display())))?;
    fs::write(svg, picture).map_err(|error| Failure::file(svg, error))
}
