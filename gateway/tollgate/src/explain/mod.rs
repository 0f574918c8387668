//! `tollgate explain FILE METHOD URL`, and `POST /api/v1/explain`: which route takes a request, and how the
//! request is handled.
//!
//! `question` turns the arguments into the bytes of a request head. [`tollgate_proxy::rehearse`] runs them
//! through the worker's own code. `report` collects the result (with `changes`, `nearest` and `rules`), and
//! `text` and `json` print it.

mod changes;
mod json;
mod nearest;
mod question;
mod report;
mod rules;
mod text;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use serde::Deserialize;
use serde_json::Value;
use tollgate_config::Config;
use tollgate_net::notice;
use tollgate_plan::Plan;
use tollgate_proxy::rehearse;

pub use self::question::Wrong;
use self::report::Report;
use crate::cli::Question;
use crate::compiled;
use crate::print::print;

/// How many of the routes that do not win are shown without `--all`. With more, the winner would scroll off
/// the screen.
const NEAREST: usize = 10;

/// The exit code if the command line or the file is invalid.
const BAD_USAGE: u8 = 2;

/// The request to explain.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    pub method: String,
    /// `/path?query`, `host/path` or `http://host:port/path`. Without a host, the first `listen` address is
    /// used.
    pub url: String,
    /// Header fields, each as `Name: value`.
    #[serde(default)]
    pub headers: Vec<String>,
    /// The client's address; loopback if it is missing.
    #[serde(default = "loopback")]
    pub from: IpAddr,
    /// Whether to return every route that does not win, not only the nearest.
    #[serde(default)]
    pub all: bool,
}

fn loopback() -> IpAddr {
    IpAddr::V4(Ipv4Addr::LOCALHOST)
}

/// Explains one request. The exit code tells whether a route takes it.
pub fn explain(question: &Question) -> ExitCode {
    let (good, problems) = compiled::read(&question.file);
    let Some(good) = good else {
        compiled::show(&problems);
        return ExitCode::from(BAD_USAGE);
    };
    let Question { method, url, headers, from, all, .. } = question.clone();
    let asked = Asked { method, url, headers, from, all };
    let report = match answer(&asked, Some(&good.config), &good.plan) {
        Ok(report) => report,
        Err(wrong) => {
            notice!("error: {}", wrong.message);
            return ExitCode::from(BAD_USAGE);
        }
    };
    let text = if question.json { format!("{:#}\n", json::json(&report)) } else { text::text(&report) };
    print(&text, if report.refused.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Explains a request by the plan in force, as JSON. The plan does not know where routes were written.
///
/// # Errors
/// The question does not describe a request.
pub fn running(asked: &Asked, plan: &Plan) -> Result<Value, Wrong> {
    answer(asked, None, plan).map(|report| json::json(&report))
}

fn answer(asked: &Asked, config: Option<&Config>, plan: &Plan) -> Result<Report, Wrong> {
    let sent = question::sent(asked, plan)?;
    let secure = question::is_secure(asked, plan);
    let rehearsal = rehearse(plan, sent.as_bytes(), SocketAddr::new(asked.from, 0), secure);
    let shown = if asked.all { usize::MAX } else { NEAREST };
    Ok(report::report(config, plan, &sent, rehearsal, shown))
}
