//! The steps that a study takes once instead of in rounds: the probe of the requests that reach the origin,
//! the search for the generator's best settings, and the experiments. Each step is skipped if an earlier run
//! of the same result file has completed it.

use crate::arm::Arm;
use crate::datagrams::{Echoed, Sending, datagrams};
use crate::failure::Failure;
use crate::fleet::Fleet;
use crate::idle::{Idle, idle, judged};
use crate::received::{distinct, is_early, probe};
use crate::run::{Progress, Session, append_line};
use crate::runtime_route::{Way, add_route};
use crate::search::search;
use crate::transfer::transfer;
use std::collections::BTreeSet;
use std::io::Write;
use tollgate_lab_record::Line;
use tollgate_lab_study::{Analysis, PlannedCell};
use tollgate_lab_system::Status;

impl<W: Write, P: Progress> Session<'_, W, P> {
    /// Records what the origin receives from each system. The probe uses the settings of each section's first
    /// cell, and skips combinations that were already probed.
    pub(crate) fn probe(&mut self) -> Result<(), Failure> {
        if !self.environment.hosts.are_local() {
            return Ok(());
        }
        let earlier = self.earlier.iter().flat_map(|earlier| &earlier.received);
        let early: Vec<String> = earlier.filter(|one| is_early(one)).map(|one| one.system.clone()).collect();
        self.early.extend(early);
        let mut probed = BTreeSet::new();
        let mut sections = BTreeSet::new();
        for planned in &self.plan.cells {
            // The origin that records reads plain text alone.
            if planned.settings.passthrough() || !sections.insert(&planned.cell.section) {
                continue;
            }
            let all = planned.cell.systems.len();
            let arms = planned.cell.systems.iter().map(|name| Arm::of(self.study, name));
            // Behind a gateway that already runs, no origin records.
            let arms: Vec<Arm> = arms.filter(|arm| arm.external.is_none()).collect();
            if arms.len() < all && arms.iter().all(|arm| arm.system == "direct") {
                continue;
            }
            let keys: Vec<String> = arms.iter().map(|arm| distinct(arm, &planned.settings)).collect();
            if keys.iter().all(|key| probed.contains(key)) {
                continue;
            }
            probed.extend(keys);
            let earlier = self.earlier.iter().flat_map(|earlier| &earlier.received);
            if earlier.into_iter().any(|received| received.section == planned.cell.section) {
                continue;
            }
            self.progress.say(&format!("{}: asking what the origin receives", planned.cell.section));
            for received in probe(self.environment, &arms, planned)? {
                if is_early(&received) {
                    self.early.insert(received.system.clone());
                }
                append_line(&mut self.out, &Line::Received(received))?;
            }
        }
        Ok(())
    }

    /// Searches the generator's best settings, if the study asks for it in this section.
    pub(crate) fn search(&mut self, fleet: &Fleet, planned: &PlannedCell) -> Result<(), Failure> {
        for analysis in &self.study.analyses {
            if let Analysis::GeneratorSearch { section, threads, connections, seconds } = analysis
                && section == &planned.cell.section
                && !self
                    .earlier
                    .iter()
                    .flat_map(|earlier| &earlier.tables)
                    .any(|(title, ..)| title == section)
            {
                self.progress.say("searching the generator's best threads and connections");
                for line in search(self.environment, fleet, planned, threads, connections, *seconds)? {
                    append_line(&mut self.out, &line)?;
                }
            }
        }
        Ok(())
    }

    /// Adds routes at run time, if the study asks for it.
    pub(crate) fn add_routes(&mut self) -> Result<(), Failure> {
        for analysis in &self.study.analyses {
            let Analysis::RuntimeRoute { systems, routes, rate, times } = analysis else { continue };
            let mut rows = Vec::new();
            for name in self.asked(systems, analysis) {
                let system = self.environment.catalogue.get(name)?;
                let ways = Way::of(system);
                if ways.is_empty() {
                    let why = match system.status() {
                        Status::Missing { reason, .. } => reason,
                        _ => "no way is described".to_owned(),
                    };
                    rows.push(out(name, &Failure(format!("missing: {why}")), 8));
                }
                for (way, routes) in ways.iter().flat_map(|way| routes.iter().map(move |count| (way, *count)))
                {
                    let reported = way.reported();
                    self.progress
                        .say(&format!("{name}: a route added to {routes} under load, by {reported}"));
                    let mut row = vec![name.clone(), reported, routes.to_string()];
                    match add_route(self.environment, system, way, routes, *rate, *times) {
                        Ok(added) => {
                            let (before, around) = added.p99();
                            row.extend([
                                times_ms(added.answer(), &added.answered),
                                times_ms(added.serving(), &added.served),
                                format!("{} of {}", added.failed, added.requests),
                                format!("{before:.2}"),
                                format!("{around:.2}"),
                            ]);
                        }
                        Err(failure) => {
                            row.push(failure.0);
                            row.resize(8, String::new());
                        }
                    }
                    rows.push(row);
                }
            }
            let head = [
                "system",
                "how it is told",
                "routes before",
                "ms until it answered: median (each)",
                "ms from then until the route served: median (each)",
                "requests that failed meanwhile",
                "p99 before, ms",
                "p99 meanwhile, ms",
            ];
            self.table(analysis, &head, rows)?;
        }
        Ok(())
    }

    /// Measures the memory of idle connections, if the study asks for it.
    pub(crate) fn idle_memory(&mut self) -> Result<(), Failure> {
        for analysis in &self.study.analyses {
            let Analysis::IdleMemory { systems, connections, tls, tcp, bars } = analysis else { continue };
            let mut all = Vec::new();
            for system in self.asked(systems, analysis) {
                let kind = if *tls { "TLS connections" } else { "connections" };
                self.progress.say(&format!("{system}: memory of {connections} idle {kind}"));
                all.push((
                    system,
                    idle(self.environment, &Arm::of(self.study, system), *connections, *tls, *tcp),
                ));
            }
            let least = |own: &str| {
                let others = all.iter().filter(|(system, _)| *system != own);
                others.filter_map(|(_, idle)| Some(idle.as_ref().ok()?.each_kib())).reduce(f64::min)
            };
            let row = |(system, idle): &(&String, Result<Idle, Failure>)| match idle {
                Ok(idle) => vec![
                    (*system).clone(),
                    idle.connections.to_string(),
                    mib(idle.before),
                    mib(idle.held),
                    format!("{:.2}", idle.each_kib()),
                    mib(idle.after),
                    format!("{:.2}", idle.back()),
                    idle.judged(bars, least(system)),
                ],
                Err(failure) => out(system, failure, 8),
            };
            let rows = all.iter().map(row).collect();
            let head = [
                "system",
                "idle connections",
                "MiB before",
                "MiB with them",
                "KiB each",
                "MiB after a burst",
                "after over before",
                "against the bars",
            ];
            self.table(analysis, &head, rows)?;
        }
        Ok(())
    }

    /// Sends datagrams through the systems, if the study asks for it.
    pub(crate) fn datagrams(&mut self) -> Result<(), Failure> {
        for analysis in &self.study.analyses {
            let Analysis::Datagrams { systems, rate, bytes, sockets, rounds, seconds, beside } = analysis
            else {
                continue;
            };
            let asked = self.asked(systems, analysis);
            let arms: Vec<Arm> = asked.iter().map(|name| Arm::of(self.study, name)).collect();
            if arms.is_empty() {
                continue;
            }
            let sending = Sending {
                rate: *rate,
                bytes: *bytes as usize,
                sockets: *sockets as usize,
                rounds: *rounds,
                seconds: *seconds,
            };
            self.progress.say(&format!("{rate} datagrams a second of {bytes} bytes, {rounds} rounds"));
            let all = datagrams(self.environment, &arms, sending)?;
            // The judged system is the first of the study, which this run may leave out.
            let first = asked.first().filter(|name| Some(**name) == systems.first());
            let own = first.and_then(|_| all.first()?.as_ref().ok());
            let cost = |echoed: &&Echoed| echoed.cost_us().unwrap_or(f64::INFINITY);
            let peers = all.iter().skip(1).filter_map(|one| one.as_ref().ok());
            let best = peers.min_by(|a, b| cost(a).total_cmp(&cost(b)));
            let ratio = own.zip(best).and_then(|(own, best)| own.ratio_to(best));
            let row = |(index, (name, echoed)): (usize, (&&String, &Result<Echoed, Failure>))| match echoed {
                Ok(echoed) => {
                    let (sent, lost, wrong) = echoed.counts();
                    let ratio = ratio.as_ref().filter(|_| index == 0);
                    let figures = ratio.map(|ratio| [("ratio", ratio.estimate, *beside)]);
                    vec![
                        (*name).clone(),
                        sent.to_string(),
                        lost.to_string(),
                        wrong.to_string(),
                        echoed.p99_ms().map_or("-".to_owned(), |ms| format!("{ms:.2}")),
                        echoed.cost_us().map_or("-".to_owned(), |us| format!("{us:.2}")),
                        ratio.map_or(String::new(), |of| {
                            format!("{:.2} ({:.2}-{:.2})", of.estimate, of.low, of.high)
                        }),
                        figures.map_or(String::new(), |figures| judged(&figures)),
                    ]
                }
                Err(failure) => out(name, failure, 8),
            };
            let rows = asked.iter().zip(&all).enumerate().map(row).collect();
            let head = [
                "system",
                "sent",
                "lost",
                "wrong",
                "p99 of the answer, ms",
                "CPU us a datagram and its answer",
                "to the lower of the others (95 %)",
                "against the bar",
            ];
            self.table(analysis, &head, rows)?;
        }
        Ok(())
    }

    /// Transfers a large body in both directions, if the study asks for it.
    pub(crate) fn large_body(&mut self) -> Result<(), Failure> {
        for analysis in &self.study.analyses {
            let Analysis::LargeBody { systems, bytes, peak_mib } = analysis else { continue };
            let mut rows = Vec::new();
            for system in self.asked(systems, analysis) {
                self.progress.say(&format!("{system}: {bytes} bytes up and down"));
                match transfer(self.environment, &Arm::of(self.study, system), *bytes) {
                    Ok(both) => rows.extend(both.into_iter().map(|moved| {
                        vec![
                            system.clone(),
                            moved.way.to_owned(),
                            bytes.to_string(),
                            moved.problem.unwrap_or_else(|| "exact".to_owned()),
                            mib(moved.peak_kib),
                            format!("{:.1}", moved.seconds),
                            judged(&[("peak", moved.peak_kib as f64 / 1024.0, *peak_mib)]),
                        ]
                    })),
                    Err(failure) => rows.push(out(system, &failure, 7)),
                }
            }
            let head =
                ["system", "way", "bytes", "what arrived", "peak memory, MiB", "seconds", "against the bar"];
            self.table(analysis, &head, rows)?;
        }
        Ok(())
    }

    /// Returns the systems of the analysis that this run has to measure: none if its table is not selected or
    /// an earlier run of the file has written it.
    fn asked<'s>(&self, systems: &'s [String], analysis: &Analysis) -> Vec<&'s String> {
        let table = analysis.experiment().filter(|title| self.plan.experiments.contains(title));
        let done = || {
            let mut tables = self.earlier.iter().flat_map(|earlier| &earlier.tables);
            tables.any(|(title, ..)| Some(title.as_str()) == table)
        };
        let wanted = table.is_some() && !done();
        systems.iter().filter(|name| wanted && self.plan.has_system(name)).collect()
    }

    fn table(&mut self, analysis: &Analysis, head: &[&str], rows: Vec<Vec<String>>) -> Result<(), Failure> {
        let Some(title) = analysis.experiment().filter(|_| !rows.is_empty()) else { return Ok(()) };
        let head = head.iter().map(|word| (*word).to_owned()).collect();
        append_line(&mut self.out, &Line::Table { section: title.to_owned(), head, rows })
    }
}

/// Returns the row of a system without figures: the reason, then empty cells.
fn out(system: &str, failure: &Failure, columns: usize) -> Vec<String> {
    let mut row = vec![system.to_owned(), failure.0.clone()];
    row.resize(columns, String::new());
    row
}

/// Formats a median and the values behind it, in milliseconds.
fn times_ms(median: Option<f64>, each: &[f64]) -> String {
    let Some(median) = median else { return "-".to_owned() };
    let each: Vec<String> = each.iter().map(|ms| format!("{ms:.1}")).collect();
    format!("{median:.1} ({})", each.join(", "))
}

fn mib(kib: u64) -> String {
    format!("{:.1}", kib as f64 / 1024.0)
}
