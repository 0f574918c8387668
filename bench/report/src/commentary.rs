//! Commentary: what a person learned from one run, written in a file of its own and merged into the run's report.
//!
//! The first line names the run by its start, `Run: 2026-11-27T10:00:00Z`, as the result file has it. A report of
//! another run refuses it, so that no conclusion outlives the figures that it was drawn from.

use tollgate_lab_record::Results;

/// The prefix of the first line.
const RUN: &str = "Run: ";

/// The prefix of the note that a commentary becomes. Reports show the note under their first sentence.
const NOTE: &str = "**What was learned** from the run of ";

/// Merges a commentary into the results, in place of an earlier one.
///
/// # Errors
/// If it names no run, or another one than the results are of.
pub fn comment(results: &mut Results, text: &str) -> Result<(), String> {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let run = first
        .strip_prefix(RUN)
        .map(str::trim)
        .ok_or_else(|| format!("the first line names no run: expected `{RUN}{}`", results.header.started))?;
    if run != results.header.started {
        return Err(format!(
            "it speaks of the run of {run}, and the results are of the run of {}",
            results.header.started
        ));
    }
    results.notes.retain(|(_, note)| !note.starts_with(NOTE));
    results.notes.push((String::new(), format!("{NOTE}{run}\n\n{}", rest.trim())));
    Ok(())
}
