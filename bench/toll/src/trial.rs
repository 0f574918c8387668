//! One cell, measured: all targets up, then rounds in which each takes its turn.
//!
//! Targets take turns within a round, and each round begins with another one, so that a slow minute of the machine
//! falls on all alike.

use crate::cells::{Cell, Pace, Twist};
use crate::configs::{MANY_ROUTES, Terms};
use crate::failure::Failure;
use crate::load::{self, Arrivals, Outcome};
use crate::meter;
use crate::result::{CellResult, DIRECT, Row, Sample};
use crate::target::{Ground, Running, System, start};
use std::fs;
use std::io::{BufRead, BufReader};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Seconds of load before each measurement.
const WARM_UP: f64 = 0.3;

/// Seconds of each attempt to find out whether a rate can be kept.
const ATTEMPT: f64 = 0.5;

/// A rate counts as kept when this share of it was achieved.
const KEPT: f64 = 0.95;

/// Times a rate is lowered, by a fifth each, before the cell runs as it is.
const LOWERINGS: u32 = 5;

/// Requests that [`start`] makes: one until it answers, one for the terms.
const CHECKS: u64 = 2;

/// How a run measures.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Rounds a cell.
    pub rounds: usize,
    /// Seconds a measurement.
    pub seconds: f64,
    /// How connections begin.
    pub arrivals: Arrivals,
    /// nginx gets larger buffers than its defaults.
    pub tuned_nginx: bool,
}

/// What a cell asks of a target's configuration.
pub fn terms(cell: &Cell, tuned_nginx: bool) -> Terms {
    Terms {
        access_log: cell.twist == Twist::AccessLog,
        routes: if cell.twist == Twist::Routes { MANY_ROUTES } else { 0 },
        clients: cell.connections,
        streaming: false,
        tuned_nginx,
    }
}

/// A target with its row.
struct Entrant {
    row: Row,
    running: Option<Running>,
    port: u16,
    /// Responses that it gave so far, checks included, which its access log must show.
    served: u64,
}

impl Entrant {
    fn enter(ground: &Ground, system: System, terms: &Terms) -> Self {
        let row = Row { name: system.name(), ..Row::default() };
        match start(ground, system, terms, ground.origin_port()) {
            Ok(running) => Self {
                row: Row { ready_ms: Some(running.ready_ms), ..row },
                port: running.port,
                running: Some(running),
                served: CHECKS,
            },
            Err(failure) => Self {
                row: Row { missing: Some(failure.to_string()), ..row },
                running: None,
                port: 0,
                served: 0,
            },
        }
    }

    /// The origin itself: no process of its own to account for.
    fn direct(ground: &Ground) -> Self {
        Self {
            row: Row { name: DIRECT, ..Row::default() },
            running: None,
            port: ground.origin_port(),
            served: 0,
        }
    }

    fn is_direct(&self) -> bool {
        self.row.name == DIRECT
    }

    fn load(
        &mut self,
        ground: &Ground,
        cell: &Cell,
        rate: u32,
        seconds: f64,
        arrivals: Arrivals,
    ) -> Result<Outcome, Failure> {
        let outcome = load::run(ground, cell, self.port, rate, seconds, arrivals)?;
        self.served += outcome.ok;
        Ok(outcome)
    }

    fn measure(&mut self, ground: &Ground, cell: &Cell, rate: u32, settings: &Settings) {
        // The direct row only says what latency there is without a gateway: a short look will do.
        let seconds = if self.is_direct() { settings.seconds / 3.0 } else { settings.seconds };
        // wrk's shortest run is a second: there the first round warms up for all.
        let warm = match cell.pace {
            Pace::Rate(_) => !self.is_direct(),
            Pace::Close => self.row.samples.is_empty(),
        };
        if warm && let Err(failure) = self.load(ground, cell, rate, WARM_UP, settings.arrivals) {
            self.row.samples.push(failed(&failure));
            return;
        }
        let root = self.running.as_ref().map(Running::id);
        let before = root.map(meter::cpu);
        let outcome = self.load(ground, cell, rate, seconds, settings.arrivals);
        let used = root.zip(before).map(|(root, before)| meter::cpu(root).since(&before));
        self.row.samples.push(match outcome {
            Ok(outcome) => {
                let problem = problem_of(cell, rate, &outcome);
                Sample { cpu: used, outcome, problem }
            }
            Err(failure) => failed(&failure),
        });
    }
}

fn failed(failure: &Failure) -> Sample {
    Sample { cpu: None, outcome: Outcome::default(), problem: Some(failure.to_string()) }
}

/// Why a measurement does not count, if so.
fn problem_of(cell: &Cell, rate: u32, outcome: &Outcome) -> Option<String> {
    let expected = outcome.ok * cell.body as u64;
    if outcome.failed > 0 || outcome.ok == 0 {
        return Some(format!("{} of {} requests failed", outcome.failed, outcome.failed + outcome.ok));
    }
    if let Some(bytes) = outcome.body_bytes.filter(|bytes| *bytes != expected) {
        return Some(format!("{bytes} bytes of bodies where {expected} were due"));
    }
    let kept = matches!(cell.pace, Pace::Close) || outcome.rate() >= KEPT * f64::from(rate);
    (!kept).then(|| format!("only {:.0} of {rate} requests/s were answered", outcome.rate()))
}

/// Measures a cell; `tell` gets a word on progress.
pub fn run(ground: &Ground, cell: &Cell, settings: &Settings, tell: &dyn Fn(&str)) -> CellResult {
    let terms = terms(cell, settings.tuned_nginx);
    let mut entrants: Vec<Entrant> =
        System::ALL.iter().map(|system| Entrant::enter(ground, *system, &terms)).collect();
    entrants.push(Entrant::direct(ground));
    let mut notes = Vec::new();
    let rate = match cell.pace {
        Pace::Rate(wanted) => {
            let rate = settle(ground, cell, wanted, settings, &mut entrants);
            if rate != wanted {
                notes.push(format!(
                    "{wanted} requests/s could not be kept by all here; every target got {rate}"
                ));
            }
            rate
        }
        Pace::Close => 0,
    };
    for round in 0..settings.rounds {
        tell(&format!("{}: round {} of {}", cell.title, round + 1, settings.rounds));
        for turn in 0..entrants.len() {
            let at = (round + turn) % entrants.len();
            if entrants[at].row.missing.is_none() {
                entrants[at].measure(ground, cell, rate, settings);
            }
        }
    }
    if cell.twist == Twist::AccessLog {
        notes.extend(entrants.iter().filter_map(log_note));
    }
    let rows = entrants
        .into_iter()
        .map(|entrant| {
            let memory = entrant.running.as_ref().map(|running| meter::memory(running.id()));
            Row { memory, ..entrant.row }
        })
        .collect();
    CellResult { cell: cell.clone(), rate: Some(rate).filter(|rate| *rate > 0), notes, rows }
}

/// Finds the highest rate, from the wanted one down by fifths, that every target keeps; warms all up on the way.
fn settle(ground: &Ground, cell: &Cell, wanted: u32, settings: &Settings, entrants: &mut [Entrant]) -> u32 {
    let mut rate = wanted;
    for _ in 0..LOWERINGS {
        let all_keep_it =
            entrants.iter_mut().filter(|entrant| entrant.row.missing.is_none()).all(|entrant| {
                // A second chance, for a slow half second of the machine must not change the cell.
                (0..2).any(|_| {
                    entrant
                        .load(ground, cell, rate, ATTEMPT, settings.arrivals)
                        .is_ok_and(|outcome| outcome.rate() >= KEPT * f64::from(rate))
                })
            });
        if all_keep_it {
            return rate;
        }
        rate = rate * 4 / 5;
    }
    rate
}

/// Says whether a target's log has a line for every response; a buffered log gets two seconds to be written.
fn log_note(entrant: &Entrant) -> Option<String> {
    let running = entrant.running.as_ref()?;
    let deadline = Instant::now() + Duration::from_secs(2);
    loop {
        let lines = fs::File::open(running.access_log())
            .map_or(0, |file| BufReader::new(file).split(b'\n').map_while(Result::ok).count() as u64);
        if lines >= entrant.served || Instant::now() > deadline {
            return Some(format!("{}: {lines} log lines for {} responses", entrant.row.name, entrant.served));
        }
        sleep(Duration::from_millis(200));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::ALL;

    fn outcome(ok: u64, failed: u64, body_bytes: Option<u64>) -> Outcome {
        Outcome { ok, failed, seconds: 1.0, body_bytes, ..Outcome::default() }
    }

    #[test]
    fn a_clean_run_counts() {
        assert_eq!(problem_of(&ALL[1], 32_000, &outcome(32_000, 0, Some(64_000))), None);
        assert_eq!(problem_of(&ALL[9], 0, &outcome(5, 0, None)), None);
    }

    #[test]
    fn failures_lost_bytes_and_a_lagging_rate_do_not() {
        let problem = |outcome| problem_of(&ALL[1], 32_000, &outcome).unwrap_or_default();
        assert!(problem(outcome(31_999, 1, Some(63_998))).contains("1 of 32000 requests failed"));
        assert!(problem(outcome(32_000, 0, Some(63_999))).contains("63999 bytes"));
        assert!(problem(outcome(20_000, 0, Some(40_000))).contains("only 20000 of 32000"));
        assert!(problem(outcome(0, 0, None)).contains("0 of 0"));
    }

    #[test]
    fn cells_ask_for_what_their_twist_needs() {
        let by_id = |id: &str| ALL.iter().find(|cell| cell.id == id).cloned().unwrap();
        assert!(terms(&by_id("log-64"), false).access_log);
        assert_eq!(terms(&by_id("routes-64"), false).routes, MANY_ROUTES);
        assert!(!terms(&by_id("2b-64"), false).access_log && terms(&by_id("2b-64"), true).tuned_nginx);
    }
}
