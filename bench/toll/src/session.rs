//! A whole run, from the check of the machine to the summary.

use crate::cells::{self, Cell};
use crate::child;
use crate::command::Options;
use crate::configs::{self, Terms};
use crate::failure::Failure;
use crate::idle;
use crate::load::Arrivals;
use crate::machine::{self, Cores, Scratch, Tools};
use crate::result::Run;
use crate::target::{Ground, System, start_origin};
use crate::trial::{self, Settings};
use crate::{plot, print, record, report, transfer};
use rustix::process::geteuid;
use std::fs;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Above this load average others are at work, and figures are only indicative.
const BUSY: f64 = 0.5;

/// How much to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The three cells of `make bench`.
    Plain,
    /// Everything.
    Full,
}

/// What a run measures.
struct Scope {
    cells: Vec<Cell>,
    idle: bool,
    transfer: bool,
}

impl Scope {
    fn of(extent: Extent, only: Option<&str>) -> Result<Self, Failure> {
        let Some(only) = only else {
            let full = extent == Extent::Full;
            let cells = if full { cells::ALL.to_vec() } else { cells::plain() };
            return Ok(Self { cells, idle: full, transfer: full });
        };
        let (trials, loads): (Vec<&str>, Vec<&str>) =
            only.split(',').map(str::trim).partition(|name| ["idle", "transfer"].contains(name));
        let cells = cells::named(&loads.join(",")).map_err(|unknown| {
            let known: Vec<&str> = cells::ALL.iter().map(|cell| cell.id).collect();
            Failure::Lacking(format!("no cell {unknown:?}; there are: {}, idle, transfer", known.join(", ")))
        })?;
        Ok(Self { cells, idle: trials.contains(&"idle"), transfer: trials.contains(&"transfer") })
    }
}

/// Runs, prints as it goes, and writes the files asked for.
pub fn run(extent: Extent, options: &Options) -> Result<(), Failure> {
    let began = Instant::now();
    let scope = Scope::of(extent, options.cells.as_deref())?;
    let (rounds, seconds) = if extent == Extent::Full { (11, 1.0) } else { (9, 1.0) };
    let settings = Settings {
        rounds: options.rounds.map_or(rounds, usize::from),
        seconds: options.seconds.unwrap_or(seconds),
        arrivals: if options.spread { Arrivals::Spread } else { Arrivals::Bursts },
        tuned_nginx: options.tuned_nginx,
    };
    let cores = Cores::choose()?;
    let files = machine::raise_file_limit();
    let scratch = Scratch::create("run")?;
    child::end_all_on_signal(scratch.path())?;
    let ground = Ground {
        cores,
        tools: Tools::find(),
        gateway: options.gateway.clone(),
        scratch: scratch.path().to_owned(),
        ports: machine::free_ports(System::ALL.len() + 2)?,
        root: geteuid().is_root(),
    };
    let mut run = Run { facts: facts(&ground, &settings), ..Run::default() };
    print(&heading(&run))?;
    print(&configs_text(&ground, &scope, &settings))?;
    cores.leave_target_alone()?;
    let origin = start_origin(&ground)?;

    for cell in &scope.cells {
        let result = trial::run(&ground, cell, &settings, &tell);
        print(&format!("{}\n", report::cell(&result)))?;
        run.cells.push(result);
    }
    if scope.idle {
        run.idle = System::ALL
            .iter()
            .map(|system| {
                tell(&format!("idle connections: {}", system.name()));
                idle::run(&ground, *system, files)
            })
            .collect();
        print(&format!("{}\n", report::idle(&run.idle)))?;
    }
    drop(origin);
    if scope.transfer {
        transfer::serve_origin(ground.transfer_port())?;
        run.transfers = System::ALL
            .iter()
            .flat_map(|system| {
                tell(&format!("1 GiB: {}", system.name()));
                transfer::run(&ground, *system)
            })
            .collect();
        print(&format!("{}\n", report::transfers(&run.transfers)))?;
    }
    run.facts.push(("took", format!("{:.0} s", began.elapsed().as_secs_f64())));
    print(&format!("{}\nThe run took {:.0} s.\n", report::summary(&run), began.elapsed().as_secs_f64()))?;
    write_files(&run, options)
}

fn write_files(run: &Run, options: &Options) -> Result<(), Failure> {
    let results = record::of(run);
    let write = |path: &Path, text: String| {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| Failure::file(folder, error))?;
        }
        fs::write(path, text).map_err(|error| Failure::file(path, error))
    };
    if let Some(path) = &options.json {
        write(path, format!("{results:#}\n"))?;
    }
    match (&options.svg, plot::draw(&results)) {
        (Some(path), Some(picture)) => write(path, picture),
        (Some(path), None) => {
            Err(Failure::Lacking(format!("nothing measured to draw to {}", path.display())))
        }
        (None, _) => Ok(()),
    }
}

/// A word on progress, for the person who waits.
fn tell(word: &str) {
    eprintln!("... {word}");
}

fn facts(ground: &Ground, settings: &Settings) -> Vec<(&'static str, String)> {
    let version = |program: Option<&Path>, argument: &str| {
        program.map_or_else(|| "not installed".into(), |program| machine::version(program, argument))
    };
    let tools = &ground.tools;
    let gateway = Some(ground.gateway.as_path()).filter(|path| path.is_file());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let Cores { target, load } = ground.cores;
    vec![
        ("unix_time", now.to_string()),
        ("cpu", machine::cpu_name()),
        ("kernel", machine::kernel()),
        ("cores", format!("server under test on {target}, origin and generator on {load}")),
        ("load_average", format!("{:.2}", machine::load_average())),
        ("tollgate", version(gateway, "--version")),
        ("nginx", version(tools.nginx.as_deref(), "-v")),
        ("haproxy", version(tools.haproxy.as_deref(), "-v")),
        ("h2load", version(tools.h2load.as_deref(), "--version")),
        ("wrk", version(tools.wrk.as_deref(), "-v")),
        ("rounds", settings.rounds.to_string()),
        ("seconds", settings.seconds.to_string()),
        (
            "arrivals",
            match settings.arrivals {
                Arrivals::Bursts => "in bursts every 10 ms (h2load's timers begin together)".into(),
                Arrivals::Spread => "spread evenly (connections begin over 10 ms)".into(),
            },
        ),
        ("nginx_buffers", if settings.tuned_nginx { "larger than default".into() } else { "default".into() }),
    ]
}

fn heading(run: &Run) -> String {
    let mut text: String = run.facts.iter().map(|(name, value)| format!("{name:>13}: {value}\n")).collect();
    if machine::load_average() > BUSY {
        text += "     warning: others are at work on this machine; take the figures as indicative\n";
    }
    text
}

/// The configuration files of a run: in full for the plain cells, and for each other kind of cell what it changes.
fn configs_text(ground: &Ground, scope: &Scope, settings: &Settings) -> String {
    let origin = ground.place(System::Nginx, 0);
    let origin =
        configs::Place { port: ground.origin_port(), folder: ground.scratch.join("origin"), ..origin };
    let mut text = section("the origin: nginx.conf", &configs::origin(&origin, &origin.folder));
    let base = Terms { clients: 256, tuned_nginx: settings.tuned_nginx, ..Terms::default() };
    let configs = |system: System, terms: &Terms| {
        configs::shortened(&configs::of(system, terms, &ground.place(system, ground.origin_port())))
    };
    for system in System::ALL {
        text += &section(system.name(), &configs(system, &base));
    }
    let mut kinds: Vec<(&str, Terms)> = scope
        .cells
        .iter()
        .map(|cell| (cell.title, Terms { clients: 256, ..trial::terms(cell, settings.tuned_nginx) }))
        .filter(|(_, terms)| terms.access_log || terms.routes > 0)
        .collect();
    if scope.idle {
        kinds.push(("idle connections", Terms { clients: idle::CONNECTIONS + 1_000, ..base.clone() }));
    }
    if scope.transfer {
        kinds.push(("1 GiB", Terms { streaming: true, ..base.clone() }));
    }
    for (title, terms) in kinds {
        for system in System::ALL {
            let changes = added_lines(&configs(system, &base), &configs(system, &terms));
            if !changes.is_empty() {
                text +=
                    &section(&format!("{}, {title}: lines that are new or differ", system.name()), &changes);
            }
        }
    }
    text
}

fn section(title: &str, text: &str) -> String {
    format!("\n--- {title} ---\n{}\n", text.trim_end())
}

/// Lines of `new` that `old` does not have.
fn added_lines(old: &str, new: &str) -> String {
    new.lines().filter(|line| !old.lines().any(|known| known == *line)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes() {
        let plain = Scope::of(Extent::Plain, None).ok().unwrap();
        assert!(plain.cells.len() == 3 && !plain.idle && !plain.transfer);
        let full = Scope::of(Extent::Full, None).ok().unwrap();
        assert!(full.cells.len() == cells::ALL.len() && full.idle && full.transfer);
        let some = Scope::of(Extent::Plain, Some("idle,4k-64")).ok().unwrap();
        assert!(some.cells.len() == 1 && some.idle && !some.transfer);
        let failure = Scope::of(Extent::Full, Some("5k-64")).err().unwrap().to_string();
        assert!(failure.contains("5k-64") && failure.contains("4k-64"), "{failure}");
    }

    #[test]
    fn changes_between_configurations() {
        assert_eq!(added_lines("a\nb\n", "a\nc\nb\nd\n"), "c\nd");
    }
}
