//! `tollgate history` and `rollback`: shows versions of the store and goes back to one.

use hyper::Method;

use super::CommandOutput;
use super::args::{HistoryArgs, OutputFormat, RollbackArgs};
use super::format;
use super::request::AdminApi;
use crate::admin_client::RequestContent;

/// Shows versions, or one of them with its changes.
pub fn history(args: &HistoryArgs) -> Result<CommandOutput, String> {
    let gateway = AdminApi::new(&args.remote)?;
    let path = match (args.version, args.before) {
        (Some(version), _) => format!("/api/v1/history/{version}"),
        (None, Some(before)) => format!("/api/v1/history?limit={}&before={before}", args.limit),
        (None, None) => format!("/api/v1/history?limit={}", args.limit),
    };
    let value = gateway.get(&path)?;
    if args.output != OutputFormat::Text {
        return Ok(CommandOutput::success(format::document(&value, args.output)));
    }
    if args.version.is_some() {
        let [version, at, who, what] = ["version", "at", "who", "what"].map(|key| format::text(&value[key]));
        let changes = format::changes(&value["changes"], true);
        return Ok(CommandOutput::success(format!("version {version}, {at}, by {who}: {what}\n{changes}")));
    }
    let rows = value["versions"].as_array().into_iter().flatten().map(|version| {
        ["version", "at", "who", "what"].map(|key| format::truncate(&format::text(&version[key]))).to_vec()
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return Ok(CommandOutput::success("nothing has been changed yet\n".to_owned()));
    }
    Ok(CommandOutput::success(format::table(&["VERSION", "AT", "WHO", "WHAT"], &rows)))
}

/// Restores the state of a version.
pub fn rollback(args: &RollbackArgs) -> Result<CommandOutput, String> {
    let how = &args.how;
    let path = format!("/api/v1/rollback/{}?dry_run={}", args.version, how.dry_run);
    let answer = AdminApi::new(&how.remote)?.request(&Method::POST, &path, RequestContent::default())?;
    Ok(CommandOutput::success(match how.output {
        OutputFormat::Text => format::change(&answer, how.dry_run),
        output => format::document(&answer, output),
    }))
}
