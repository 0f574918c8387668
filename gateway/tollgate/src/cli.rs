//! The command line: the commands and their arguments. The doc comments of [`Cli`] and [`Command`] are the texts that `--help`
//! prints.

mod after_help;
mod args;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

pub use self::args::{DemoArgs, ExplainArgs, HashArgs, TopArgs, TraceArgs};
use crate::build_info;
use crate::remote;

/// An API gateway that takes the lowest toll on each request, and can prove it.
#[derive(Debug, Parser)]
#[command(
    name = "tollgate",
    version = build_info::short_version(),
    long_version = build_info::long_version(),
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "`tollgate demo` starts an example. `tollgate help COMMAND` describes a command in detail.",
    after_long_help = after_help::TOP
)]
pub struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the gateway with a configuration file.
    ///
    /// Runs in the foreground and reports start and stop on standard error. If the access log goes to
    /// `stdout`, standard output carries nothing else.
    #[command(after_long_help = after_help::RUN)]
    Run {
        /// The configuration file (YAML or JSON). Without it: the one that `TOLLGATE_CONFIG` names, else
        /// `./tollgate.yaml`, else `/etc/tollgate/tollgate.yaml`.
        file: Option<PathBuf>,
    },
    /// Run a controller: hand the resources of a file, Kubernetes or etcd to any number of gateways.
    ///
    /// Its file has the section `fleet`; the files of the gateways have the section `controller`. It serves no requests
    /// itself. Runs in the foreground.
    #[command(after_long_help = after_help::CONTROLLER)]
    Controller(remote::ControllerArgs),
    /// Check configuration files: report every problem at once, each with its position.
    ///
    /// Reports what `run` would report, and opens no socket. Also gives hints, which `run` does not repeat.
    #[command(after_long_help = after_help::CHECK)]
    Check {
        /// The configuration files; `-` is standard input. Without one, the file that `run` would find.
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Explain which route takes a request and why the others do not, what is changed, and where it would go.
    ///
    /// The request goes through the same code as in a running gateway. No socket is opened.
    #[command(after_long_help = after_help::EXPLAIN)]
    Explain(ExplainArgs),
    /// Start two small services with the gateway in front of them, and print commands to try.
    ///
    /// Everything listens on this machine only, and is removed when the demo ends.
    #[command(after_long_help = after_help::DEMO)]
    Demo(DemoArgs),
    /// Print what the configuration stores in place of a key or password.
    ///
    /// Reads the key or password from standard input, or asks for it on a terminal. It is not an argument,
    /// since other users of the machine could see it there. Standard output gets exactly the text to paste.
    #[command(after_long_help = after_help::HASH)]
    Hash(HashArgs),
    /// Show the state of a running gateway: version, configuration, listeners, endpoints, last reload.
    #[command(after_long_help = after_help::STATUS)]
    Status(remote::StatusArgs),
    /// Make a running gateway read its file again, and show what changed or why it was rejected.
    ///
    /// Waits until every worker runs the new configuration. SIGHUP does the same, but reports only to the log.
    #[command(after_long_help = after_help::RELOAD)]
    Reload(remote::ReloadArgs),
    /// Stop a running gateway after the requests in flight, and wait until it has ended.
    ///
    /// Does what SIGTERM does. If a service manager would start the gateway again, stop it there instead.
    #[command(after_long_help = after_help::STOP)]
    Stop(remote::StopArgs),
    /// Show what a request costs a running gateway at this moment, and how many more it can carry.
    #[command(after_long_help = after_help::COST)]
    Cost(remote::CostArgs),
    /// Show live figures of a running gateway: requests, errors, latency, toll, routes, endpoints.
    ///
    /// Asks the admin listener once a second. `q` quits, `?` lists the keys. If the output is not a terminal,
    /// it prints one page and ends.
    #[command(after_long_help = after_help::TOP_LIVE)]
    Top(TopArgs),
    /// Follow requests of a running gateway: show for each, step by step, how it was handled.
    ///
    /// Asks the admin listener, with a token of the role `write` if it requires one. Shows requests that end
    /// from now on: connection, route and why it was chosen, policies and verdicts, attempts, what was sent
    /// and received, and how it ended, with times. Values of credentials are never shown. Ctrl-C ends.
    #[command(after_long_help = after_help::TRACE)]
    Trace(TraceArgs),
    /// Show the resources of a running gateway: routes, upstreams, consumers, certificates, policy sets, or
    /// one of them.
    #[command(after_long_help = after_help::GET)]
    Get(remote::GetArgs),
    /// Write a resource of a running gateway, such as a route. It is durable and in force when this returns.
    #[command(after_long_help = after_help::SET)]
    Set(remote::SetArgs),
    /// Remove a resource of a running gateway, such as a route.
    #[command(after_long_help = after_help::DELETE)]
    Delete(remote::DeleteArgs),
    /// Show what a file, or a version, would change in a running gateway.
    #[command(after_long_help = after_help::DIFF)]
    Diff(remote::DiffArgs),
    /// Show who changed what in a running gateway, and when.
    #[command(after_long_help = after_help::HISTORY)]
    History(remote::HistoryArgs),
    /// Restore the store of a running gateway to the state of a version.
    #[command(after_long_help = after_help::ROLLBACK)]
    Rollback(remote::RollbackArgs),
    /// Print the resources of a running gateway in the form of a file.
    #[command(after_long_help = after_help::EXPORT)]
    Export(remote::ExportArgs),
    /// Write the resources of a file to a running gateway: all of them, or none. Or import another gateway's
    /// configuration.
    #[command(after_long_help = after_help::IMPORT)]
    Import(remote::ImportArgs),
    /// Copy the store of a running gateway, on the gateway's machine.
    #[command(after_long_help = after_help::BACKUP)]
    Backup(remote::BackupArgs),
    /// Show or change the levels of a running gateway's own log, until its file is loaded again.
    #[command(after_long_help = after_help::LOG)]
    Log(remote::LogArgs),
    /// Show or purge the stored responses of a running gateway.
    #[command(after_long_help = after_help::CACHE)]
    Cache {
        /// What to do.
        #[command(subcommand)]
        action: remote::CacheCommand,
    },
    /// Measure the toll of this and other gateways, side by side.
    ///
    /// The laboratory is a separate program, `tollgate-lab`, which is looked up next to this one and on PATH.
    /// `tollgate bench --help` lists its commands, also if it is not installed.
    #[command(disable_help_flag = true, disable_version_flag = true, after_long_help = after_help::BENCH)]
    Bench {
        /// Arguments for the laboratory, passed on unchanged.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
    /// Print the JSON Schema of the configuration, with which editors complete and check it.
    #[command(after_long_help = after_help::SCHEMA)]
    Schema,
    /// Print the definition of the resource TollgatePolicy, for a Kubernetes cluster.
    ///
    /// It has every policy of this program. The API server checks policies by it.
    #[command(after_long_help = after_help::CRDS)]
    Crds,
    /// Print every key of the configuration with its meaning, values and default, as Markdown.
    Reference,
    /// Print a shell's completion script.
    #[command(after_long_help = after_help::COMPLETIONS)]
    Completions {
        /// The name of the shell.
        shell: Shell,
    },
    /// Print the manual page of tollgate, or of one of its commands.
    #[command(after_long_help = after_help::MAN)]
    Man {
        /// The command; without it, the page of tollgate itself.
        command: Option<String>,
        /// Write all pages into this directory instead, which must exist.
        #[arg(long, value_name = "DIRECTORY", conflicts_with = "command")]
        all: Option<PathBuf>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }
}
