//! Counts the instructions of a process tree between two moments with valgrind's callgrind. The counts hardly
//! vary between runs, so they show costs that are too small to measure by time. A system runs about fifty
//! times slower under valgrind, which does not change the counts.

use crate::child::{Launch, find_program};
use crate::error::Error;
use crate::process::process_ids;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Prefix of the names of callgrind's output files.
const FILES: &str = "callgrind.out";

/// Seconds that a process may take to execute a command.
const PATIENCE: u64 = 60;

/// The message if valgrind is missing, with the way to get it.
const GET: &str = "valgrind is not installed (scripts/install-test-tools installs it)";

/// An installed valgrind.
#[derive(Debug, Clone)]
pub struct Callgrind {
    valgrind: PathBuf,
    vgdb: PathBuf,
}

impl Callgrind {
    /// Looks for valgrind and its `vgdb`, which passes commands to a process under valgrind.
    ///
    /// # Errors
    /// If valgrind is not installed; the message says how to get it.
    pub fn find() -> Result<Self, Error> {
        let find = |name| find_program(name).ok_or_else(|| Error::Lacking(GET.to_owned()));
        Ok(Self { valgrind: find("valgrind")?, vgdb: find("vgdb")? })
    }

    /// Returns the command that runs `program` and all its child processes under callgrind. The counts go to
    /// `folder`, which must exist and must not have counts of other runs.
    pub fn command(&self, folder: &Path, program: &Path) -> (PathBuf, Vec<OsString>) {
        let mut out = OsString::from("--callgrind-out-file=");
        out.push(folder.join(format!("{FILES}.%p")));
        let mut words = ["--tool=callgrind", "--trace-children=yes"].map(OsString::from).to_vec();
        words.extend([out, program.into()]);
        (self.valgrind.clone(), words)
    }

    /// Begins a count: resets the counters of the process `leader` and its descendants.
    ///
    /// # Errors
    /// If one of them does not execute the command.
    pub fn begin(&self, leader: u32) -> Result<(), Error> {
        self.tell(leader, "zero")
    }

    /// Returns the instructions of `leader` and its descendants since [`Callgrind::begin`].
    ///
    /// # Errors
    /// If one of them does not execute the command, or its output has no count.
    pub fn count(&self, leader: u32, folder: &Path) -> Result<u64, Error> {
        let before = files(folder)?;
        self.tell(leader, "dump")?;
        let mut sum = 0;
        for file in files(folder)?.difference(&before) {
            let text = fs::read_to_string(file).map_err(|error| Error::file(file, error))?;
            // At its first dump callgrind also creates the file that it fills at the end of the process.
            if text.is_empty() {
                continue;
            }
            sum += summary(&text)
                .ok_or_else(|| Error::Lacking(format!("{}: callgrind wrote no summary", file.display())))?;
        }
        Ok(sum)
    }

    fn tell(&self, leader: u32, what: &str) -> Result<(), Error> {
        for process in process_ids(leader) {
            let arguments =
                [format!("--cmd-time-out={PATIENCE}"), format!("--pid={process}"), what.to_owned()];
            let ended = Launch::new(&self.vgdb)
                .arguments(arguments)
                .start()?
                .wait(Duration::from_secs(PATIENCE + 10))?;
            if !ended.is_some_and(|ended| ended.status.success()) {
                return Err(Error::Lacking(format!(
                    "the process {process} did not take valgrind's command `{what}`"
                )));
            }
        }
        Ok(())
    }
}

fn files(folder: &Path) -> Result<BTreeSet<PathBuf>, Error> {
    let entries = fs::read_dir(folder).map_err(|error| Error::file(folder, error))?;
    Ok(entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(FILES))
        .map(|entry| entry.path())
        .collect())
}

/// Returns the number of events of a whole profile (`summary: N`, in the format's header or at its end).
fn summary(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("summary:"))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_read_and_other_text_is_none() {
        assert_eq!(summary("version: 1\nsummary: 66476\n\ntotals: 66873\n"), Some(66_476));
        assert_eq!(summary("events: Ir\ntotals: 5\n"), None);
        assert_eq!(summary("summary: many\n"), None);
    }

    #[test]
    fn the_command_counts_children_too_and_writes_into_the_folder() {
        let callgrind = Callgrind { valgrind: "/v/valgrind".into(), vgdb: "/v/vgdb".into() };
        let (program, words) = callgrind.command(Path::new("/f"), Path::new("/bin/true"));
        assert_eq!(program, PathBuf::from("/v/valgrind"));
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        assert_eq!(
            words,
            [
                "--tool=callgrind",
                "--trace-children=yes",
                "--callgrind-out-file=/f/callgrind.out.%p",
                "/bin/true"
            ]
        );
    }
}
