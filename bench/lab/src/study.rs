//! Implements `tollgate bench run`: plans a study, runs what the result file lacks, and prints the report. An
//! unfinished result file of the same study is continued with its own seed. A finished one, or one of another
//! study, is never overwritten without `--fresh`.

use crate::cluster::{InCluster, deployed, wanted};
use crate::command::RunOptions;
use crate::lists::{catalogue, limits, minutes, roles, study};
use crate::progress::Printed;
use crate::reports::{load_results, write_reports};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tollgate_lab_meter::child::stop_all_on_signal;
use tollgate_lab_meter::machine::{Roles, Topology};
use tollgate_lab_record::Results;
use tollgate_lab_study::{CoreList, Cores, Limits, Plan, Study, plan as make_plan};
use tollgate_lab_system::{Catalogue, Status, System};
use tollgate_lab_tools::ToolPaths;
use tollgate_lab_trial::agent::Identity;
use tollgate_lab_trial::host::Hosts;
use tollgate_lab_trial::{Environment, Session};

/// Runs a study.
pub fn run(data: &Path, options: &RunOptions) -> Result<(), String> {
    let catalogue = catalogue(data, options.gateway.as_deref())?;
    let mut study = study(data, &catalogue, &options.study)?;
    let in_cluster = wanted(&mut study, options)?;
    let machine = Topology::read().map_err(|error| error.to_string())?;
    let cores = options.cores.as_ref().map_or_else(|| study.cores.clone(), |own| study.cores.with(own));
    let roles = local_roles(&study, &cores, &machine)?;
    let warnings = roles.warnings(&machine);
    let mut limits = selection(&study, &roles, &catalogue, options)?;
    let mut plan = make_plan(&study, &limits);
    check_plan(&study, &plan, in_cluster.is_some())?;
    announce(&study, &plan);
    if study.hosts.is_empty() {
        say!("  cores: {}", roles.describe());
        for text in &warnings {
            say!("  warning: {text}");
        }
    }
    if options.dry_run {
        return crate::print(&cells(&plan));
    }
    let out =
        options.out.clone().unwrap_or_else(|| PathBuf::from(format!("tollgate-bench/{}.jsonl", study.name)));
    let earlier = earlier(&out, &study, options)?;
    if let Some(earlier) = &earlier {
        unchanged(&out, &study, &plan, &catalogue)?;
        say!("{}: goes on after {} trials", out.display(), earlier.trials.len());
    }
    let file = open(&out, earlier.is_some())?;
    let mut cluster = in_cluster.map(|wanted| InCluster::connect(wanted, &plan)).transpose()?;
    stop_on_signal(&out, cluster.as_ref())?;
    let mut environment = environment(&study, catalogue, roles)?;
    let (key, mut placement) = match &mut cluster {
        Some(cluster) => {
            let (key, placement) = cluster.start(&mut study, &plan)?;
            (Some(key), placement)
        }
        None => (options.key.clone(), Vec::new()),
    };
    if let Some(key) = &key {
        environment.identity = Some(Identity::read(key).map_err(|failure| failure.to_string())?);
    }
    let mut notes = warnings;
    if !study.hosts.is_empty() {
        let (hosts, more) = hosts(&study, &plan, &cores, key.as_deref())?;
        use_cores(&mut limits, &hosts);
        plan = make_plan_again(&study, &limits, &plan);
        environment.use_hosts(hosts);
        placement.extend(more);
        notes = placement;
        for text in &notes {
            say!("  {text}");
        }
    }
    let begun = Instant::now();
    let mut session = Session {
        environment: &environment,
        study: &study,
        plan: &plan,
        remarks: notes,
        seed: earlier.as_ref().map_or(options.seed, |earlier| earlier.header.seed),
        command: command(options),
        started: now(),
        out: file,
        progress: Printed::new(),
        earlier,
        early: BTreeSet::new(),
    };
    session.run().map_err(|failure| failure.to_string())?;
    for line in tollgate_lab_analysis::analyse(&study, &load_results(&out)?) {
        session.line(&line).map_err(|failure| failure.to_string())?;
    }
    session.end(begun.elapsed().as_secs_f64()).map_err(|failure| failure.to_string())?;
    show(&out, options)
}

/// Prepares the environment of a run on this host.
fn environment(study: &Study, catalogue: Catalogue, roles: Roles) -> Result<Environment, String> {
    let exe = std::env::current_exe().map_err(|error| format!("this program's own path: {error}"))?;
    let mut environment = Environment::prepare(exe, catalogue, ToolPaths::of_user(), roles)
        .map_err(|failure| failure.to_string())?;
    environment.look_at_start();
    environment.own_origin = study.origin.clone();
    Ok(environment)
}

/// Plans a study again with the cores of its hosts, and prints what is smaller than in the first plan.
fn make_plan_again(study: &Study, limits: &Limits, first: &Plan) -> Plan {
    let plan = make_plan(study, limits);
    for text in plan.scaled.iter().filter(|text| !first.scaled.contains(text)) {
        say!("  made smaller: {text}");
    }
    plan
}

/// Returns the time in UTC, in whole seconds, as RFC 3339 writes it.
fn now() -> String {
    let now = OffsetDateTime::now_utc().replace_nanosecond(0).ok();
    now.and_then(|now| now.format(&Rfc3339).ok()).unwrap_or_default()
}

/// Returns the cores of the roles that run on this host.
fn local_roles(study: &Study, cores: &Cores, machine: &Topology) -> Result<Roles, String> {
    // The cores of a role on another host belong to that host.
    let own = |host: &Option<String>, cores: &Option<CoreList>| cores.clone().filter(|_| host.is_none());
    let local = Cores {
        target: own(&study.hosts.gateway, &cores.target),
        origin: own(&study.hosts.origin, &cores.origin),
        load: own(&study.hosts.client, &cores.load),
    };
    if study.hosts.gateway.is_some() && study.hosts.origin.is_some() {
        let load = local.load.as_ref().map(|list| list.0.as_slice());
        return Roles::of_one(machine, load).map_err(|error| error.to_string());
    }
    roles(machine, &local)
}

/// Returns the limits of this machine, with the selection of the options.
///
/// # Errors
/// If an option names a system that does not exist.
fn selection(
    study: &Study,
    roles: &Roles,
    catalogue: &Catalogue,
    options: &RunOptions,
) -> Result<Limits, String> {
    let mut limits = limits(Some(roles));
    if study.hosts.gateway.is_some() {
        // The agent knows its cores, and is asked later.
        limits.target_cores = u32::MAX;
    }
    limits.seconds = options.seconds;
    limits.rounds = options.rounds;
    limits.systems.clone_from(&options.systems);
    limits.sections.clone_from(&options.sections);
    for name in options.systems.iter().filter(|name| !study.arms.contains_key(*name)) {
        catalogue.get(name).map_err(|error| error.to_string())?;
    }
    Ok(limits)
}

/// Refuses a plan that measures nothing, or that needs a cluster and has none.
fn check_plan(study: &Study, plan: &Plan, has_cluster: bool) -> Result<(), String> {
    if plan.cells.is_empty() && plan.experiments.is_empty() {
        let mut titles: Vec<&str> = study.sections.iter().map(|section| section.title.as_str()).collect();
        titles.extend(study.analyses.iter().filter_map(|analysis| analysis.experiment()));
        return Err(format!(
            "nothing would be measured; the sections of {} are: {}",
            study.name,
            titles.join("; ")
        ));
    }
    if let (false, Some((name, _))) = (has_cluster, deployed(study, plan).first()) {
        return Err(format!("manifests deploy {name} in a cluster: run with --kubernetes, or leave it out"));
    }
    Ok(())
}

/// Makes a signal end the run: its processes stop, and its objects in the cluster are deleted.
fn stop_on_signal(out: &Path, cluster: Option<&InCluster>) -> Result<(), String> {
    let created = cluster.map(InCluster::created);
    let file = out.display().to_string();
    stop_all_on_signal(move || {
        say!("\nstopping; what was measured is in {file}, and the same command goes on from there");
        if let Some(Err(text)) = created.as_ref().map(|created| created.delete()) {
            say!("not everything was deleted from the cluster: {text}");
        }
    })
    .map_err(|error| error.to_string())
}

/// Prints and writes the reports of a finished run.
fn show(out: &Path, options: &RunOptions) -> Result<(), String> {
    let results = load_results(out)?;
    crate::reports::show(&results)?;
    write_reports(&results, &[], &options.pages)?;
    if options.print_results {
        crate::print(&fs::read_to_string(out).map_err(|error| format!("{}: {error}", out.display()))?)?;
    }
    Ok(())
}

/// Connects to the agents of a study and measures the links between the hosts.
fn hosts(
    study: &Study,
    plan: &Plan,
    cores: &Cores,
    key: Option<&Path>,
) -> Result<(Hosts, Vec<String>), String> {
    if !plan.experiments.is_empty() {
        let titles = plan.experiments.join(", ");
        return Err(format!(
            "the experiments of a study need all roles on one host, without `hosts`: {titles}; name other sections \
             with --sections"
        ));
    }
    let key = key.ok_or(
        "a study with `hosts` needs the key that they share: --key FILE (see `tollgate bench help agent`)",
    )?;
    let connected = Hosts::connect(&study.hosts, cores, key).map_err(|failure| failure.to_string())?;
    let mut notes = connected.warnings().map_err(|failure| failure.to_string())?;
    notes.extend(connected.links().map_err(|failure| failure.to_string())?);
    notes.push(
        "Each host reads its own clock; no times of different hosts were compared. What the origin receives from each \
         system was not compared."
            .into(),
    );
    Ok((connected, notes))
}

/// Sets the cores of the roles at agents, which name them when they are connected: each core of the load gets a
/// thread of the generator, and each core of the origin a worker.
fn use_cores(limits: &mut Limits, hosts: &Hosts) {
    for (host, cores) in [
        (&hosts.gateway, &mut limits.target_cores),
        (&hosts.origin, &mut limits.origin_cores),
        (&hosts.client, &mut limits.load_cores),
    ] {
        *cores = host.usable_cores().unwrap_or(*cores);
    }
}

/// Lists the cells of a plan under their sections: the load, the length of a trial, the rounds, the systems.
fn cells(plan: &Plan) -> String {
    let mut text = String::new();
    let mut section = None;
    let width = plan.cells.iter().map(|planned| planned.cell.title.chars().count()).max().unwrap_or_default();
    for planned in &plan.cells {
        let (cell, settings) = (&planned.cell, &planned.settings);
        if section != Some(&cell.section) {
            text.push_str(&format!("\n{}\n", cell.section));
            section = Some(&cell.section);
        }
        let rate = match settings.rate {
            Some(rate) => format!("{rate} requests/s"),
            None => "as fast as answers come".to_owned(),
        };
        let noun = |count: u32, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
        text.push_str(&format!(
            "  {:width$}  {}, {rate}, {} of {} s: {}\n",
            cell.title,
            noun(settings.connections(), "connection"),
            noun(settings.rounds(), "round"),
            settings.seconds(),
            cell.systems.join(", "),
        ));
    }
    text
}

fn announce(study: &Study, plan: &Plan) {
    say!("{}: {} cells, about {}", study.title, plan.cells.len(), minutes(plan.seconds));
    for title in &plan.experiments {
        say!("  then: {title}");
    }
    for text in &plan.scaled {
        say!("  made smaller: {text}");
    }
}

/// Returns the content of the result file if the run continues it.
fn earlier(out: &Path, study: &Study, options: &RunOptions) -> Result<Option<Results>, String> {
    if options.fresh || !out.exists() || fs::metadata(out).is_ok_and(|data| data.len() == 0) {
        return Ok(None);
    }
    let results = load_results(out)?;
    if results.header.study != study.name {
        return Err(format!(
            "{} holds the study {}; name another file with --out, or start over with --fresh",
            out.display(),
            results.header.study
        ));
    }
    if results.end.is_some() {
        return Err(format!(
            "{} holds a whole run; name another file with --out, or start over with --fresh",
            out.display()
        ));
    }
    Ok(Some(results))
}

/// Refuses to continue a result file with a program that was built or installed since its last line: the rounds of a
/// cell would be of two programs.
fn unchanged(out: &Path, study: &Study, plan: &Plan, catalogue: &Catalogue) -> Result<(), String> {
    let say = |error: std::io::Error| format!("{}: {error}", out.display());
    let written = fs::metadata(out).and_then(|data| data.modified()).map_err(say)?;
    let written = written.duration_since(UNIX_EPOCH).unwrap_or_default();
    let names: BTreeSet<&String> = plan.cells.iter().flat_map(|planned| &planned.cell.systems).collect();
    for name in names {
        let system = study.arms.get(name).map_or(name, |arm| &arm.system);
        let Some(Status::Ready { programs, .. }) = catalogue.get(system).ok().map(System::status) else {
            continue;
        };
        let newer = programs.values().find(|file| {
            // The change time of the inode: a package manager sets the other times to the past.
            fs::metadata(file).is_ok_and(|data| {
                let nanoseconds = u32::try_from(data.ctime_nsec()).unwrap_or(0);
                Duration::new(u64::try_from(data.ctime()).unwrap_or(0), nanoseconds) > written
            })
        });
        if let Some(file) = newer {
            return Err(format!(
                "{} of {name} is newer than the last line of {}: its rounds would be of two programs; name another file \
                 with --out, or start over with --fresh",
                file.display(),
                out.display()
            ));
        }
    }
    Ok(())
}

fn open(out: &Path, append: bool) -> Result<File, String> {
    let say = |error: std::io::Error| format!("{}: {error}", out.display());
    if let Some(folder) = out.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(say)?;
    }
    if append {
        cut_last_line(out).map_err(say)?;
        return File::options().append(true).open(out).map_err(say);
    }
    File::create(out).map_err(say)
}

/// Removes an incomplete last line, so that the next line starts properly.
fn cut_last_line(out: &Path) -> std::io::Result<()> {
    let bytes = fs::read(out)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    File::options().write(true).open(out)?.set_len(whole as u64)
}

/// Returns the command line that repeats this run.
fn command(options: &RunOptions) -> String {
    let mut words =
        vec!["tollgate bench run".to_owned(), options.study.clone(), format!("--seed {}", options.seed)];
    words.extend(options.seconds.map(|seconds| format!("--seconds {seconds}")));
    words.extend(options.rounds.map(|rounds| format!("--rounds {rounds}")));
    if !options.systems.is_empty() {
        words.push(format!("--systems {}", options.systems.join(",")));
    }
    if !options.sections.is_empty() {
        words.push(format!("--sections {:?}", options.sections.join(",")));
    }
    words.extend(options.cores.as_ref().map(|cores| format!("--cores {cores}")));
    words.extend(options.kubernetes.then(|| "--kubernetes".to_owned()));
    words.extend(options.image.as_ref().map(|image| format!("--image {image}")));
    words.extend(options.gateway.as_ref().map(|file| {
        // The folder exists on this machine only.
        format!("--gateway {}", file.file_name().unwrap_or_default().to_string_lossy())
    }));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_cut_is_removed_before_the_next_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("r.jsonl");
        fs::write(&file, "{\"line\":1}\n{\"line\":2}\n{\"li").unwrap();
        cut_last_line(&file).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "{\"line\":1}\n{\"line\":2}\n");
    }
}
