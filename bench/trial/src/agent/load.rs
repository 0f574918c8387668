//! Runs the built-in generator at an agent, as a child process of the laboratory: the child prints the lines
//! of the remote generator as if they were its own, so that [`crate::generator::Run`] reads one form.

use super::client::{answer, exchange, open};
use super::identity::Identity;
use super::message::{Ask, Certificate, Welcome, send};
use crate::failure::Failure;
use std::fs;
use std::path::Path;
use tollgate_lab_load::{Https, Plan, Trust};

/// Runs a plan at an agent. `print` receives each line of the remote generator's output.
///
/// # Errors
/// If a file cannot be read, the agent does not answer, or the remote generator fails.
pub fn load_at(
    address: &str,
    key: &Path,
    mut plan: Plan,
    mut print: impl FnMut(&str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let files = |https: &Https| https.certificate.is_some() || matches!(https.trust, Trust::Authorities(_));
    if plan.https.as_ref().is_some_and(files) {
        return Err(Failure("the files of `https` are not sent to an agent: use `tls`".into()));
    }
    let mut certificate = None;
    if let Some(tls) = &mut plan.tls {
        let text = |file: &Path| fs::read_to_string(file).map_err(|error| Failure::of(file.display(), error));
        certificate = Some(Certificate {
            certificate: text(&tls.certificate)?,
            key: tls.key.as_deref().map(text).transpose()?.unwrap_or_default(),
        });
    }
    let mut stream = open(address, &Identity::read(key)?)?;
    let hello = Ask::Hello { version: env!("CARGO_PKG_VERSION").into(), cores: load_cores(&plan) };
    let _: Welcome = exchange(address, &mut stream, &hello)?;
    send(&mut stream, &Ask::Load { plan: Box::new(plan), certificate })
        .map_err(|error| Failure::of(format!("the agent {address}"), error))?;
    loop {
        // The last answer is empty.
        let line: Option<String> = answer(address, &mut stream)?;
        match line {
            Some(line) => print(&line)?,
            None => return Ok(()),
        }
    }
}

/// Returns the cores of the generator there, which the plan names.
fn load_cores(plan: &Plan) -> Option<Vec<usize>> {
    (!plan.cores.is_empty()).then(|| plan.cores.iter().map(|core| *core as usize).collect())
}
