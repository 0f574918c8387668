//! Instructions of a process tree between two moments, counted by valgrind's callgrind. They hardly vary from run to run,
//! so that they tell of costs too small for any clock; that a system runs some fifty times slower does not matter to them.

use crate::child::{Launch, find_program};
use crate::error::Error;
use crate::process::process_ids;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the files begin with that callgrind writes.
const FILES: &str = "callgrind.out";

/// Seconds that a process may take to obey.
const PATIENCE: u64 = 60;

/// What to say without it, and how to get it.
const GET: &str = "valgrind is not installed (scripts/install-test-tools installs it)";

/// A valgrind that is installed.
#[derive(Debug, Clone)]
pub struct Callgrind {
    valgrind: PathBuf,
    vgdb: PathBuf,
}

impl Callgrind {
    /// Looks for valgrind and its `vgdb`, which passes commands to what runs under it.
    ///
    /// # Errors
    /// Where it is not installed, with the way to get it.
    pub fn find() -> Result<Self, Error> {
        let find = |name| find_program(name).ok_or_else(|| Error::Lacking(GET.to_owned()));
        Ok(Self { valgrind: find("valgrind")?, vgdb: find("vgdb")? })
    }

    /// The command that runs `program`, and every program that it starts, with its instructions counted. `folder` takes the
    /// counts; it must be there and empty of others'.
    pub fn command(&self, folder: &Path, program: &Path) -> (PathBuf, Vec<OsString>) {
        let mut out = OsString::from("--callgrind-out-file=");
        out.push(folder.join(format!("{FILES}.%p")));
        let mut words = ["--tool=callgrind", "--trace-children=yes"].map(OsString::from).to_vec();
        words.extend([out, program.into()]);
        (self.valgrind.clone(), words)
    }

    /// Begins a count: what the process `leader` and its descendants did until now is forgotten.
    ///
    /// # Errors
    /// When one of them does not obey.
    pub fn begin(&self, leader: u32) -> Result<(), Error> {
        self.tell(leader, "zero")
    }

    /// Instructions of `leader` and its descendants since [`Callgrind::begin`].
    ///
    /// # Errors
    /// When one of them does not obey, or what was written is no count.
    pub fn count(&self, leader: u32, folder: &Path) -> Result<u64, Error> {
        let before = files(folder)?;
        self.tell(leader, "dump")?;
        let mut sum = 0;
        for file in files(folder)?.difference(&before) {
            let text = fs::read_to_string(file).map_err(|error| Error::file(file, error))?;
            // With its first count callgrind also begins the file that it fills at the process's end.
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

/// The events of a whole profile (`summary: N`, in the format's header or at its end).
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
