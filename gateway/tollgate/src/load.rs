//! Reads and compiles a configuration, for the commands and for reloads.

use std::io::{IsTerminal, Read};
use std::path::Path;

use tollgate_config::{
    At, CombinedResources, Config, Loaded, PartialConfig, Problem, Problems, from_text, load,
};
use tollgate_plan::{CompileCache, Compiled, Plan, check_matches, compile, compile_with_cache};
use tollgate_sources::Sources;

use crate::files::{SourceFiles, expiry_warnings};
use crate::print::{can_show_colour, print_error_text};

/// The warning about a gateway without routes whose store or etcd was read and has none.
pub const NO_ROUTES_YET: &str = "no routes yet, neither in the file nor in its store or etcd: every request is answered 404 until \
     one is written, for example by `tollgate set routes/hello '{match: /hello, respond: hello}'`";

/// A valid configuration and its plan.
#[derive(Debug)]
pub struct LoadedPlan {
    /// The configuration.
    pub config: Config,
    /// The plan compiled from it.
    pub plan: Plan,
    /// The files from which both were made.
    pub files: SourceFiles,
    /// How many routes were read for it; unchanged ones are taken from the last read.
    pub routes_read: usize,
}

/// Returns whether a path means standard input.
pub fn is_standard_input(file: &Path) -> bool {
    file == Path::new("-")
}

/// Returns the name of a file for messages.
pub fn display_name(file: &Path) -> String {
    if is_standard_input(file) { "standard input".to_owned() } else { file.display().to_string() }
}

/// Reads and compiles a file or standard input. There may be problems in both cases: errors or warnings.
pub fn load_file(file: &Path) -> (Option<LoadedPlan>, Problems) {
    let loaded = if is_standard_input(file) { read_standard_input() } else { load(file) };
    let mut problems = loaded.problems;
    let plan = compile_config(loaded.config.as_ref(), loaded.partial.as_ref(), &mut problems);
    let loaded = loaded.config.zip(plan).map(|(config, plan)| LoadedPlan {
        files: SourceFiles::new(&config, &plan, config.sources()),
        routes_read: config.routes.len(),
        config,
        plan,
    });
    (loaded, problems)
}

/// The result of reading the sources again.
pub type PlanReload = tollgate_sources::ReloadResult<Plan>;

/// Reads and compiles a file repeatedly, merged with the store. Unlike [`load_file`], it reads only what has
/// changed, and the resulting config has no routes, upstreams and texts.
pub fn reload(sources: &mut Sources, memo: &mut CompileCache) -> PlanReload {
    let compile = |parts: &CombinedResources<'_>| {
        let compiled = compile_documents(parts, memo)?;
        let problems_found = [compiled.warnings, expiry_warnings(&compiled.plan)].concat();
        Ok((compiled.plan, problems_found))
    };
    let mut reload = sources.reload(compile, check_matches);
    if let Some((config, plan)) = &reload.compiled
        && config.store.is_some()
        && config.fleet.is_none()
        && plan.routes.is_empty()
    {
        reload.problems.push(Problem::warning(At::default(), NO_ROUTES_YET));
    }
    reload
}

/// Compiles what this process serves. A controller serves no requests itself: it checks everything, and its plan comes
/// from its settings alone.
///
/// # Errors
/// All errors and warnings.
pub fn compile_documents(
    parts: &CombinedResources<'_>,
    memo: &mut CompileCache,
) -> Result<Compiled, Vec<Problem>> {
    let compiled = compile_with_cache(parts, memo)?;
    if parts.config.fleet.is_none() {
        return Ok(compiled);
    }
    let config = parts.config;
    let settings = Config {
        admin: config.admin.clone(),
        log: config.log.clone(),
        limits: config.limits.clone(),
        metrics: config.metrics.clone(),
        overload: config.overload.clone(),
        timeouts: config.timeouts.clone(),
        ..Config::default()
    };
    Ok(Compiled { plan: compile(&settings)?.plan, warnings: compiled.warnings })
}

/// Compiles the documents that a source has at the start.
///
/// # Errors
/// All errors and warnings.
pub fn compile_at_start(parts: &CombinedResources<'_>) -> Result<Plan, Vec<Problem>> {
    Ok(compile_documents(parts, &mut CompileCache::default())?.plan)
}

/// Takes the result if it is valid. The caller adopts `reload` once the plan is in force.
pub fn take_loaded(reload: &mut PlanReload) -> Option<LoadedPlan> {
    let (config, plan) = reload.compiled.take()?;
    Some(LoadedPlan {
        files: SourceFiles::new(&config, &plan, reload.sources()),
        routes_read: reload.routes_read,
        config,
        plan,
    })
}

/// Compiles a config; `None` if it has errors.
pub fn compile_config(
    config: Option<&Config>,
    partial: Option<&PartialConfig>,
    problems: &mut Problems,
) -> Option<Plan> {
    let (plan, problems_found) = match config.map(compile) {
        Some(Ok(compiled)) => {
            let problems_found = [compiled.warnings, expiry_warnings(&compiled.plan)].concat();
            (Some(compiled.plan), problems_found)
        }
        Some(Err(errors)) => (None, errors),
        // Checks the routes that could be read, so that one run reports all problems.
        None => (None, partial.map(check_matches).unwrap_or_default()),
    };
    problems.extend(problems_found);
    problems.sort();
    plan
}

fn read_standard_input() -> Loaded {
    let mut text = String::new();
    let result = std::io::stdin().lock().read_to_string(&mut text);
    let mut loaded = from_text("standard input", &text, &|name| std::env::var(name).ok());
    if let Err(error) = result {
        loaded.config = None;
        loaded.partial = None;
        loaded.problems = Problems::new(loaded.problems.files().to_vec());
        loaded.problems.push(Problem::error(At::default(), format!("cannot read standard input: {error}")));
    }
    loaded
}

/// Prints problems on standard error.
pub fn print_problems(problems: &Problems) {
    if !problems.is_empty() {
        let colour = std::io::stderr().is_terminal() && can_show_colour();
        print_error_text(&problems.render(colour));
    }
}
