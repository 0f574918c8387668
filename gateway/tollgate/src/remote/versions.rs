//! `tollgate history` and `rollback`: shows versions of the store and goes back to one.

use hyper::Method;

use super::Said;
use super::args::{History, Output, Rollback};
use super::ask::Gateway;
use super::show;
use crate::client::Sent;

/// Shows versions, or one of them with its changes.
pub fn history(args: &History) -> Result<Said, String> {
    let gateway = Gateway::new(&args.remote)?;
    let path = match (args.version, args.before) {
        (Some(version), _) => format!("/api/v1/history/{version}"),
        (None, Some(before)) => format!("/api/v1/history?limit={}&before={before}", args.limit),
        (None, None) => format!("/api/v1/history?limit={}", args.limit),
    };
    let value = gateway.get(&path)?;
    if args.output != Output::Text {
        return Ok(Said::good(show::document(&value, args.output)));
    }
    if args.version.is_some() {
        let [version, at, who, what] = ["version", "at", "who", "what"].map(|key| show::text(&value[key]));
        let changes = show::changes(&value["changes"], true);
        return Ok(Said::good(format!("version {version}, {at}, by {who}: {what}\n{changes}")));
    }
    let rows = value["versions"].as_array().into_iter().flatten().map(|version| {
        ["version", "at", "who", "what"].map(|key| show::short(&show::text(&version[key]))).to_vec()
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return Ok(Said::good("nothing has been changed yet\n".to_owned()));
    }
    Ok(Said::good(show::table(&["VERSION", "AT", "WHO", "WHAT"], &rows)))
}

/// Restores the state of a version.
pub fn rollback(args: &Rollback) -> Result<Said, String> {
    let how = &args.how;
    let path = format!("/api/v1/rollback/{}?dry_run={}", args.version, how.dry_run);
    let answer = Gateway::new(&how.remote)?.ask(&Method::POST, &path, Sent::default())?;
    Ok(Said::good(match how.output {
        Output::Text => show::change(&answer, how.dry_run),
        output => show::document(&answer, output),
    }))
}
