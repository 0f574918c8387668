//! `tollgate controller status`: shows the gateways of a fleet.

use serde_json::Value;

use super::CommandOutput;
use super::args::{ControllerCommand, ControllerStatusArgs, OutputFormat};
use super::format;
use super::request::AdminApi;
use crate::plural::count_noun;

/// Shows what a controller reports.
pub fn controller(command: &ControllerCommand) -> Result<CommandOutput, String> {
    match command {
        ControllerCommand::Status(args) => status(args),
    }
}

fn status(args: &ControllerStatusArgs) -> Result<CommandOutput, String> {
    let fleet = AdminApi::new(&args.remote)?.get("/api/v1/fleet")?;
    Ok(CommandOutput::success(match args.output {
        OutputFormat::Text => status_text(&fleet),
        output => format::document(&fleet, output),
    }))
}

fn status_text(fleet: &Value) -> String {
    let documents = usize::try_from(fleet["documents"].as_u64().unwrap_or_default()).unwrap_or_default();
    let mut out =
        format!("version {}, {}\n", fleet["position"]["version"], count_noun(documents, "document"));
    if let Some(problem) = fleet["problem"].as_str() {
        out.push_str(&format!("the file is not in force: {problem}\n"));
    }
    for refused in fleet["refused"].as_array().into_iter().flatten() {
        let (resource, problem) = (format::text(&refused["resource"]), format::text(&refused["problem"]));
        out.push_str(&format!("{resource} is refused: {problem}\n"));
    }
    let purges = &fleet["purges"];
    if purges["last"].as_u64().is_some_and(|last| last > 0) {
        let connected = fleet["gateways"].as_array().into_iter().flatten();
        let connected = connected.filter(|gateway| gateway["connected"] == true).count();
        out.push_str(&format!(
            "purge {}, carried out by {} of {}\n",
            purges["last"],
            purges["acknowledged"],
            count_noun(connected, "connected gateway")
        ));
    }
    let gateways = fleet["gateways"].as_array();
    let rows: Vec<_> = gateways.into_iter().flatten().map(row).collect();
    if rows.is_empty() {
        out.push_str("no gateways\n");
    } else {
        out.push_str(&format::table(
            &["NAME", "STATE", "VERSION", "AGE", "PURGE", "REFUSED", "PROBLEM"],
            &rows,
        ));
    }
    out
}

fn row(gateway: &Value) -> Vec<String> {
    let state = match (gateway["connected"].as_bool(), gateway["versions_behind"].as_u64()) {
        (Some(true), Some(0)) => "current",
        (Some(true), _) => "behind",
        _ => "left",
    };
    let age = gateway["version_seconds"].as_f64().map_or_else(|| "-".to_owned(), |age| format!("{age:.0}s"));
    let first_refusal = gateway["refused"].as_array().and_then(|all| all.first());
    let problem = first_refusal.map_or_else(
        || format::text(&gateway["problem"]),
        |refused| format!("{}: {}", format::text(&refused["resource"]), format::text(&refused["problem"])),
    );
    vec![
        format::text(&gateway["name"]),
        state.to_owned(),
        format::text(&gateway["version"]),
        age,
        format::text(&gateway["purge"]),
        format::text(&gateway["refused_count"]),
        format::truncate(&problem),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_table_shows_gateways_that_are_behind_and_the_reason() {
        let fleet = json!({
            "position": { "version": 7 }, "documents": 2, "problem": null, "refused": [],
            "purges": { "last": 12, "kept": 3, "acknowledged": 1 },
            "gateways": [
                { "name": "a", "connected": true, "version": 7, "versions_behind": 0, "version_seconds": 61.2,
                  "purge": 12, "refused_count": 1, "refused": [{ "resource": "routes/x", "problem": "bad" }], "problem": null },
                { "name": "b", "connected": false, "version": 3, "versions_behind": 4, "version_seconds": 5.0,
                  "purge": null, "refused_count": 0, "refused": [], "problem": "the connection ended" },
            ],
        });
        let text = status_text(&fleet);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "version 7, 2 documents");
        assert_eq!(lines[1], "purge 12, carried out by 1 of 1 connected gateway");
        assert_eq!(lines[3], "a     current  7        61s  12     1        routes/x: bad");
        assert_eq!(lines[4], "b     left     3        5s   -      0        the connection ended");
    }
}
