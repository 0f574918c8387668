//! `tollgate bench load`: the generator alone, for people who load a server of their own, and for a study,
//! which starts it with a plan.
//!
//! A target that contains `://` is a URL: [`plan`] makes a plan of it and the [`options`], the load is shown
//! while it runs, and [`summary`] and [`page`] show the result. Every other target is the file of a plan: its
//! result is one line of JSON on standard output, after the lines that name the phases. [`objective`] has the
//! conditions that decide the exit status, and [`find_rate`] searches the highest rate that holds some.

mod destination;
mod find_rate;
mod objective;
mod options;
mod page;
mod plan;
mod summary;
mod values;

pub use options::LoadOptions;
use plan::Wrong;

use clap::parser::ValueSource;
use std::fs;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use tollgate_lab_load::{Done, Failure, Phase, Plan, Progress, greet, interrupt, interrupted, run_watched};
use tollgate_lab_record::{LoadModel, LoadResult};
use tollgate_lab_report::number::{plain, time, whole};
use tollgate_lab_trial::generator::Phase as Told;

/// The exit status if the command line asks for something that cannot be.
const MISUSED: u8 = 2;

/// The exit status if a condition of `--fail-if` holds, or no rate holds those of `--find-rate`.
const FAILED: u8 = 3;

/// The exit status of a search that Ctrl-C ended before any rate held.
const STOPPED: u8 = 130;

/// Implements `tollgate bench load`. `given` says where the value of an option came from.
pub fn load(options: &LoadOptions, given: impl Fn(&str) -> Option<ValueSource>) -> Result<ExitCode, String> {
    if destination::is_url(&options.target) {
        return for_people(options);
    }
    let by_hand = |name: &&&str| given(name) == Some(ValueSource::CommandLine);
    if let Some(option) = options::OF_A_URL.iter().find(by_hand) {
        let option = match *option {
            "headers" => "header".to_owned(),
            "cookies" => "cookie".to_owned(),
            option => option.replace('_', "-"),
        };
        return Ok(misused(&format!(
            "--{option} describes a load on a URL, but {} is the file of a plan: set it there; a URL begins with http://",
            options.target
        )));
    }
    let plan = read_plan(Path::new(&options.target))?;
    if options.print_plan {
        return print_plan(&plan).map(|()| ExitCode::SUCCESS);
    }
    let mut lost = None;
    let done = run_watched(&plan, |progress| {
        let word = match progress {
            Progress::Phase(Phase::Measuring) => Told::Measuring.word(),
            Progress::Phase(Phase::Measured) => Told::Measured.word(),
            Progress::Phase(Phase::Begun) | Progress::Second(_) => return,
        };
        let mut out = std::io::stdout().lock();
        lost = writeln!(out, "{word}").and_then(|()| out.flush()).err();
    })
    .map_err(|failure| failure.to_string())?;
    if let Some(error) = lost {
        return Err(format!("standard output: {error}"));
    }
    crate::print(&format!("{}\n", json(&done)?))?;
    finish(options, &plan, &summary::about(&plan, None), &done)
}

fn read_plan(file: &Path) -> Result<Plan, String> {
    let text = fs::read_to_string(file).map_err(|error| {
        let hint = if error.kind() == std::io::ErrorKind::NotFound {
            " (a target is the file of a plan, or a URL with its scheme: http://HOST/)"
        } else {
            ""
        };
        format!("{}: {error}{hint}", file.display())
    })?;
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    // Only a plan whose target is a URL takes the way over a value, which loses lines and columns.
    match serde_json::from_str::<serde_json::Value>(&text) {
        Ok(mut value) if value["target"].as_str().is_some_and(destination::is_url) => {
            destination::expand(&mut value).map_err(|error| wrong(&error))?;
            serde_json::from_value(value).map_err(|error| wrong(&error))
        }
        _ => serde_json::from_str(&text).map_err(|error| wrong(&error)),
    }
}

fn print_plan(plan: &Plan) -> Result<(), String> {
    let text = serde_json::to_string_pretty(plan).map_err(|error| error.to_string())?;
    crate::print(&format!("{text}\n"))
}

fn json(done: &Done) -> Result<String, String> {
    serde_json::to_string(done).map_err(|error| error.to_string())
}

fn misused(text: &str) -> ExitCode {
    say!("tollgate bench: {text}");
    ExitCode::from(MISUSED)
}

fn for_people(options: &LoadOptions) -> Result<ExitCode, String> {
    let mut plan = match options.plan() {
        Ok(plan) => plan,
        Err(Wrong::Misuse(text)) => return Ok(misused(&text)),
        Err(Wrong::Trouble(text)) => return Err(text),
    };
    if !options.find_rate.is_empty() {
        plan.model = LoadModel::Constant { rps: 1.0 };
    }
    match plan.check() {
        Ok(()) => {}
        Err(Failure::Plan(text)) => return Ok(misused(&text)),
        Err(failure) => return Err(failure.to_string()),
    }
    if options.print_plan {
        return print_plan(&plan).map(|()| ExitCode::SUCCESS);
    }
    let tls = greet(&plan).map_err(|failure| failure.to_string())?;
    // Checked before the load: a file that cannot be written must not waste a load of minutes.
    let files = options.json.iter().filter(|file| file.as_path() != Path::new("-")).chain(&options.html);
    for file in files {
        let opened = fs::File::options().create(true).append(true).open(file);
        opened.map_err(|error| format!("{}: {error}", file.display()))?;
    }
    end_on_signal();
    if !options.find_rate.is_empty() {
        return find(options, plan);
    }
    let about = summary::about(&plan, tls.as_deref());
    let quiet = options.quiet;
    if !quiet {
        say!("{}: {about}", options.target);
    }
    let done = watched(options, &plan)?;
    if options.json.as_deref() != Some(Path::new("-")) {
        crate::print(&summary::summary(&done.load, &plan))?;
    }
    finish(options, &plan, &about, &done)
}

/// Runs a plan and shows each second: on a terminal in one line that changes, otherwise in lines if they are
/// asked for.
fn watched(options: &LoadOptions, plan: &Plan) -> Result<Done, String> {
    let terminal = std::io::stderr().is_terminal();
    let is_live = options.live || (terminal && !options.quiet);
    let mut dirty = false;
    let done = run_watched(plan, |progress| {
        if let (Progress::Second(second), true) = (progress, is_live) {
            let line = summary::second(&second);
            let mut out = std::io::stderr().lock();
            // A closed standard error is no reason to end a load.
            let _ = if terminal { write!(out, "\r\x1b[K{line}") } else { writeln!(out, "{line}") };
            let _ = out.flush();
            dirty = terminal;
        }
    });
    if dirty {
        say!();
    }
    done.map_err(|failure| failure.to_string())
}

/// Ends the load on the first Ctrl-C, so that its result is shown, and the program on the second.
fn end_on_signal() {
    let first = std::sync::atomic::AtomicBool::new(true);
    // Fails only if there is a handler already, and then that one ends the program.
    let _ = ctrlc::set_handler(move || {
        if !first.swap(false, std::sync::atomic::Ordering::Relaxed) {
            std::process::exit(130);
        }
        interrupt();
    });
}

/// Writes the files that were asked for and decides the exit status.
fn finish(options: &LoadOptions, plan: &Plan, about: &str, done: &Done) -> Result<ExitCode, String> {
    let write = |file: &Path, text: String| {
        fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
    };
    match &options.json {
        Some(file) if file == Path::new("-") => crate::print(&format!("{}\n", json(done)?))?,
        Some(file) => write(file, format!("{}\n", json(done)?))?,
        None => {}
    }
    if let Some(file) = &options.html {
        write(file, page::page(&options.target, about, &done.load, plan))?;
    }
    let mut code = ExitCode::SUCCESS;
    for condition in &options.fail_if {
        let reported = match condition.holds(&done.load) {
            Some(false) => continue,
            Some(true) => "holds",
            None => "cannot be decided: no request was answered",
        };
        say!("failed: {condition} {reported}");
        code = ExitCode::from(FAILED);
    }
    Ok(code)
}

/// Implements `--find-rate`.
fn find(options: &LoadOptions, mut plan: Plan) -> Result<ExitCode, String> {
    let mut best: Option<Done> = None;
    let found = find_rate::find(|rate| {
        plan.model = LoadModel::Constant { rps: rate };
        let done = run_watched(&plan, |_| {}).map_err(|failure| failure.to_string())?;
        // A trial that was cut off says nothing about its rate.
        if interrupted() {
            return Ok(None);
        }
        let reason = broken(options, &done.load);
        let p99 = done.load.latency().and_then(|times| times.percentile(99.0));
        say!(
            "{:>10}/s  {}  p99 {}, {} failed{}",
            plain(rate),
            if reason.is_none() { "holds" } else { "fails" },
            p99.map_or("-".into(), time),
            whole(done.load.failures.total() as f64),
            reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}")),
        );
        let held = reason.is_none();
        if held {
            best = Some(done);
        }
        Ok::<_, String>(Some(held))
    })?;
    let objectives: Vec<String> = options.find_rate.iter().map(ToString::to_string).collect();
    let objectives = objectives.join(", ");
    let (Some(held), Some(done)) = (found.held, best) else {
        if interrupted() {
            say!("stopped before a rate held {objectives}");
            return Ok(ExitCode::from(STOPPED));
        }
        say!("no rate holds {objectives}");
        return Ok(ExitCode::from(FAILED));
    };
    let beyond = match found.failed {
        Some(failed) if interrupted() => {
            format!("; {}/s does not; stopped before the rates between were tried", plain(failed))
        }
        None if interrupted() => "; stopped before higher rates were tried".into(),
        Some(failed) => format!("; {}/s does not", plain(failed)),
        None => "; the search ended without a rate that does not".into(),
    };
    if options.json.as_deref() != Some(Path::new("-")) {
        crate::print(&format!("{}/s holds {objectives}{beyond}\n", plain(held)))?;
    }
    plan.model = LoadModel::Constant { rps: held };
    let about = summary::about(&plan, None);
    finish(options, &plan, &about, &done)
}

/// Returns which objective a result breaks. A rate that was not kept breaks any.
fn broken(options: &LoadOptions, load: &LoadResult) -> Option<String> {
    if !load.keeps_its_rate() {
        return Some(format!("only {}/s were answered", plain(load.rps())));
    }
    let missed = options.find_rate.iter().find(|condition| condition.holds(load) != Some(true));
    missed.map(|condition| format!("not {condition}"))
}
