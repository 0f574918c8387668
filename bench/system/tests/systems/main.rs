//! Starts every installed system, sends it requests and stops it, with each of its features off and on.

mod bad;
mod client;
mod origin;
mod partner;
mod process;
mod ready;

use std::path::{Path, PathBuf};
use tollgate_lab_system::{Catalogue, ProgramPaths};

/// Returns the folder of all systems.
fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../systems").canonicalize().expect("the data")
}

/// Returns the locations of this machine, with the gateway in the folder where cargo puts it, next to the
/// tests.
fn paths() -> ProgramPaths {
    let mut paths = ProgramPaths::of_this_machine();
    let tests = std::env::current_exe().expect("a path");
    if let Some(target) = tests.parent().and_then(Path::parent) {
        paths.search.insert(0, target.to_owned());
    }
    paths
}

fn catalogue() -> Catalogue {
    Catalogue::load(&data(), &paths()).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Returns two free ports that the kernel will not give to a client's connection before the system listens on
/// them.
fn free_ports() -> (u16, u16) {
    let ports = tollgate_lab_meter::ports::free_ports(2).expect("two ports");
    (ports[0], ports[1])
}
