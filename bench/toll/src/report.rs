//! What a person reads: a table a cell, memory tables, and the summary in Markdown.

use crate::cells::GOAL;
use crate::idle::BACK;
use crate::result::{CellResult, IdleMemory, Row, Run, SUBJECT, Sample, Transfer, Verdict, cpu};
use crate::stats::{median, spread};

/// Bar: KiB of memory an idle client connection.
const IDLE_BAR: f64 = 1.0;

/// Bar: KiB of the whole process with all idle connections open.
const PROCESS_BAR: u64 = 24 * 1024;

/// Bar: KiB of peak memory during a large transfer.
const TRANSFER_BAR: u64 = 32 * 1024;

/// Lays out rows of cells in columns: the first to the left, the others to the right.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (at, cell) in row.iter().enumerate() {
            let gap = " ".repeat(widths[at].saturating_sub(cell.chars().count()));
            line += &if at == 0 { format!("  {cell}{gap}") } else { format!("  {gap}{cell}") };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn shown(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.decimals$}"))
}

fn range(spread: Option<(f64, f64)>, decimals: usize) -> String {
    spread.map_or_else(|| "-".into(), |(low, high)| format!("{low:.decimals$}-{high:.decimals$}"))
}

fn mib(kib: u64) -> String {
    format!("{:.1}", kib as f64 / 1024.0)
}

/// The table of one cell.
pub fn cell(result: &CellResult) -> String {
    let load = result.rate.map_or_else(|| "closed loop".into(), |rate| format!("{rate} requests/s offered"));
    let rounds = result.rows.iter().map(|row| row.samples.len()).max().unwrap_or(0);
    let clock = result.rows.iter().find_map(|row| row.samples.iter().find_map(|sample| sample.cpu));
    let clock = clock.map_or_else(String::new, |cpu| format!(", CPU time from {}", cpu.clock.name()));
    let mut text = format!("{}: {load}, median of {rounds} rounds{clock}\n", result.cell.title);
    let mut rows = vec![
        [
            "target",
            "CPU us/req",
            "(min-max)",
            "user",
            "system",
            "x better peer",
            "requests/s",
            "mean us",
            "p50 us",
            "p99 us",
            "RSS MiB",
            "PSS MiB",
            "ready ms",
        ]
        .map(String::from)
        .to_vec(),
    ];
    rows.extend(result.rows.iter().map(|row| table_row(result, row)));
    text += &aligned(&rows);
    for row in &result.rows {
        if let Some(why) = &row.missing {
            text += &format!("  {}: not measured: {why}\n", row.name);
        }
        for (round, sample) in row.samples.iter().enumerate() {
            if let Some(problem) = &sample.problem {
                text += &format!("  {}: round {} does not count: {problem}\n", row.name, round + 1);
            }
        }
    }
    for note in &result.notes {
        text += &format!("  note: {note}\n");
    }
    text + &verdict_lines(result)
}

fn table_row(result: &CellResult, row: &Row) -> Vec<String> {
    let part = |at: usize| move |sample: &Sample| sample.cpu_per_request().map(|parts| parts[at]);
    let latency =
        |pick: fn(&Sample) -> f64| row.median(move |sample| Some(pick(sample)).filter(|us| *us > 0.0));
    vec![
        row.name.into(),
        shown(row.median(cpu), 2),
        range(row.spread(cpu), 2),
        shown(row.median(part(1)), 2),
        shown(row.median(part(2)), 2),
        shown(median(&result.ratios_to_better_peer(row.name, cpu)), 2),
        shown(row.median(|sample| Some(sample.outcome.rate())), 0),
        shown(latency(|sample| sample.outcome.latency.mean), 0),
        shown(latency(|sample| sample.outcome.latency.p50), 0),
        shown(latency(|sample| sample.outcome.latency.p99), 0),
        row.memory.map_or_else(|| "-".into(), |memory| mib(memory.rss)),
        row.memory.filter(|memory| memory.pss > 0).map_or_else(|| "-".into(), |memory| mib(memory.pss)),
        shown(row.ready_ms, 0),
    ]
}

fn verdict_lines(result: &CellResult) -> String {
    let Some(ratio) = result.cpu_ratio() else { return String::new() };
    let ratios = result.ratios_to_better_peer(SUBJECT, cpu);
    let bar = result
        .cell
        .bars
        .cpu
        .map_or_else(String::new, |bar| format!(", bar {bar:.2}: {}", result.cpu_verdict().text()));
    let mut text = format!("  => CPU {ratio:.2} x the better peer ({}){bar}\n", range(spread(&ratios), 2));
    if let Some(ratio) = result.p99_ratio() {
        let bar = result
            .cell
            .bars
            .p99
            .map_or_else(String::new, |bar| format!(", bar {bar:.2}: {}", result.p99_verdict().text()));
        text += &format!("  => p99 {ratio:.2} x the lower peer{bar}\n");
    }
    text
}

/// Memory of idle connections.
pub fn idle(results: &[IdleMemory]) -> String {
    let connections = results.iter().map(|result| result.connections).max().unwrap_or(0);
    let mut text = format!(
        "Memory of {connections} idle client connections, one request each (PSS of the process tree)\n"
    );
    let mut rows = vec![
        ["target", "before MiB", "with them MiB", "KiB/connection", "after a burst MiB", "after/before"]
            .map(String::from)
            .to_vec(),
    ];
    rows.extend(results.iter().filter(|result| result.missing.is_none()).map(|result| {
        vec![
            result.name.into(),
            mib(result.base),
            mib(result.held),
            format!("{:.2}", result.per_connection()),
            mib(result.after),
            format!("{:.2}", result.after_over_base()),
        ]
    }));
    text += &aligned(&rows);
    for result in results {
        if let Some(why) = &result.missing {
            text += &format!("  {}: not measured: {why}\n", result.name);
        }
    }
    text
}

/// Large bodies.
pub fn transfers(results: &[Transfer]) -> String {
    let mut rows = vec![["target", "direction", "peak MiB", "seconds", "bytes"].map(String::from).to_vec()];
    rows.extend(results.iter().map(|result| {
        let exact = result.problem.clone().unwrap_or_else(|| "exact".into());
        let seconds = format!("{:.1}", result.seconds);
        vec![result.name.into(), result.direction.into(), mib(result.peak), seconds, exact]
    }));
    format!("A body of 1 GiB (largest resident set of the process tree)\n{}", aligned(&rows))
}

/// The summary in Markdown, with bars and verdicts.
pub fn summary(run: &Run) -> String {
    let mut text = String::from(
        "| CPU us/request | tollgate | nginx | HAProxy | x better peer (min-max) | bar | verdict | p99 x lower peer | bar | verdict |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    let bar = |bar: Option<f64>| bar.map_or_else(|| "-".into(), |bar| format!("{bar:.2}"));
    for result in &run.cells {
        let figure = |name: &str| {
            let row = result.rows.iter().find(|row| row.name == name);
            shown(row.and_then(|row| row.median(cpu)), 2)
        };
        text += &format!(
            "| {} | {} | {} | {} | {} ({}) | {} | {} | {} | {} | {} |\n",
            result.cell.title,
            figure("tollgate"),
            figure("nginx"),
            figure("haproxy"),
            shown(result.cpu_ratio(), 2),
            range(spread(&result.ratios_to_better_peer(SUBJECT, cpu)), 2),
            bar(result.cell.bars.cpu),
            result.cpu_verdict().text(),
            shown(result.p99_ratio(), 2),
            bar(result.cell.bars.p99),
            result.p99_verdict().text(),
        );
    }
    let measured = run.cells.iter().filter(|result| result.cpu_ratio().is_some()).count();
    if measured > 0 {
        let reached = run.cells.iter().filter(|result| result.reaches_goal()).count();
        text += &format!(
            "\nThe goal of {GOAL:.2} x the better peer is reached in {reached} of {measured} cells.\n"
        );
    }
    text += &memory_summary(run);
    text
}

fn memory_summary(run: &Run) -> String {
    let mut lines: Vec<[String; 3]> = Vec::new();
    if let Some(idle) = run.idle.iter().find(|idle| idle.name == SUBJECT && idle.missing.is_none()) {
        let each = idle.per_connection();
        lines.push([
            format!("memory an idle client connection ({}): {each:.2} KiB", idle.connections),
            format!("{IDLE_BAR:.0} KiB"),
            Verdict::of(Some(each), Some(IDLE_BAR)).text(),
        ]);
        lines.push([
            format!("the process with them: {} MiB", mib(idle.held)),
            format!("{} MiB", mib(PROCESS_BAR)),
            Verdict::of(Some(idle.held as f64 / 1024.0), Some(PROCESS_BAR as f64 / 1024.0)).text(),
        ]);
        lines.push([
            format!("after a burst, over before: {:.2}", idle.after_over_base()),
            format!("{BACK:.2}"),
            Verdict::of(Some(idle.after_over_base()), Some(BACK)).text(),
        ]);
    }
    for transfer in run.transfers.iter().filter(|transfer| transfer.name == SUBJECT && transfer.bytes > 0) {
        let exact = transfer.problem.clone().unwrap_or_else(|| "byte-exact".into());
        let verdict = Verdict::of(Some(transfer.peak as f64 / 1024.0), Some(TRANSFER_BAR as f64 / 1024.0));
        lines.push([
            format!("{} of 1 GiB: peak {} MiB, {exact}", transfer.direction, mib(transfer.peak)),
            format!("{} MiB", mib(TRANSFER_BAR)),
            if transfer.problem.is_some() { "MISS".into() } else { verdict.text() },
        ]);
    }
    if lines.is_empty() {
        return String::new();
    }
    let rows: String =
        lines.iter().map(|[what, bar, verdict]| format!("| {what} | {bar} | {verdict} |\n")).collect();
    format!("\n| tollgate | bar | verdict |\n|---|---|---|\n{rows}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::{cell_result, sample};

    #[test]
    fn columns_line_up() {
        let text = aligned(&[vec!["a".into(), "1".into()], vec!["long".into(), "100".into()]]);
        assert_eq!(text, "  a       1\n  long  100\n");
    }

    #[test]
    fn a_cell_shows_figures_ratio_and_verdict() {
        let text = cell(&cell_result());
        assert!(
            text.starts_with(
                "2 B, 64 connections: 32000 requests/s offered, median of 3 rounds, CPU time from"
            )
        );
        assert!(text.contains("=> CPU 0.80 x the better peer (0.80-0.90), bar 0.86: PASS"), "{text}");
        assert!(text.contains("=> p99 0.80 x the lower peer, bar 1.00: PASS"), "{text}");
    }

    #[test]
    fn what_is_missing_or_failed_is_said() {
        let mut result = cell_result();
        result.rows[0] = Row { name: SUBJECT, missing: Some("no gateway binary".into()), ..Row::default() };
        result.rows[1].samples[2] = sample(1.0, 1.0, Some("3 of 9 requests failed"));
        let text = cell(&result);
        assert!(text.contains("tollgate: not measured: no gateway binary"), "{text}");
        assert!(text.contains("nginx: round 3 does not count: 3 of 9 requests failed"), "{text}");
        assert!(!text.contains("=>"), "{text}");
        let run = Run { cells: vec![result], ..Run::default() };
        assert!(summary(&run).contains("| not measured |"), "{}", summary(&run));
    }

    #[test]
    fn the_summary_holds_bars_and_memory() {
        let idle = IdleMemory {
            name: SUBJECT,
            connections: 5_000,
            base: 8_000,
            held: 16_000,
            after: 8_100,
            missing: None,
        };
        let transfer = Transfer {
            name: SUBJECT,
            direction: "upload",
            problem: None,
            bytes: 1,
            peak: 9_000,
            seconds: 1.0,
        };
        let run =
            Run { cells: vec![cell_result()], idle: vec![idle], transfers: vec![transfer], ..Run::default() };
        let text = summary(&run);
        assert!(text.contains("| 0.80 (0.80-0.90) | 0.86 | PASS |"), "{text}");
        assert!(text.contains("reached in 1 of 1 cells"), "{text}");
        assert!(text.contains("1.60 KiB | 1 KiB | MISS by 0.60 |"), "{text}");
        assert!(text.contains("peak 8.8 MiB, byte-exact | 32.0 MiB | PASS |"), "{text}");
    }
}
