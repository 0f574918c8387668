//! `tollgate explain [FILE] METHOD URL`, and `POST /api/v1/explain`: which route takes a request, and how the
//! request is handled.
//!
//! `request` turns the arguments into the bytes of a request head. [`tollgate_proxy::dry_run`] runs them
//! through the worker's own code. `report` collects the result (with `field_changes`, `nearest` and `rules`), and
//! `text` and `json` print it. `stream` explains streams of layer 4.

mod field_changes;
mod json;
mod nearest;
mod report;
mod request;
mod rules;
mod stream;
mod text;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::Value;
use tollgate_config::Config;
use tollgate_plan::Plan;
use tollgate_proxy::dry_run;

use self::report::Report;
pub use self::request::{ExplainRequest, InvalidRequest};
use crate::cli::ExplainArgs;
use crate::config_path;
use crate::load;
use crate::print::{print, print_error};

/// How many of the routes that do not win are shown without `--all`. With more, the winner would scroll off
/// the screen.
const OTHERS_MAX: usize = 10;

/// The exit code if the command line or the file is invalid.
const BAD_USAGE: u8 = 2;

/// The positional arguments of the command.
struct Question {
    file: PathBuf,
    method: String,
    url: String,
}

/// Splits the arguments `[FILE] METHOD URL`, and finds the file if it is left out.
fn question(words: &[OsString]) -> Result<Question, String> {
    let text = |word: &OsString| {
        word.to_str().map(str::to_owned).ok_or_else(|| "the method and the URL must be UTF-8".to_owned())
    };
    match words {
        [file, method, url] => Ok(Question { file: file.into(), method: text(method)?, url: text(url)? }),
        // A method has neither of these characters in practice, and almost every file has one.
        [file, _] if file.to_string_lossy().contains(['.', '/']) || file == "-" => {
            Err("the URL is missing: `tollgate explain [FILE] METHOD URL`".to_owned())
        }
        [method, url] => {
            let found = config_path::resolve(None)?;
            if let Some(line) = found.announcement() {
                print_error(format_args!("{line}"));
            }
            Ok(Question { file: found.file, method: text(method)?, url: text(url)? })
        }
        // Options may stand between the words, so clap counts the words of each part only.
        [_] => Err("the method or the URL is missing: `tollgate explain [FILE] METHOD URL`".to_owned()),
        _ => Err("there are too many words: `tollgate explain [FILE] METHOD URL`".to_owned()),
    }
}

/// Explains one request, or one connection of layer 4. The exit code tells whether a route or a stream takes it.
pub fn explain(args: &ExplainArgs) -> ExitCode {
    if let (Some(listener), [] | [_]) = (&args.listener, args.words.as_slice()) {
        return explain_stream(args, listener);
    }
    if args.sni.is_some() {
        print_error(format_args!(
            "error: `--sni` is for `tollgate explain [FILE] --listener NAME --sni HOST`"
        ));
        return ExitCode::from(BAD_USAGE);
    }
    let Question { file, method, url } = match question(&args.words) {
        Ok(question) => question,
        Err(message) => {
            print_error(format_args!("error: {message}"));
            return ExitCode::from(BAD_USAGE);
        }
    };
    let (loaded, problems) = load::load_file(&file);
    let Some(loaded) = loaded else {
        load::print_problems(&problems);
        return ExitCode::from(BAD_USAGE);
    };
    let ExplainArgs { headers, from, listener, all, .. } = args.clone();
    let request = ExplainRequest { method, url, headers, from, listener, all };
    let report = match build_report(&request, Some(&loaded.config), &loaded.plan) {
        Ok(report) => report,
        Err(wrong) => {
            print_error(format_args!("error: {}", wrong.message));
            return ExitCode::from(BAD_USAGE);
        }
    };
    let text = if args.json { format!("{:#}\n", json::json(&report)) } else { text::text(&report) };
    print(&text, if report.refused.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Explains what a listener does with a connection or datagram.
fn explain_stream(args: &ExplainArgs, listener: &str) -> ExitCode {
    let refuse = |message: &str| {
        print_error(format_args!("error: {message}"));
        ExitCode::from(BAD_USAGE)
    };
    let file = match config_path::resolve(args.words.first().map(Path::new)) {
        Ok(found) => {
            if let Some(line) = found.announcement() {
                print_error(format_args!("{line}"));
            }
            found.file
        }
        Err(message) => return refuse(&message),
    };
    let (loaded, problems) = load::load_file(&file);
    let Some(loaded) = loaded else {
        load::print_problems(&problems);
        return ExitCode::from(BAD_USAGE);
    };
    let named = loaded.plan.listeners.iter().find(|known| known.name.as_deref() == Some(listener));
    let Some(named) = named else { return refuse(&format!("there is no listener named `{listener}`")) };
    match stream::report(named, args.sni.as_deref(), Some(&loaded.config), &loaded.plan) {
        Ok(report) => {
            let text = if args.json { format!("{:#}\n", report.json()) } else { report.text() };
            print(&text, if report.is_taken() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Err(message) => refuse(&message),
    }
}

/// Explains a request by the plan in force, as JSON. The plan does not know where routes were written.
///
/// # Errors
/// The question does not describe a request.
pub fn explain_running(request: &ExplainRequest, plan: &Plan) -> Result<Value, InvalidRequest> {
    build_report(request, None, plan).map(|report| json::json(&report))
}

fn build_report(
    request: &ExplainRequest,
    config: Option<&Config>,
    plan: &Plan,
) -> Result<Report, InvalidRequest> {
    let at = request::listener(request, plan)?;
    let sent = request::request_head(request, plan, at)?;
    let secure = request::is_secure(request, plan, at);
    let dry_run = dry_run(plan, sent.as_bytes(), SocketAddr::new(request.from, 0), secure, at);
    let others_max = if request.all { usize::MAX } else { OTHERS_MAX };
    Ok(report::report(config, plan, &sent, dry_run, others_max))
}
