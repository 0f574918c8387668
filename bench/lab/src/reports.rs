//! Turns result files into reports and answers.

use crate::command::Pages;
use crate::print;
use std::fs::{self, File};
use std::io::{BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tollgate_lab_record::{Results, append, read};
use tollgate_lab_report::Choice;

/// The width in columns if the terminal does not report it.
const WIDTH: usize = 120;

/// Reads a result file.
pub fn load_results(file: &Path) -> Result<Results, String> {
    let open = File::open(file).map_err(|error| format!("{}: {error}", file.display()))?;
    read(BufReader::new(open)).map_err(|error| format!("{}: {error}", file.display()))
}

/// Prints the report.
pub fn show(results: &Results) -> Result<(), String> {
    let (width, colour) = width();
    print(&tollgate_lab_report::terminal(results, width, colour))
}

/// Writes the requested report files. The picture also shows the cells of `more`.
pub fn write_reports(results: &Results, more: &[Results], pages: &Pages) -> Result<(), String> {
    let Pages { html, markdown, svg, condensed } = pages;
    let write = |file: &Path, text: String| {
        fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        say!("written: {}", file.display());
        Ok::<(), String>(())
    };
    if let Some(file) = html {
        write(file, tollgate_lab_report::html(results))?;
    }
    if let Some(file) = markdown {
        write(file, tollgate_lab_report::markdown(results))?;
    }
    if let Some(file) = svg {
        let files: Vec<&Results> = std::iter::once(results).chain(more).collect();
        let text = tollgate_lab_report::svg_of(&files)
            .ok_or("nothing to draw: no cell has the CPU time of Tollgate, nginx, HAProxy or Envoy")?;
        write(file, text)?;
    }
    if let Some(file) = condensed {
        let mut bytes = Vec::new();
        for line in tollgate_lab_report::condense(results) {
            append(&mut bytes, &line).map_err(|error| format!("{}: {error}", file.display()))?;
        }
        write(file, String::from_utf8_lossy(&bytes).into_owned())?;
    }
    Ok(())
}

/// Implements `tollgate bench report`.
pub fn report(file: &Path, with: &[PathBuf], commentary: Option<&Path>, pages: &Pages) -> Result<(), String> {
    let mut results = load_results(file)?;
    if let Some(commentary) = commentary {
        let say = |text: String| format!("{}: {text}", commentary.display());
        let text = fs::read_to_string(commentary).map_err(|error| say(error.to_string()))?;
        tollgate_lab_report::comment(&mut results, &text).map_err(say)?;
    }
    if pages.is_empty() {
        return show(&results);
    }
    let more = with.iter().map(|file| load_results(file)).collect::<Result<Vec<_>, _>>()?;
    write_reports(&results, &more, pages)
}

fn width() -> (usize, bool) {
    let width = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok()).unwrap_or(WIDTH);
    (width, std::io::stdout().is_terminal())
}

/// Implements `tollgate bench compare`.
pub fn compare(before: &Path, after: &Path, reference: Option<&str>) -> Result<(), String> {
    let (width, colour) = width();
    let choice = Choice { reference, systems: &[] };
    let (before, after) = (load_results(before)?, load_results(after)?);
    known(reference, &[&before, &after])?;
    let comparison = tollgate_lab_report::compare(&before, &after, &choice);
    print(&comparison.terminal(width, colour))
}

/// Refuses a reference that is not in both files.
fn known(reference: Option<&str>, files: &[&Results]) -> Result<(), String> {
    let Some(name) = reference else { return Ok(()) };
    let in_all = |name: &str| files.iter().all(|file| file.systems.iter().any(|used| used.name == name));
    if in_all(name) {
        return Ok(());
    }
    let there: Vec<&str> =
        files[0].systems.iter().map(|used| used.name.as_str()).filter(|name| in_all(name)).collect();
    Err(format!("--reference {name}: not in both files; in both are {}", there.join(", ")))
}

/// Implements `tollgate bench gate`. The exit status is 0 passed, 1 failed, 2 nothing to compare.
pub fn gate(
    file: &Path,
    baseline: &Path,
    allow: f64,
    systems: &[String],
    reference: Option<&str>,
) -> Result<ExitCode, String> {
    let (new, old) = (load_results(file)?, load_results(baseline)?);
    known(reference, &[&new, &old])?;
    let gate = tollgate_lab_report::gate(&new, &old, allow, systems, reference);
    print(&format!("{gate}\n"))?;
    Ok(ExitCode::from(gate.exit_code()))
}

/// Implements `tollgate bench capacity`.
pub fn capacity(from: &Path, rps: f64, utilisation: f64, cell: Option<&str>) -> Result<(), String> {
    let (width, colour) = width();
    let results = load_results(from)?;
    let sizes = tollgate_lab_report::capacity::sizes(&results, rps);
    match tollgate_lab_report::capacity(&results, rps, utilisation, cell) {
        Ok(capacity) => print(&capacity.terminal(width, colour))?,
        // A quota sweep has no offered rate, but it still advises a size.
        Err(_) if cell.is_none() && !sizes.is_empty() => {}
        Err(error) => return Err(error.to_string()),
    }
    for (title, advice) in &sizes {
        print(&format!("{}\n", tollgate_lab_report::capacity::in_words(title, rps, advice)))?;
    }
    Ok(())
}
