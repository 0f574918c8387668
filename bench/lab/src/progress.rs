//! Prints the progress of a study to standard error, one line for each trial.

use std::time::Instant;
use tollgate_lab_record::{Status, Trial};
use tollgate_lab_study::PlannedCell;
use tollgate_lab_trial::Progress;

/// Progress on standard error.
#[derive(Debug)]
pub struct Printed {
    begun: Instant,
    cell: String,
}

impl Printed {
    /// Starts the clock for the estimate of the time left.
    pub fn new() -> Self {
        Self { begun: Instant::now(), cell: String::new() }
    }
}

impl Progress for Printed {
    fn say(&mut self, text: &str) {
        say!("{text}");
    }

    fn trial(&mut self, share: f64, cell: &PlannedCell, trial: &Trial) {
        let title = format!("{}: {}", cell.cell.section, cell.cell.title);
        if title != self.cell {
            say!("\n{title}");
            self.cell = title;
        }
        let left = if share > 0.0 { self.begun.elapsed().as_secs_f64() * (1.0 - share) / share } else { 0.0 };
        let figures = match (&trial.status, &trial.load) {
            (Status::Good, Some(load)) => {
                let cost = trial
                    .cost
                    .map_or_else(|| "        -".into(), |cost| format!("{:7.2} us", cost.total_us()));
                let p99 = load
                    .latency()
                    .and_then(|times| times.percentile(99.0))
                    .map_or_else(|| "-".into(), |p99| format!("{p99:.0} us"));
                let failed = load.failures.total();
                let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
                format!("{cost} CPU, {:8.0}/s, p99 {p99}{failed}", load.rps())
            }
            (Status::Bad { reason }, _) => reason.clone(),
            (Status::Good, None) => "no result".into(),
        };
        say!(
            "  {:3.0} %, {:.0} min left  round {}  {:24} {figures}",
            share * 100.0,
            (left / 60.0).ceil(),
            trial.round,
            trial.system
        );
    }
}
