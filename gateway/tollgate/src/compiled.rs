//! From a file to a plan.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use tollgate_config::{At, Config, Loaded, Problem, Problems, from_text, load};
use tollgate_plan::{Plan, check_matches, compile};

/// A config that is good, and its plan.
#[derive(Debug)]
pub struct Good {
    /// The config.
    pub config: Config,
    /// Its plan.
    pub plan: Plan,
}

/// What a config says of the process: all but its routes, upstreams and texts, which can be large.
pub fn without_routes(config: Config) -> Config {
    Config { files: Vec::new(), routes: Vec::new(), upstreams: Vec::new(), ..config }
}

/// The files that are watched, if the config says so.
pub fn watched(config: &Config) -> Vec<PathBuf> {
    if config.watch { config.sources() } else { Vec::new() }
}

/// Whether this stands for standard input.
pub fn is_standard_input(file: &Path) -> bool {
    file == Path::new("-")
}

/// What to call a file.
pub fn name(file: &Path) -> String {
    if is_standard_input(file) { "standard input".to_owned() } else { file.display().to_string() }
}

/// Reads and compiles a file, or standard input. The problems, warnings included, can be there in both cases.
pub fn read(file: &Path) -> (Option<Good>, Problems) {
    let loaded = if is_standard_input(file) { read_standard_input() } else { load(file) };
    let mut problems = loaded.problems;
    let Some(config) = loaded.config else {
        // What can be said of the routes that were read is said in the same pass.
        if let Some(readable) = &loaded.readable {
            problems.extend(check_matches(readable));
            problems.sort();
        }
        return (None, problems);
    };
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

fn read_standard_input() -> Loaded {
    let mut text = String::new();
    let result = std::io::stdin().lock().read_to_string(&mut text);
    let mut loaded = from_text("standard input", &text, &|name| std::env::var(name).ok());
    if let Err(error) = result {
        loaded.config = None;
        loaded.readable = None;
        loaded.problems = Problems::new(loaded.problems.files().to_vec());
        loaded.problems.push(Problem::error(At::default(), format!("cannot read standard input: {error}")));
    }
    loaded
}

/// Shows problems to a person.
pub fn show(problems: &Problems) {
    if !problems.is_empty() {
        let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        eprint!("{}", problems.render(colour));
    }
}
