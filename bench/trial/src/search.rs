//! Searches the threads and connections with which the generator sends the most, directly to the origin. It
//! runs before a study, because a generator at its own limit hides the differences between gateways. For the
//! first founding report the search was done by hand.

use crate::environment::Environment;
use crate::failure::Failure;
use crate::fleet::Fleet;
use crate::generator::Run;
use crate::load_plan::Aim;
use tollgate_lab_record::Line;
use tollgate_lab_study::{PlannedCell, Settings};

/// Tries every pair. Returns a table with a row for each, and a note that names the best.
///
/// # Errors
/// If the generator fails.
pub fn search(
    environment: &Environment,
    fleet: &Fleet,
    planned: &PlannedCell,
    threads: &[u32],
    connections: &[u32],
    seconds: f64,
) -> Result<Vec<Line>, Failure> {
    let Some(origin) = fleet.origin() else { return Ok(Vec::new()) };
    origin.borrow_mut().resume();
    let Some(to) = origin.borrow().for_client() else { return Ok(Vec::new()) };
    let body = origin.borrow().body.clone();
    let status = planned.settings.origin_status();
    let aim = Aim { to, url: None, body: Some(&body), status, tls: None };
    let mut rows = Vec::new();
    let mut best: Option<(f64, u32, u32)> = None;
    for threads in threads {
        for each in connections {
            let settings = Settings {
                threads: Some(*threads),
                connections: Some(each * threads),
                rate: None,
                relay: None,
                requests: None,
                ..planned.settings.clone()
            };
            let done = Run::start(environment, &settings, aim, seconds)?.finish(|| ())?;
            let load = done.load;
            let rps = load.rps();
            let us = done.used.cpu_us() / load.ok.max(1) as f64;
            rows.push(vec![
                threads.to_string(),
                load.connections.to_string(),
                format!("{rps:.0}"),
                format!("{us:.1}"),
                load.failures.total().to_string(),
            ]);
            if load.failures.total() == 0 && best.is_none_or(|(most, ..)| rps > most) {
                best = Some((rps, *threads, load.connections));
            }
        }
    }
    let head = ["threads", "connections", "requests/s, direct", "generator us a request", "failed"];
    let section = planned.cell.section.clone();
    let text = match best {
        Some((rps, threads, connections)) => format!(
            "The generator ({}) reaches most, {rps:.0} requests/s straight to the origin, with {threads} thread(s) and \
             {connections} connections.",
            planned.settings.tool()
        ),
        None => "The generator failed with every setting that was tried.".to_owned(),
    };
    Ok(vec![
        Line::Table { section: section.clone(), head: head.map(str::to_owned).to_vec(), rows },
        Line::Note { section, text },
    ])
}
