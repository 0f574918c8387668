//! Fetches the peers and generators that the machine lacks, with the system's package manager.

use crate::failure::Failure;
use crate::machine::{Tools, which};
use rustix::process::geteuid;
use std::process::Command;

/// Installs what is missing (Debian, Ubuntu); says what it did.
///
/// # Errors
///
/// Where there is no apt-get, or neither root nor sudo, the message names what to install by hand.
pub fn run() -> Result<String, Failure> {
    let packages = Tools::find().missing_packages();
    if packages.is_empty() {
        return Ok("nginx, haproxy, h2load and wrk are here already".into());
    }
    let list = packages.join(" ");
    let Some(apt) = which("apt-get") else {
        return Err(Failure::Lacking(format!(
            "there is no apt-get here; install by your system's means what these Debian packages hold: {list}"
        )));
    };
    let apt = apt.display().to_string();
    let mut prefix: Vec<String> = Vec::new();
    if !geteuid().is_root() {
        let Some(sudo) = which("sudo") else {
            return Err(Failure::Lacking(format!(
                "not root, and no sudo; ask someone who is: apt-get install {list}"
            )));
        };
        prefix.push(sudo.display().to_string());
    }
    // Packages are fetched anew only if the lists at hand do not do.
    let install = [vec![apt.clone()], words("install -y --no-install-recommends"), words(&list)].concat();
    if !ran(&[prefix.clone(), install.clone()].concat())? {
        ran(&[prefix.clone(), vec![apt, "update".into()]].concat())?;
        if !ran(&[prefix, install].concat())? {
            return Err(Failure::Lacking(format!("apt-get could not install: {list}")));
        }
    }
    match Tools::find().missing_packages() {
        left if left.is_empty() => Ok(format!(
            "installed: {list}. Debian starts nginx and haproxy as services; the benchmark needs neither \
             (systemctl disable --now nginx haproxy)"
        )),
        left => Err(Failure::Lacking(format!("installed, but still not found: {}", left.join(" ")))),
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn ran(command: &[String]) -> Result<bool, Failure> {
    Command::new(&command[0])
        .args(&command[1..])
        .env("DEBIAN_FRONTEND", "noninteractive")
        .status()
        .map(|status| status.success())
        .map_err(|error| Failure::System(command.join(" "), error))
}
