//! The gateway's program: command line, start, signals, reload, drain. Only this crate connects the other
//! ones.
//!
//! It is a library so that authors of [plugins](plugin) can build a program that contains them, with a `main`
//! that only calls [`run_with`]. The binary `tollgate` is that program without plugins.

#![deny(clippy::print_stderr)]

mod access;
mod admin;
mod admin_client;
mod admin_context;
mod admin_routes;
mod api;
mod apisix;
mod bench;
mod blocking_files;
mod build_info;
mod check;
mod cli;
mod config_path;
mod control;
mod controller;
mod demo;
mod diagnostics;
mod documents;
mod endpoint_discovery;
mod etcd;
mod explain;
mod file_watch;
mod files;
mod fleet;
mod fleet_purges;
mod gateway;
mod hash;
mod help;
mod ingress_nginx;
mod job_context;
mod kubernetes;
mod listeners;
mod live;
mod live_lists;
mod load;
mod low_priority;
mod operation;
mod overload;
mod pages;
pub mod plugin;
mod plural;
mod print;
mod purge_request;
mod reload;
mod remote;
mod roll_out;
mod run;
mod sampler;
mod signals;
mod source_reader;
mod startup;
mod stop;
mod systemd;
mod takeover;
mod time;
mod top;
mod trace;
mod upgrade;
mod workers;

use std::process::ExitCode;

use tollgate_policy::{Plugin, Plugins};

use cli::Command;
use print::print_error;
use remote::ImportFrom;
use run::Role;

/// The allocator. A burst of connections fragments glibc's heap: after 5,000 had opened and closed, the
/// process kept 2.7 times its memory, with mimalloc 1.3 times, with jemalloc 1.1 times. An idle connection
/// costs 1.0, 1.5 and 0.7 KiB. (`.cargo/config.toml` has jemalloc's settings.) A program with plugins gets
/// the allocator by linking this library.
#[cfg(not(without_jemalloc))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Runs the program with these plugins, from its command line to its exit code. `main` should do nothing
/// else.
#[must_use]
pub fn run_with(plugins: Vec<Box<dyn Plugin>>) -> ExitCode {
    diagnostics::install();
    // Before anything is read: the set of policies and plugins is a property of the program.
    tollgate_policy::register();
    if let Err(error) = Plugins::new(plugins).and_then(Plugins::install) {
        print_error(format_args!("error: {error}"));
        return ExitCode::FAILURE;
    }
    for installed in Plugins::installed().all() {
        tollgate_config::register_plugin_secrets(installed.plugin().name(), installed.plugin().secrets());
    }
    let code = match help::parse() {
        Ok(line) => run_command(line.command),
        Err(code) => code,
    };
    diagnostics::flush();
    code
}

fn run_command(command: Command) -> ExitCode {
    match command {
        Command::Run { file } => run::run(file.as_deref(), Role::Gateway),
        Command::Controller(args) => match &args.action {
            Some(action) => remote::run(remote::controller(action), 1),
            None => run::run(args.file.as_deref(), Role::Controller),
        },
        Command::Check { files } => check::check(&files),
        Command::Explain(question) => explain::explain(&question),
        Command::Hash(args) => hash::hash(&args),
        Command::Status(args) => remote::run(remote::status(&args), 1),
        Command::Reload(args) => remote::run(remote::reload(&args), 1),
        Command::Stop(args) => remote::run(remote::stop(&args), 1),
        Command::Cost(args) => remote::run(remote::cost(&args), 1),
        Command::Demo(addresses) => demo::demo(&addresses),
        Command::Top(watched) => top::top(&watched),
        Command::Trace(args) => trace::trace(&args),
        Command::Get(args) => remote::run(remote::get(&args), 1),
        Command::Set(args) => remote::run(remote::set(&args), 1),
        Command::Delete(args) => remote::run(remote::delete(&args), 1),
        // Exit code 1 means a difference, as with diff(1).
        Command::Diff(args) => remote::run(remote::diff(&args), 2),
        Command::History(args) => remote::run(remote::history(&args), 1),
        Command::Rollback(args) => remote::run(remote::rollback(&args), 1),
        Command::Export(args) => remote::run(remote::export(&args), 1),
        Command::Import(args) => match &args.from {
            Some(ImportFrom::IngressNginx(args)) => ingress_nginx::ingress_nginx(args),
            None => remote::run(remote::import(&args), 1),
        },
        Command::Backup(args) => remote::run(remote::backup(&args), 1),
        Command::Log(args) => remote::run(remote::log(&args), 1),
        Command::Cache { action } => remote::run(remote::cache(&action), 1),
        Command::Bench { arguments } => bench::bench(&arguments),
        Command::Schema => pages::schema(),
        Command::Crds => pages::crds(),
        Command::Reference => pages::reference(),
        Command::Completions { shell } => pages::completions(shell),
        Command::Man { all: Some(directory), .. } => pages::all_man_pages(&directory),
        Command::Man { command, all: None } => pages::man(command.as_deref()),
    }
}
