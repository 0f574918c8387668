//! What a study asks for once: what the origin receives, the generator's own best, routes added at run time.

use crate::arm::Arm;
use crate::failure::Failure;
use crate::fleet::Fleet;
use crate::received::probe;
use crate::run::{Progress, Session, append_line};
use crate::runtime_route::add_route;
use crate::search::search;
use std::io::Write;
use tollgate_lab_record::Line;
use tollgate_lab_study::{Analysis, PlannedCell};

impl<W: Write, P: Progress> Session<'_, W, P> {
    /// What the origin receives from each system, asked once a study with the settings of its first cell.
    pub(crate) fn probe(&mut self) -> Result<(), Failure> {
        let Some(planned) = self.plan.cells.first() else { return Ok(()) };
        if self.earlier.as_ref().is_some_and(|earlier| !earlier.received.is_empty()) {
            return Ok(());
        }
        let mut names: Vec<&String> = Vec::new();
        for name in self.plan.cells.iter().flat_map(|planned| &planned.cell.systems) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        self.progress.say("asking what the origin receives from each system");
        let arms: Vec<Arm> = names.iter().map(|name| Arm::of(self.study, name)).collect();
        for received in probe(self.ground, &arms, &planned.settings)? {
            append_line(&mut self.out, &Line::Received(received))?;
        }
        Ok(())
    }

    /// The generator's own best, where the study asks for it before a section.
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
                for line in search(self.ground, fleet, planned, threads, connections, *seconds)? {
                    append_line(&mut self.out, &line)?;
                }
            }
        }
        Ok(())
    }

    /// Routes added at run time, where the study asks for it.
    pub(crate) fn add_routes(&mut self) -> Result<(), Failure> {
        for analysis in &self.study.analyses {
            let Analysis::RuntimeRoute { systems, routes, rate, times } = analysis else { continue };
            let mut rows = Vec::new();
            for system in systems {
                for routes in routes {
                    self.progress.say(&format!("{system}: a route added to {routes} under load"));
                    rows.push(match add_route(self.ground, system, *routes, *rate, *times) {
                        Ok(added) => vec![
                            system.clone(),
                            routes.to_string(),
                            added.median().map_or_else(|| "-".into(), |ms| format!("{ms:.1}")),
                            added
                                .milliseconds
                                .iter()
                                .map(|ms| format!("{ms:.0}"))
                                .collect::<Vec<_>>()
                                .join(", "),
                            format!("{} of {}", added.failed, added.requests),
                            format!("{:.1}", added.p99_ms),
                        ],
                        Err(failure) => {
                            let mut row = vec![system.clone(), routes.to_string(), failure.0];
                            row.resize(6, String::new());
                            row
                        }
                    });
                }
            }
            let head = [
                "system",
                "routes before",
                "ms until the new route answers (median)",
                "each time",
                "requests that failed meanwhile",
                "worst p99 meanwhile, ms",
            ];
            let section = "A route added at run time".to_owned();
            append_line(
                &mut self.out,
                &Line::Table { section, head: head.map(str::to_owned).to_vec(), rows },
            )?;
        }
        Ok(())
    }
}
