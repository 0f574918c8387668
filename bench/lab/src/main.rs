//! `tollgate bench`: the laboratory.
//!
//! [`command`] is the command line; [`data`] finds the descriptions of systems and studies. [`study`] runs a study,
//! [`cluster`] moves it into a Kubernetes cluster, and [`agent`] serves one on another host; [`lists`] lists systems,
//! tools and studies and installs them; [`reports`] turns result files into reports and answers. [`load`] runs the
//! generator, for people and as a study's child process; [`parts`] are the origin, forwarder, relay and the generator
//! at an agent, which are child processes only.

/// Writes a line to standard error. If the reader has closed it (`2>&1 | head`), the measurement continues.
macro_rules! say {
    ($($arguments:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($arguments)*);
    }};
}

mod agent;
mod cluster;
mod command;
mod data;
mod lists;
mod load;
mod parts;
mod progress;
mod reports;
mod study;

use clap::{CommandFactory, FromArgMatches};
use command::{Action, CommandLine};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let matches = CommandLine::command().get_matches();
    let line = CommandLine::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let data = || data::folder(line.data.as_deref());
    let done = match &line.action {
        Action::Run(options) => data().and_then(|data| study::run(&data, options)),
        Action::Cores { cores, sys } => lists::cores(cores, sys.as_deref()),
        Action::Studies => data().and_then(|data| lists::studies(&data)),
        Action::Systems => data().and_then(|data| lists::systems(&data)),
        Action::Install { names } => data().and_then(|data| lists::install(&data, names)),
        Action::Tools => lists::tools(),
        Action::Report { file, with, commentary, pages } => {
            reports::report(file, with, commentary.as_deref(), pages)
        }
        Action::Compare { before, after, reference } => reports::compare(before, after, reference.as_deref()),
        Action::Gate { file, baseline, allow, systems, reference } => {
            match reports::gate(file, baseline, *allow, systems, reference.as_deref()) {
                Ok(code) => return code,
                // Exit status 1 means that the gate failed.
                Err(text) => {
                    say!("tollgate bench: {text}");
                    return ExitCode::from(2);
                }
            }
        }
        Action::Capacity { from, rps, utilisation, cell } => {
            reports::capacity(from, *rps, *utilisation, cell.as_deref())
        }
        Action::Schema => print(&format!("{:#}\n", tollgate_lab_record::schema())),
        Action::Load(options) => {
            let given = |name: &str| matches.subcommand().and_then(|(_, load)| load.value_source(name));
            match load::load(options, given) {
                Ok(code) => return code,
                Err(text) => Err(text),
            }
        }
        Action::LoadAt { agent, key, plan } => parts::load_at(agent, key, plan),
        Action::KubernetesJob(options) => data().and_then(|data| cluster::print_job(&data, options)),
        Action::Agent(options) => agent::run(options, &data),
        Action::Origin { settings } => parts::origin(settings),
        Action::Forward { listen, to, threads } => parts::forward(*listen, *to, *threads),
        Action::Relay { settings } => parts::relay(settings),
    };
    tollgate_lab_meter::child::wait_if_ending();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            say!("tollgate bench: {text}");
            ExitCode::FAILURE
        }
    }
}

/// Writes to standard output and flushes. If the reader has closed it (`| head`), the rest is not written, and the
/// command keeps its exit status: a failing gate must not pass because the reader stopped reading.
fn print(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|error| format!("standard output: {error}")),
    }
}
