//! Implements `tollgate bench agent`: serves the roles of studies on this host.

use crate::command::AgentOptions;
use crate::lists::catalogue;
use std::net::TcpListener;
use std::path::PathBuf;
use tollgate_lab_meter::child::stop_all_on_signal;
use tollgate_lab_meter::machine::{Roles, Topology};
use tollgate_lab_tools::ToolPaths;
use tollgate_lab_trial::agent::{Identity, serve};
use tollgate_lab_trial::{Environment, Failure};

/// Creates the shared key, or serves until a signal ends the program.
pub fn run(options: &AgentOptions, data: &dyn Fn() -> Result<PathBuf, String>) -> Result<(), String> {
    if let Some(file) = &options.new_key {
        Identity::create(file).map_err(|failure| failure.to_string())?;
        say!("written: {}; copy it to each host, and let only its owner read it", file.display());
        return Ok(());
    }
    let key = options.key.as_deref().ok_or("an agent needs the shared key: --key FILE")?;
    let identity = Identity::read(key).map_err(|failure| failure.to_string())?;
    let data = data()?;
    // A mistake in the catalogue is reported before the first session.
    catalogue(&data, options.gateway.as_deref())?;
    let exe = std::env::current_exe().map_err(|error| format!("this program's own path: {error}"))?;
    let machine = Topology::read().map_err(|error| error.to_string())?;
    let allowed = options.cores.as_ref().map(|list| list.0.clone());
    Roles::of_one(&machine, allowed.as_deref()).map_err(|error| error.to_string())?;
    let listener = TcpListener::bind(options.listen)
        .map_err(|error| format!("listening on {}: {error}", options.listen))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    stop_all_on_signal(|| say!("stopping")).map_err(|error| error.to_string())?;
    let gateway = options.gateway.clone();
    let cgroup_root = options.cgroup_root.clone();
    let environment = move |cores: Option<&[usize]>| {
        let cores = cores.or(allowed.as_deref());
        let roles = Roles::of_one(&machine, cores)?;
        let catalogue = catalogue(&data, gateway.as_deref()).map_err(Failure)?;
        let mut environment = Environment::prepare(exe.clone(), catalogue, ToolPaths::of_user(), roles)?;
        environment.cgroup_root.clone_from(&cgroup_root);
        Ok(environment)
    };
    say!("agent: listening on {address}");
    match serve(&listener, &identity, environment, |text| say!("agent: {text}")) {
        Err(failure) => Err(failure.to_string()),
    }
}
