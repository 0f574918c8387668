//! The origin, the forwarder, the relay and the generator at an agent, each of which a study runs as a child
//! process.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use tollgate_lab_trial::Failure;

/// Implements `tollgate bench load-at AGENT KEY PLAN`.
pub fn load_at(agent: &str, key: &Path, file: &Path) -> Result<(), String> {
    let print = |line: &str| crate::print(&format!("{line}\n")).map_err(Failure);
    tollgate_lab_trial::agent::load_at(agent, key, read(file)?, print).map_err(|failure| failure.to_string())
}

/// Implements `tollgate bench origin SETTINGS`.
pub fn origin(file: &Path) -> Result<(), String> {
    match tollgate_lab_origin::serve(&read(file)?) {
        Err(failure) => Err(failure.to_string()),
    }
}

/// Implements `tollgate bench forward LISTEN TO`.
pub fn forward(listen: SocketAddr, to: SocketAddr, threads: u32) -> Result<(), String> {
    match tollgate_lab_origin::forward(listen, to, threads) {
        Err(failure) => Err(failure.to_string()),
    }
}

/// Implements `tollgate bench relay SETTINGS`.
pub fn relay(file: &Path) -> Result<(), String> {
    match tollgate_lab_origin::relay(&read(file)?) {
        Err(failure) => Err(failure.to_string()),
    }
}

fn read<T: serde::de::DeserializeOwned>(file: &Path) -> Result<T, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))
}
