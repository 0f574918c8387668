//! Finds the configuration file of a command that was given none.
//!
//! `run`, `check` and `explain` call [`resolve`]. The order is the same for all of them: the command line,
//! `TOLLGATE_CONFIG`, the working directory, `/etc`. A file that is found is named on standard error by the
//! caller, since another one may have been meant.

use std::path::{Path, PathBuf};

/// The environment variable that names the file.
const VARIABLE: &str = "TOLLGATE_CONFIG";

/// The files that are looked for, in this order.
const PLACES: [&str; 2] = ["./tollgate.yaml", "/etc/tollgate/tollgate.yaml"];

/// A configuration file, and whether it was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigPath {
    /// The path.
    pub file: PathBuf,
    /// Why this file was taken: `named by TOLLGATE_CONFIG`, for example. `None`: the command line names it.
    pub found_by: Option<String>,
}

impl ConfigPath {
    /// Returns a line that names a file that was found; `None` if the command line names it.
    pub fn announcement(&self) -> Option<String> {
        let why = self.found_by.as_ref()?;
        Some(format!("the configuration is {} ({why})", self.file.display()))
    }
}

/// Returns the file that the command line names, or else the first existing file of the default places.
///
/// # Errors
/// A message that lists the places, if no file exists.
pub fn resolve(named: Option<&Path>) -> Result<ConfigPath, String> {
    let variable = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    find(named, variable, |file| file.exists())
}

fn find(
    named: Option<&Path>,
    variable: Option<PathBuf>,
    exists: impl Fn(&Path) -> bool,
) -> Result<ConfigPath, String> {
    if let Some(file) = named {
        return Ok(ConfigPath { file: file.to_owned(), found_by: None });
    }
    // Taken even if it does not exist: the user named it, and the message about the missing file says so.
    if let Some(file) = variable {
        return Ok(ConfigPath { file, found_by: Some(format!("named by {VARIABLE}")) });
    }
    match PLACES.into_iter().find(|file| exists(Path::new(file))) {
        Some(file) => {
            let found_by = Some("no file was named".to_owned());
            Ok(ConfigPath { file: PathBuf::from(file), found_by })
        }
        None => Err(format!(
            "there is no configuration file. None is named, and none of these exists:\n  \
             ${VARIABLE} (not set)\n  {}\n\
             To make a first one:\n  \
             printf 'listen: 127.0.0.1:8080\\nroutes: [{{match: /*, respond: hello}}]\\n' > tollgate.yaml\n\
             `tollgate demo` starts an example without a file.",
            PLACES.join("\n  ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_place_wins() {
        let found = |named: Option<&str>, variable: Option<&str>, there: &[&str]| {
            let exists = |file: &Path| there.iter().any(|path| file == Path::new(path));
            find(named.map(Path::new), variable.map(PathBuf::from), exists)
        };
        let file = |named, variable, there| found(named, variable, there).map(|found| found.file);
        let both = ["./tollgate.yaml", "/etc/tollgate/tollgate.yaml"];
        assert_eq!(file(Some("a.yaml"), Some("b.yaml"), &both), Ok("a.yaml".into()));
        assert_eq!(file(None, Some("b.yaml"), &both), Ok("b.yaml".into()));
        assert_eq!(file(None, None, &both), Ok("./tollgate.yaml".into()));
        assert_eq!(file(None, None, &both[1..]), Ok("/etc/tollgate/tollgate.yaml".into()));
        assert!(found(Some("a.yaml"), None, &[]).is_ok_and(|found| found.announcement().is_none()));
        assert!(found(None, None, &both).is_ok_and(|found| found.announcement().is_some()));
        let message = found(None, None, &[]).expect_err("there is none");
        for place in ["$TOLLGATE_CONFIG", both[0], both[1], "tollgate demo", "printf"] {
            assert!(message.contains(place), "{place} in {message}");
        }
    }
}
