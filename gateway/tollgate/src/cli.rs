//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// An API gateway that takes the lowest toll on each request, and can prove it.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the gateway with a config file.
    Run {
        /// The config file (YAML).
        file: PathBuf,
    },
    /// Check a config file: every problem at once. Exit status 0 if it is good, 1 if not.
    Check {
        /// The config file (YAML).
        file: PathBuf,
    },
}
