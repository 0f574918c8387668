//! The command line of each command.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::client::Remote;

/// How an answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Text,
    /// The answer as JSON.
    Json,
    /// The answer as YAML.
    Yaml,
}

/// What to show.
#[derive(Clone, Debug, Args)]
pub struct Get {
    /// `routes`, `upstreams`, `consumers`, `certificates` or `policies`, or one of them: `routes/hello`. Left out: what runs.
    #[arg(value_name = "KIND[/NAME]")]
    pub what: Option<String>,
    /// The name, if it does not stand behind the kind.
    pub name: Option<String>,
    /// Only those that hold this text anywhere.
    #[arg(long, value_name = "TEXT")]
    pub search: Option<String>,
    /// Only those of the file, or of the store.
    #[arg(long, value_parser = ["file", "store"])]
    pub source: Option<String>,
    /// How it is printed: one resource is YAML unless this says otherwise, a list a table.
    #[arg(short, long, value_name = "FORM")]
    pub output: Option<Output>,
    /// Whom to ask.
    #[command(flatten)]
    pub remote: Remote,
}

/// What to write.
#[derive(Clone, Debug, Args)]
pub struct Set {
    /// The resource: `routes/hello`, `upstreams/shop`, `consumers/alice`.
    #[arg(value_name = "KIND/NAME")]
    pub what: String,
    /// What it is to be, in YAML or JSON: what would stand in the file, without the name.
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    pub value: Option<String>,
    /// The file that has it; `-` is standard input.
    #[arg(short, long)]
    pub file: Option<PathBuf>,
    /// Merge it into what is there (RFC 7396): `null` takes a key away.
    #[arg(long)]
    pub merge: bool,
    /// How it is made.
    #[command(flatten)]
    pub change: Change,
}

/// What to remove.
#[derive(Clone, Debug, Args)]
pub struct Delete {
    /// The resource: `routes/hello`.
    #[arg(value_name = "KIND/NAME")]
    pub what: String,
    /// How it is made.
    #[command(flatten)]
    pub change: Change,
}

/// How a change of one resource is made.
#[derive(Clone, Debug, Args)]
pub struct Change {
    /// Only if this version changed it last: `tollgate get KIND` lists versions.
    #[arg(long, value_name = "VERSION", conflicts_with = "if_new")]
    pub if_version: Option<u64>,
    /// Only if there is none of the name.
    #[arg(long)]
    pub if_new: bool,
    /// Whether and how.
    #[command(flatten)]
    pub how: How,
}

/// Whether it is done, how it is told, and whom to ask.
#[derive(Clone, Debug, Args)]
pub struct How {
    /// Only say what would be.
    #[arg(long)]
    pub dry_run: bool,
    /// How the answer is printed.
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub output: Output,
    /// Whom to ask.
    #[command(flatten)]
    pub remote: Remote,
}

/// What to write out.
#[derive(Clone, Debug, Args)]
pub struct Export {
    /// Only what the store has, and not what the gateway's file has.
    #[arg(long)]
    pub stored: bool,
    /// `yaml` or `json`.
    #[arg(short, long, value_name = "FORM", default_value = "yaml")]
    pub output: Output,
    /// Whom to ask.
    #[command(flatten)]
    pub remote: Remote,
}

/// What to read in.
#[derive(Clone, Debug, Args)]
pub struct Import {
    /// A file with resources, as `export` writes it; `-` is standard input.
    pub file: PathBuf,
    /// Remove what the store has and the file has not.
    #[arg(long)]
    pub prune: bool,
    /// Whether and how.
    #[command(flatten)]
    pub how: How,
}

/// What to compare.
#[derive(Clone, Debug, Args)]
pub struct Diff {
    /// A file with resources, as `export` writes it; `-` is standard input. Or the number of a version.
    #[arg(value_name = "FILE|VERSION")]
    pub with: PathBuf,
    /// Show as removed what the store has and the file has not.
    #[arg(long)]
    pub prune: bool,
    /// How the answer is printed.
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub output: Output,
    /// Whom to ask.
    #[command(flatten)]
    pub remote: Remote,
}

/// Which versions to show.
#[derive(Clone, Debug, Args)]
pub struct History {
    /// One version, with what it changed.
    #[arg(id = "at", value_name = "VERSION")]
    pub version: Option<u64>,
    /// At most so many, the newest first.
    #[arg(long, default_value_t = 20)]
    pub limit: u32,
    /// Versions before this one.
    #[arg(long, value_name = "VERSION")]
    pub before: Option<u64>,
    /// How it is printed.
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub output: Output,
    /// Whom to ask.
    #[command(flatten)]
    pub remote: Remote,
}

/// Where to go back to.
#[derive(Clone, Debug, Args)]
pub struct Rollback {
    /// The version; 0 is the empty store.
    #[arg(id = "to", value_name = "VERSION")]
    pub version: u64,
    /// Whether and how.
    #[command(flatten)]
    pub how: How,
}

/// Where the copy goes.
#[derive(Clone, Debug, Args)]
pub struct Backup {
    /// A file that is not there yet, on the gateway's machine.
    pub to: PathBuf,
    /// Whom to ask.
    #[command(flatten)]
    pub remote: Remote,
}
