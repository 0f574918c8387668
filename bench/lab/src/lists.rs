//! Lists systems, load tools and studies, and installs the missing ones.

use crate::print;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use tollgate_lab_meter::machine::{Facts, Roles, Topology, WantedRoles};
use tollgate_lab_study::{CoreList, Cores, Limits, Names, Study, load, names, plan};
use tollgate_lab_system::{Catalogue, Feature, ProgramPaths, Status};
use tollgate_lab_tools::{Found, Tool, ToolPaths};

/// Descriptors that a server needs besides its connections.
const OTHER_FILES: u64 = 1_500;

/// Reads the catalogue of systems. `gateway` overrides the `tollgate` that would be found.
pub fn catalogue(data: &Path, gateway: Option<&Path>) -> Result<Catalogue, String> {
    let mut paths = ProgramPaths::of_this_machine();
    if let Some(gateway) = gateway {
        paths.given.insert("tollgate".into(), gateway.to_owned());
    }
    Catalogue::load(&data.join("systems"), &paths).map_err(|problems| problems.to_string())
}

/// Reads a study and checks its names.
pub fn study(data: &Path, catalogue: &Catalogue, name: &str) -> Result<Study, String> {
    let tools = std::iter::once("builtin").chain(Tool::ALL.iter().map(|tool| tool.name()));
    let known = Names {
        systems: catalogue.systems().iter().map(|system| system.name().to_owned()).collect(),
        tools: tools.map(str::to_owned).collect(),
        features: Feature::ALL.iter().map(|feature| feature.name().to_owned()).collect(),
    };
    load(&data.join("studies"), name, &known).map_err(|problem| problem.to_string())
}

/// Returns the limits of this machine. Without roles, as on a machine where no study can run, each has one
/// core.
pub fn limits(roles: Option<&Roles>) -> Limits {
    let files = Facts::read().file_limit;
    // A gateway holds a connection to the client and one to the origin.
    let connections = (files.saturating_sub(OTHER_FILES) / 2).clamp(16, 1_000_000);
    let count = |cores: usize| u32::try_from(cores).unwrap_or(u32::MAX);
    // Round numbers make tables easier to read.
    let connections = if connections > 1_000 { connections / 1_000 * 1_000 } else { connections };
    Limits {
        connections: u32::try_from(connections).unwrap_or(u32::MAX),
        target_cores: count(roles.map_or(1, Roles::distinct)),
        origin_cores: count(roles.map_or(1, |roles| roles.origin.len())),
        load_cores: count(roles.map_or(1, |roles| roles.load.len())),
        seconds: None,
        rounds: None,
        systems: Vec::new(),
        sections: Vec::new(),
    }
}

/// Assigns the cores of a machine to the roles of a run.
pub fn roles(machine: &Topology, wanted: &Cores) -> Result<Roles, String> {
    let list = |cores: &Option<CoreList>| cores.as_ref().map(|list| list.0.clone());
    let wanted =
        WantedRoles { target: list(&wanted.target), origin: list(&wanted.origin), load: list(&wanted.load) };
    Roles::choose(machine, &wanted).map_err(|error| error.to_string())
}

/// Implements `tollgate bench cores`: prints the machine and the cores of each role.
pub fn cores(wanted: &Cores, system: Option<&Path>) -> Result<(), String> {
    let machine = match system {
        Some(folder) => Topology::read_from(folder),
        None => Topology::read(),
    }
    .map_err(|error| error.to_string())?;
    let roles = roles(&machine, wanted)?;
    let mut text = format!("{}\n{}\n", machine.describe(), roles.describe());
    for warning in roles.warnings(&machine) {
        let _ = writeln!(text, "warning: {warning}");
    }
    print(&text)
}

/// Implements `tollgate bench studies`.
pub fn studies(data: &Path) -> Result<(), String> {
    let catalogue = catalogue(data, None)?;
    let mut text = String::new();
    for name in names(&data.join("studies")) {
        let study = study(data, &catalogue, &name)?;
        let roles = roles(&Topology::read().map_err(|error| error.to_string())?, &study.cores).ok();
        let plan = plan(&study, &limits(roles.as_ref()));
        let _ = writeln!(text, "{name:20} {:>7}  {}", minutes(plan.seconds), study.title);
    }
    print(&text)
}

/// Formats a duration for people.
pub fn minutes(seconds: f64) -> String {
    if seconds < 180.0 { format!("{seconds:.0} s") } else { format!("{:.0} min", seconds / 60.0) }
}

/// Implements `tollgate bench systems`.
pub fn systems(data: &Path) -> Result<(), String> {
    print(&catalogue(data, None)?.table())
}

/// Implements `tollgate bench tools`.
pub fn tools() -> Result<(), String> {
    let paths = ToolPaths::of_user();
    let mut text = String::from("builtin      ready    the laboratory's own\n");
    for tool in Tool::ALL {
        let state = match tool.find(&paths) {
            Found::Here(program) => format!("ready    {}", program.version),
            Found::Missing { how_to_get } => format!("missing  {how_to_get}"),
        };
        let _ = writeln!(text, "{:12} {state}", tool.name());
    }
    print(&text)
}

/// Implements `tollgate bench install NAME...`.
pub fn install(data: &Path, names: &[String]) -> Result<(), String> {
    let catalogue = catalogue(data, None)?;
    for name in names {
        if let Some(tool) = Tool::from_name(name) {
            let script = tool.install_script().ok_or_else(|| format!("{name} is in no package registry"))?;
            // Paths of scripts are relative to the project's root, which is above the data folder.
            let script = data.parent().unwrap_or(data).join(script);
            let status = Command::new("bash").arg(&script).status();
            match status {
                Ok(status) if status.success() => continue,
                Ok(status) => return Err(format!("{} ended with {status}", script.display())),
                Err(error) => return Err(format!("{}: {error}", script.display())),
            }
        }
        let system = catalogue.get(name).map_err(|error| error.to_string())?;
        match system.status() {
            Status::Ready { version, .. } => {
                print(&format!("{name} is ready: {}\n", version.unwrap_or_default()))?;
            }
            Status::Broken { reason } => {
                return Err(format!("{name} is installed and does not work: {reason}"));
            }
            Status::Missing { reason, get } => return Err(format!("{name}: {reason} To get it: {get}")),
            Status::Installable { takes, .. } => {
                print(&format!("{name}: installing, about {takes}\n"))?;
                system.install(&mut std::io::stderr()).map_err(|error| error.to_string())?;
            }
        }
    }
    Ok(())
}
