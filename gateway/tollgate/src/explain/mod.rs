//! `tollgate explain FILE METHOD URL`: which route takes a request, and what becomes of it.
//!
//! `question` turns the arguments into the bytes of a request head, [`tollgate_proxy::rehearse`] takes them through
//! the worker's own code, `report` collects what there is to say (with `changes`, `nearest` and `rules`), and `text`
//! and `json` say it.

mod changes;
mod json;
mod nearest;
mod question;
mod report;
mod rules;
mod text;

use std::net::SocketAddr;
use std::process::ExitCode;

use tollgate_proxy::rehearse;

use crate::cli::Question;
use crate::compiled;
use crate::print::print;

/// How many of the routes that do not win are shown without `--all`: with more, the winner scrolls out of sight.
const NEAREST: usize = 10;

/// The command line or the file is not good.
const BAD_USAGE: u8 = 2;

/// Explains one request. The exit status says whether a route takes it.
pub fn explain(question: &Question) -> ExitCode {
    let (good, problems) = compiled::read(&question.file);
    let Some(good) = good else {
        compiled::show(&problems);
        return ExitCode::from(BAD_USAGE);
    };
    let sent = match question::sent(question, &good.config) {
        Ok(sent) => sent,
        Err(message) => {
            eprintln!("error: {message}");
            return ExitCode::from(BAD_USAGE);
        }
    };
    let rehearsal = rehearse(
        &good.plan,
        sent.as_bytes(),
        SocketAddr::new(question.from, 0),
        question::is_secure(question, &good.config),
    );
    let shown = if question.all { usize::MAX } else { NEAREST };
    let report = report::report(&good, &sent, rehearsal, shown);
    let text = if question.json { json::json(&report) } else { text::text(&report) };
    print(&text, if report.refused.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
