//! From a file to a plan.

use std::path::Path;

use tollgate_config::{Config, Problems, load};
use tollgate_plan::{Plan, compile};

/// A config that is good, and its plan.
#[derive(Debug)]
pub struct Good {
    /// The config.
    pub config: Config,
    /// Its plan.
    pub plan: Plan,
}

/// Reads and compiles a file. The problems, warnings included, can be there in both cases.
pub fn read(file: &Path) -> (Option<Good>, Problems) {
    let loaded = load(file);
    let mut problems = loaded.problems;
    let Some(config) = loaded.config else { return (None, problems) };
    match compile(&config) {
        Ok(compiled) => {
            problems.extend(compiled.warnings);
            problems.sort();
            (Some(Good { plan: compiled.plan, config }), problems)
        }
        Err(errors) => {
            problems.extend(errors);
            problems.sort();
            (None, problems)
        }
    }
}

/// Shows problems to a person.
pub fn show(problems: &Problems) {
    use std::io::IsTerminal;
    if !problems.is_empty() {
        let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        eprint!("{}", problems.render(colour));
    }
}
