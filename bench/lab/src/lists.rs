//! Lists systems, load tools and studies, and installs the missing ones.

use crate::print;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use tollgate_lab_meter::machine::Facts;
use tollgate_lab_study::{Limits, Names, Study, load, names, plan};
use tollgate_lab_system::{Catalogue, Feature, Place, Status};
use tollgate_lab_tools::{Found, Places, Tool};

/// Descriptors that a server needs besides its connections.
const OTHER_FILES: u64 = 1_500;

/// Reads the catalogue of systems. `gateway` overrides the `tollgate` that would be found.
pub fn catalogue(data: &Path, gateway: Option<&Path>) -> Result<Catalogue, String> {
    let mut place = Place::of_this_machine();
    if let Some(gateway) = gateway {
        place.given.insert("tollgate".into(), gateway.to_owned());
    }
    Catalogue::load(&data.join("systems"), &place).map_err(|problems| problems.to_string())
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

/// Returns the limits of this machine.
pub fn limits() -> Limits {
    let files = Facts::read().file_limit;
    // A gateway holds a connection to the client and one to the origin.
    let connections = (files.saturating_sub(OTHER_FILES) / 2).clamp(16, 1_000_000);
    // Round numbers make tables easier to read.
    let connections = if connections > 1_000 { connections / 1_000 * 1_000 } else { connections };
    Limits {
        connections: u32::try_from(connections).unwrap_or(u32::MAX),
        // Never more, however many the machine has: one is the system's own, the other belongs to origin and
        // generator.
        target_cores: 2,
        seconds: None,
        rounds: None,
        systems: Vec::new(),
        sections: Vec::new(),
    }
}

/// Implements `tollgate bench studies`.
pub fn studies(data: &Path) -> Result<(), String> {
    let catalogue = catalogue(data, None)?;
    let mut text = String::new();
    for name in names(&data.join("studies")) {
        let study = study(data, &catalogue, &name)?;
        let plan = plan(&study, &limits());
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
    let places = Places::of_user();
    let mut text = String::from("builtin      ready    the laboratory's own\n");
    for tool in Tool::ALL {
        let state = match tool.find(&places) {
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
