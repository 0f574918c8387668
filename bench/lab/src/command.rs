//! The command line of `tollgate bench`, parsed by clap. The doc comments of its types are the help texts.
//! Rates (`3M`), shares (`60%`), seconds and rounds are checked here, so that a bad value is refused before
//! anything starts.

use crate::load::LoadOptions;
use clap::{Args, Parser, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;
use tollgate_lab_study::{AGENT_PORT, CoreList, Cores};

/// Measure the toll of any gateway, side by side.
#[derive(Debug, Parser)]
#[command(name = "tollgate bench", bin_name = "tollgate bench", version, max_term_width = 100)]
pub struct CommandLine {
    /// The command.
    #[command(subcommand)]
    pub action: Action,
    /// Folder with `systems` and `studies` [default: the project's `bench`, found from the current folder or
    /// from the program].
    #[arg(long, global = true, env = "TOLLGATE_BENCH_DATA", value_name = "FOLDER")]
    pub data: Option<PathBuf>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Run a study and print its report.
    Run(Box<RunOptions>),
    /// Print which cores the system under test, the origin and the load get.
    Cores {
        /// The cores of some roles, such as `target=0-7`; the others are chosen.
        #[arg(long, value_name = "ROLES", value_parser = cores, default_value = "", hide_default_value = true)]
        cores: Cores,
        /// A copy of another machine's `/sys/devices/system`, to plan for it.
        #[arg(long, value_name = "FOLDER")]
        sys: Option<PathBuf>,
    },
    /// List the studies, with how long each takes here.
    Studies,
    /// List the systems: ready, installable, or missing with the reason.
    Systems,
    /// Install a system or a load tool.
    Install {
        /// Names as `systems` and `tools` list them.
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// List the load tools: ready, or how to get them.
    Tools,
    /// Print the report of a result file, or write it to files.
    Report {
        /// Result file (JSON Lines).
        file: PathBuf,
        /// A further result file whose cells the picture of `--svg` shows too; may be repeated.
        #[arg(long, value_name = "FILE", requires = "svg")]
        with: Vec<PathBuf>,
        /// What you learned from this run, in Markdown, for the head of the report. The first line names the run
        /// by its start, as the result file has it: `Run: 2026-11-27T10:00:00Z`.
        #[arg(long, value_name = "FILE")]
        commentary: Option<PathBuf>,
        /// Files to write instead of printing the report.
        #[command(flatten)]
        pages: Pages,
    },
    /// Compare two result files of one study.
    Compare {
        /// The earlier result file.
        before: PathBuf,
        /// The later result file.
        after: PathBuf,
        /// The system of both files that stands for the machine: changes are measured against it [default:
        /// the study's baseline].
        #[arg(long, value_name = "SYSTEM")]
        reference: Option<String>,
    },
    /// Fail (exit status 1) if a cost has certainly grown beyond the allowance (its whole interval lies above
    /// it), or if a cell of the baseline has no figures any more.
    ///
    /// Exit status 2: nothing could be compared, or a file cannot be read.
    Gate {
        /// The new result file.
        file: PathBuf,
        /// The result file to compare it with.
        #[arg(long, value_name = "FILE")]
        baseline: PathBuf,
        /// The allowed growth, such as `3%`.
        #[arg(long, default_value = "3%", value_parser = share)]
        allow: f64,
        /// Systems to check (comma-separated) [default: all].
        #[arg(long, value_delimiter = ',')]
        systems: Vec<String>,
        /// The system of both files that stands for the machine: changes are measured against it [default:
        /// the study's baseline, or another one that is not checked].
        #[arg(long, value_name = "SYSTEM")]
        reference: Option<String>,
    },
    /// Compute the cores that a rate needs, for each system of a result file.
    Capacity {
        /// Result file.
        #[arg(long, value_name = "FILE")]
        from: PathBuf,
        /// Requests per second, such as `3M` or `250k`.
        #[arg(long, value_parser = rate)]
        rps: f64,
        /// Share of the cores that may be busy, such as `60%`.
        #[arg(long, default_value = "60%", value_parser = share)]
        utilisation: f64,
        /// The cell whose cost is used [default: the cell of the decision table].
        #[arg(long)]
        cell: Option<String>,
    },
    /// Print the JSON Schema of a line of a result file.
    Schema,
    /// Load a URL and show what comes back, or run a plan from a file.
    #[command(after_help = LOAD_HELP)]
    Load(Box<LoadOptions>),
    /// Run the built-in generator at an agent.
    #[command(hide = true)]
    LoadAt {
        /// The agent's address and port.
        agent: String,
        /// The shared key.
        key: PathBuf,
        /// The plan.
        plan: PathBuf,
    },
    /// Serve studies whose roles run on several hosts: start systems, origins and the load here.
    #[command(after_help = AGENT_HELP)]
    Agent(AgentOptions),
    /// Print the manifest of a Job that runs a study inside a Kubernetes cluster.
    KubernetesJob(JobOptions),
    /// Run the built-in origin with settings in JSON from a file.
    #[command(hide = true)]
    Origin {
        /// The settings.
        settings: PathBuf,
    },
    /// Run the minimal proxy: copy bytes without parsing them.
    #[command(hide = true)]
    Forward {
        /// The address for clients.
        listen: SocketAddr,
        /// The address that it connects to for each client.
        to: SocketAddr,
        /// Threads.
        #[arg(long, default_value_t = 1)]
        threads: u32,
    },
    /// Run a slow link with settings in JSON from a file.
    #[command(hide = true)]
    Relay {
        /// The settings.
        settings: PathBuf,
    },
}

const LOAD_HELP: &str = r#"A target with :// is a URL, every other one is the file of a plan in JSON.

  tollgate bench load http://127.0.0.1:8080/ --rate 5k --duration 30s --fail-if 'p99>10ms'
  tollgate bench load https://example.com/ --http2 --find-rate 'p99<50ms'
  tollgate bench load http://127.0.0.1:8080/ --replay access.log --speed 2

The smallest plan is {"target": "127.0.0.1:8080"}: one connection, as fast as answers come, for ten seconds.
A constant rate: {"target": "127.0.0.1:8080", "connections": 64, "model": {"kind": "constant", "rps": 5000}}.
The result of a plan is JSON on standard output, after the lines `measuring` and `measured`.

Exit status: 0 done, 1 the load could not be run, 2 misuse, 3 a condition of --fail-if holds."#;

const AGENT_HELP: &str = "Both ends present the key's certificate and accept no other. Whoever has the key can start \
the systems of the catalogue here.";

/// The options of `agent`.
#[derive(Debug, Args)]
pub struct AgentOptions {
    /// Create the key that all hosts share, in this new file, and exit.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "listen", "cores"])]
    pub new_key: Option<PathBuf>,
    /// The key that all hosts share.
    #[arg(long, value_name = "FILE", required_unless_present = "new_key")]
    pub key: Option<PathBuf>,
    /// The address to listen on.
    #[arg(long, value_name = "ADDRESS", default_value_t = SocketAddr::from(([0, 0, 0, 0], AGENT_PORT)))]
    pub listen: SocketAddr,
    /// The cores that it may use [default: those of this process].
    #[arg(long, value_name = "LIST")]
    pub cores: Option<CoreList>,
    /// The gateway's binary [default: `tollgate` in the folder of this program].
    #[arg(long, value_name = "FILE")]
    pub gateway: Option<PathBuf>,
    /// Where the control groups of this node are mounted, to read the CPU time of pods.
    #[arg(long, value_name = "FOLDER", default_value = "/sys/fs/cgroup")]
    pub cgroup_root: PathBuf,
}

/// The options of `kubernetes-job`.
#[derive(Debug, Args)]
pub struct JobOptions {
    /// The study's name, or a file of your own.
    pub study: String,
    /// The image with the laboratory [default: the study's].
    #[arg(long)]
    pub image: Option<String>,
    /// The namespace of the Job, which exists.
    #[arg(long, default_value = "default")]
    pub namespace: String,
    /// A PersistentVolumeClaim for the result file [default: it is in the Job's log only].
    #[arg(long, value_name = "NAME")]
    pub claim: Option<String>,
    /// Options of `run`, after `--`.
    #[arg(last = true)]
    pub options: Vec<String>,
}

/// The options of `run`.
#[derive(Debug, Args)]
pub struct RunOptions {
    /// The study's name, or a file of your own.
    pub study: String,
    /// Result file (JSON Lines) [default: `tollgate-bench/STUDY.jsonl`]. An unfinished file of the same study
    /// is continued; see `--fresh`.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Start over instead of continuing the result file.
    #[arg(long)]
    pub fresh: bool,
    /// The longest trial, in seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// The most rounds.
    #[arg(long, value_parser = rounds)]
    pub rounds: Option<u32>,
    /// Only these systems (comma-separated).
    #[arg(long, value_delimiter = ',')]
    pub systems: Vec<String>,
    /// Only sections whose title contains one of these (comma-separated).
    #[arg(long, value_delimiter = ',')]
    pub sections: Vec<String>,
    /// Fix the order of the trials and every other random choice.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The cores of the roles, such as `target=0-7,origin=8-11,load=12-15`. Roles that are left out are as in
    /// the study, or chosen by proportion: see `cores`.
    #[arg(long, value_name = "ROLES", value_parser = cores)]
    pub cores: Option<Cores>,
    /// The key that the hosts of the study share, see `agent`.
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Run the roles as pods in the cluster of `kubectl`, as the study's `kubernetes` says.
    #[arg(long, conflicts_with_all = ["key", "gateway"])]
    pub kubernetes: bool,
    /// The image of these pods, with the laboratory's programs and the systems [default: the study's].
    #[arg(long, requires = "kubernetes")]
    pub image: Option<String>,
    /// Print the lines of the result file after the report, for a log that is all that remains.
    #[arg(long)]
    pub print_results: bool,
    /// The gateway's binary [default: `tollgate` in the folder of this program].
    #[arg(long, value_name = "FILE")]
    pub gateway: Option<PathBuf>,
    /// Files to write in addition to printing the report.
    #[command(flatten)]
    pub pages: Pages,
    /// Only print what would be measured and how long it takes.
    #[arg(long)]
    pub dry_run: bool,
}

/// The formats in which a report can be written.
#[derive(Debug, Default, Args)]
pub struct Pages {
    /// Write the report as one self-contained page.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the report as Markdown.
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Write a picture: the CPU time for each request of Tollgate, nginx, HAProxy and Envoy in each cell.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write a condensed result file: the figures without the rounds, from which the same report can be made.
    #[arg(long, value_name = "FILE")]
    pub condensed: Option<PathBuf>,
}

impl Pages {
    /// Returns whether no format was requested.
    pub fn is_empty(&self) -> bool {
        self.html.is_none() && self.markdown.is_none() && self.svg.is_none() && self.condensed.is_none()
    }
}

/// Parses a rate: `3M`, `250k`, `12000`.
fn rate(text: &str) -> Result<f64, String> {
    let (number, factor) = match text.trim().char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1e3),
        Some((at, 'M')) => (&text[..at], 1e6),
        _ => (text, 1.0),
    };
    number
        .trim()
        .parse::<f64>()
        .ok()
        .map(|number| number * factor)
        .filter(|rate| rate.is_finite() && *rate > 0.0)
        .ok_or_else(|| "expected requests a second, such as 3M, 250k or 12000".into())
}

/// Parses the cores of the roles; an empty text leaves every choice to the laboratory.
fn cores(text: &str) -> Result<Cores, String> {
    if text.is_empty() { Ok(Cores::default()) } else { text.parse() }
}

/// Parses the seconds of a trial.
fn seconds(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|seconds: &f64| seconds.is_finite() && *seconds > 0.0)
        .ok_or_else(|| "expected seconds above 0, such as 5 or 0.5".into())
}

/// Parses the rounds of a cell.
fn rounds(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|rounds| *rounds > 0).ok_or_else(|| "expected a whole number from 1 up".into())
}

/// Parses a share: `60%` or `0.6`.
fn share(text: &str) -> Result<f64, String> {
    let (number, factor) = text.trim().strip_suffix('%').map_or((text, 1.0), |number| (number, 0.01));
    number
        .trim()
        .parse::<f64>()
        .ok()
        .map(|number| number * factor)
        .filter(|share| (0.0..=10.0).contains(share))
        .ok_or_else(|| "expected a share, such as 60% or 0.6".into())
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
    fn rates_and_shares() {
        assert_eq!(rate("3M"), Ok(3e6));
        assert_eq!(rate("250k"), Ok(250e3));
        assert_eq!(rate("12000"), Ok(12_000.0));
        assert!(rate("3G").is_err() && rate("").is_err() && rate("-1").is_err());
        assert_eq!(share("60%"), Ok(0.6));
        assert_eq!(share("0.03"), Ok(0.03));
        assert!(share("much").is_err());
        assert_eq!((seconds("0.5"), rounds("3")), (Ok(0.5), Ok(3)));
        assert!(
            ["0", "-1", "NaN", "inf", ""].iter().all(|text| seconds(text).is_err() && rounds(text).is_err())
        );
    }
}
