//! Formats responses as text, JSON or YAML.

use serde_json::Value;
use tollgate_config::to_yaml;

use super::args::OutputFormat;
use super::line_diff::line_diff;

/// Formats a document as JSON or YAML.
pub fn document(value: &Value, output: OutputFormat) -> String {
    match output {
        OutputFormat::Json => format!("{value:#}\n"),
        OutputFormat::Text | OutputFormat::Yaml => to_yaml(value),
    }
}

/// Describes what a change has done or would do. `with_lines` adds the changed lines of each resource.
pub fn change(answer: &Value, with_lines: bool) -> String {
    let mut out = changes(&answer["changes"], with_lines);
    for warning in answer["warnings"].as_array().into_iter().flatten() {
        out.push_str(&format!("{}\n", warning["text"].as_str().unwrap_or_default().trim_end()));
    }
    let version = &answer["version"];
    let nothing = answer["changes"].as_array().is_some_and(Vec::is_empty);
    out.push_str(&match (nothing, answer["dry_run"].as_bool() == Some(true)) {
        (true, _) => format!("nothing to change: version {version}\n"),
        (false, true) => "this is what would change: nothing is done\n".to_owned(),
        (false, false) => format!("version {version}, in force as generation {}\n", answer["generation"]),
    });
    out
}

/// Lists changes, one line each: `+ routes/hello`.
pub fn changes(changes: &Value, with_lines: bool) -> String {
    let mut out = String::new();
    for change in changes.as_array().into_iter().flatten() {
        let sign = match change["change"].as_str() {
            Some("added") => '+',
            Some("removed") => '-',
            _ => '~',
        };
        out.push_str(&format!("{sign} {}/{}\n", text(&change["kind"]), text(&change["name"])));
        if with_lines {
            out.push_str(&line_diff(&yaml(&change["before"]), &yaml(&change["after"])));
        }
    }
    out
}

fn yaml(value: &Value) -> String {
    if value.is_null() { String::new() } else { to_yaml(value) }
}

/// Formats a value as a cell of a table.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Formats rows under their titles, in columns.
pub fn table(titles: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([titles[column].chars().count()]).max().unwrap_or_default()
    };
    let widths: Vec<_> = (0..titles.len()).map(width).collect();
    let mut out = line(&mut titles.iter().copied(), &widths);
    for row in rows {
        out.push_str(&line(&mut row.iter().map(String::as_str), &widths));
    }
    out
}

fn line(cells: &mut dyn Iterator<Item = &str>, widths: &[usize]) -> String {
    let cells = cells.zip(widths).map(|(cell, width)| format!("{cell:width$}"));
    format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
}

/// Cuts a text to the width of a cell.
pub fn truncate(text: &str) -> String {
    const WIDTH_MAX: usize = 60;
    match text.char_indices().nth(WIDTH_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
