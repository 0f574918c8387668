//! Warms up a system that compiles at run time: runs load until its rate is steady, and keeps the trace.

use crate::environment::Environment;
use crate::failure::Failure;
use crate::generator::Run;
use crate::load_plan::plan;
use crate::target::Target;
use tollgate_lab_record::{LoadModel, LoadResult};
use tollgate_lab_stats::steady::{Steadiness, steady};
use tollgate_lab_study::Settings;

/// Seconds of load between two checks.
const PIECE: f64 = 10.0;

/// Loads the target for at most `limit` seconds. Returns the trace by the second, and in words since when the
/// rate was steady, or why it never was.
///
/// # Errors
/// If the generator fails.
pub fn warm(
    environment: &Environment,
    target: &Target,
    settings: &Settings,
    limit: f64,
) -> Result<(LoadResult, String), Failure> {
    let body = target.origin.borrow().body.clone();
    let aim = target.aim(settings, &body);
    let settings = Settings { requests: None, ..settings.clone() };
    let mut whole: Option<LoadResult> = None;
    let mut rates: Vec<f64> = Vec::new();
    let mut spent = 0.0;
    loop {
        let plan = plan(&settings, aim, PIECE, Some(LoadModel::Closed));
        let piece = Run::builtin(environment, &plan)?.finish(|| ())?.load;
        rates.extend(
            piece
                .windows
                .iter()
                .filter(|window| window.seconds > 0.5)
                .map(|window| window.ok as f64 / window.seconds),
        );
        match &mut whole {
            None => whole = Some(piece),
            Some(trace) => {
                trace.windows.extend(piece.windows.into_iter().map(|mut window| {
                    window.start += spent;
                    window
                }));
                trace.ok += piece.ok;
                trace.seconds += piece.seconds;
            }
        }
        spent += PIECE;
        let answer = steady(&rates);
        let words = match answer {
            Steadiness::From(start) => format!("steady from second {} on", start + 1),
            Steadiness::Never { why } => format!("never steady within {spent:.0} s: {why}"),
        };
        if let Some(trace) = whole.take_if(|_| matches!(answer, Steadiness::From(_)) || spent + PIECE > limit)
        {
            return Ok((trace, words));
        }
    }
}
