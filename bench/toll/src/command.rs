//! The command line.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Measures what a gateway costs, beside nginx and HAProxy, on equal terms.
#[derive(Debug, Parser)]
#[command(name = "tollgate-bench", version)]
pub struct CommandLine {
    /// What to do.
    #[command(subcommand)]
    pub action: Action,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Three cells: bodies of 2 bytes over 1, 64 and 256 connections (under 3 minutes).
    Plain(Options),
    /// All cells, memory of idle connections, and bodies of 1 GiB (about 20 minutes).
    Full(Options),
    /// Install nginx, haproxy, h2load and wrk with apt-get where they are missing.
    Install,
    /// Draw the picture of a results file.
    Plot {
        /// A file written with --json.
        results: PathBuf,
        /// Where to write the SVG.
        #[arg(long, default_value = "docs/toll.svg")]
        svg: PathBuf,
    },
}

/// How to run.
#[derive(Debug, Args)]
pub struct Options {
    /// Rounds a cell; every target is measured once a round [default: 5, full: 7].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=101))]
    pub rounds: Option<u16>,
    /// Seconds a measurement [default: 2.2, full: 3].
    #[arg(long, value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Only these cells, comma-separated; also `idle` and `transfer`.
    #[arg(long)]
    pub cells: Option<String>,
    /// Write all measurements to this file.
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Draw the result to this file.
    #[arg(long)]
    pub svg: Option<PathBuf>,
    /// The gateway to measure.
    #[arg(long, default_value = "target/release/tollgate")]
    pub gateway: PathBuf,
    /// Begin the connections spread over h2load's 10 ms timer instead of all at once: even arrivals, not bursts.
    #[arg(long)]
    pub spread: bool,
    /// Give nginx larger buffers than its defaults, which spares it system calls on large bodies.
    #[arg(long)]
    pub tuned_nginx: bool,
}

/// A measurement shorter than half a second says nothing, one longer than ten minutes is a mistake.
fn seconds(text: &str) -> Result<f64, String> {
    text.parse::<f64>()
        .ok()
        .filter(|value| (0.5..=600.0).contains(value))
        .ok_or_else(|| "a number of seconds from 0.5 to 600".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn options_are_read_and_bounded() {
        let read = |words: &[&str]| CommandLine::try_parse_from([&["tollgate-bench"], words].concat());
        let Ok(CommandLine { action: Action::Full(options) }) =
            read(&["full", "--rounds", "3", "--seconds", "1.5"])
        else {
            panic!("not read");
        };
        assert_eq!((options.rounds, options.seconds), (Some(3), Some(1.5)));
        assert!(read(&["plain", "--seconds", "0"]).is_err());
        assert!(read(&["plain", "--rounds", "0"]).is_err());
    }
}
