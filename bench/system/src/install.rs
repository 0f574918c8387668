//! Installs a system with its script.

use crate::error::SystemError;
use crate::status::Status;
use crate::system::System;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

impl System {
    /// Runs the install script and then checks that all programs exist. The output of the script goes to
    /// `out`. The script may be run again. It has no time limit, since a build may take long; Ctrl-C ends it.
    ///
    /// # Errors
    /// If there is no script, a program that the script needs is missing, the script fails, or it does not
    /// install every program.
    pub fn install(&self, out: &mut dyn Write) -> Result<Status, SystemError> {
        let Some(rule) = &self.description.install else {
            let how = match self.status() {
                Status::Missing { reason, get } => format!("{reason} To get it: {get}"),
                _ => "there is nothing to install".to_owned(),
            };
            return Err(self.error(how));
        };
        let lacking: Vec<_> =
            rule.needs.iter().filter(|name| self.paths.on_path(name).is_none()).map(String::as_str).collect();
        if !lacking.is_empty() {
            return Err(self.error(format!("to install it, first install {}", lacking.join(", "))));
        }
        let script = self.folder.join(&rule.script.value);
        let broken = |error: std::io::Error| self.error(format!("{}: {error}", script.display()));
        std::fs::create_dir_all(&self.paths.home).map_err(broken)?;
        let (reader, writer) = std::io::pipe().map_err(broken)?;
        let mut child = {
            // `command` holds the write ends of the pipe; it is dropped before the read loop, so that the
            // pipe ends when the script does.
            let mut command = Command::new("sh");
            command
                .arg(&script)
                .current_dir(&self.folder)
                .env("TOLLGATE_LAB_HOME", &self.paths.home)
                .env("TOLLGATE_LAB_SYSTEM", &self.folder)
                .stdin(Stdio::null())
                .stdout(writer.try_clone().map_err(broken)?)
                .stderr(writer);
            command.spawn().map_err(broken)?
        };
        let mut last = String::new();
        for line in BufReader::new(reader).split(b'\n') {
            let line = String::from_utf8_lossy(&line.map_err(broken)?).into_owned();
            // The error is ignored: a closed terminal must not interrupt the installation.
            let _closed = writeln!(out, "{line}");
            if !line.trim().is_empty() {
                last = line;
            }
        }
        let status = child.wait().map_err(broken)?;
        if !status.success() {
            let last = if last.is_empty() { "it said nothing" } else { &last };
            return Err(self.error(format!("{} failed ({status}): {last}", script.display())));
        }
        match self.programs() {
            Ok(_) => Ok(self.status()),
            Err(lacking) => Err(self.error(format!(
                "{} ended well, but {} cannot be found: see `programs` in its system.yaml",
                script.display(),
                lacking.join(", ")
            ))),
        }
    }
}
