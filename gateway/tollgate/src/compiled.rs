//! From a file to a plan.

use std::io::{IsTerminal, Read};
use std::path::Path;

use tollgate_config::{At, Config, Loaded, Parts, Problem, Problems, Readable, from_text, load};
use tollgate_plan::{Memo, Plan, check_matches, compile, compile_again};
use tollgate_sources::Sources;

use crate::files::{Files, ending};

/// A config that is good, and its plan.
#[derive(Debug)]
pub struct Good {
    /// The config.
    pub config: Config,
    /// Its plan.
    pub plan: Plan,
    /// The files that both were made of.
    pub files: Files,
    /// How many routes were read for it.
    pub anew: usize,
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
    let plan = plan(loaded.config.as_ref(), loaded.readable.as_ref(), &mut problems);
    let good = loaded.config.zip(plan).map(|(config, plan)| Good {
        files: Files::new(&config, &plan, config.sources()),
        anew: config.routes.len(),
        config,
        plan,
    });
    (good, problems)
}

/// What came of reading the sources again.
pub type Reload = tollgate_sources::Reload<Plan>;

/// As [`read`], of a file that is read again and again, and merged with what the store holds: what has not changed is not
/// read again. The config is without its routes, upstreams and texts.
pub fn read_again(sources: &mut Sources, memo: &mut Memo) -> Reload {
    let compile = |parts: &Parts<'_>| {
        let compiled = compile_again(parts, memo)?;
        let told = [compiled.warnings, ending(&compiled.plan)].concat();
        Ok((compiled.plan, told))
    };
    sources.reload(compile, check_matches)
}

/// What came of the sources, if it is good. It is adopted by whoever puts it in force.
pub fn good(reload: &mut Reload) -> Option<Good> {
    let (config, plan) = reload.good.take()?;
    Some(Good { files: Files::new(&config, &plan, reload.sources()), anew: reload.anew, config, plan })
}

/// The plan of a config, unless there is something wrong.
fn plan(config: Option<&Config>, readable: Option<&Readable>, problems: &mut Problems) -> Option<Plan> {
    let (plan, told) = match config.map(compile) {
        Some(Ok(compiled)) => {
            let told = [compiled.warnings, ending(&compiled.plan)].concat();
            (Some(compiled.plan), told)
        }
        Some(Err(errors)) => (None, errors),
        // What can be said of the routes that were read is said in the same pass.
        None => (None, readable.map(check_matches).unwrap_or_default()),
    };
    problems.extend(told);
    problems.sort();
    plan
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
        tollgate_net::write_error(&problems.render(colour));
    }
}
