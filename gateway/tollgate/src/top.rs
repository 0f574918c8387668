//! `tollgate top`: shows the live figures of a running gateway in a terminal.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use tollgate_observe::live::LiveDocument;
use tollgate_top::{RecentDocuments, run, text};

use crate::admin_client::AdminClient;
use crate::cli::TopArgs;
use crate::print::{print, print_error};

/// The pause between the two requests for a single page: rates need two samples.
const SAMPLE_PAUSE: Duration = Duration::from_secs(1);

/// Shows live figures until the user quits. Shows one page if standard input or output is not a terminal.
pub fn top(args: &TopArgs) -> ExitCode {
    match run_top(args) {
        Ok(code) => code,
        Err(message) => {
            print_error(format_args!("error: {message}"));
            ExitCode::FAILURE
        }
    }
}

fn run_top(args: &TopArgs) -> Result<ExitCode, String> {
    let client = AdminClient::new(&args.remote)?;
    let address = client.address().to_owned();
    let ask = move |after: f64| -> Result<LiveDocument, String> {
        let body = client.get(&format!("/api/v1/live?after={after}"))?;
        serde_json::from_slice(&body)
            .map_err(|error| format!("the response is from another version: {error}"))
    };
    // The first request precedes the switch of the screen, so that an error is readable.
    let mut recent = RecentDocuments::default();
    recent.add(ask(0.0)?);
    let interactive = !args.once && std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if interactive {
        run(&address, recent, ask).map_err(|error| error.to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    thread::sleep(SAMPLE_PAUSE);
    recent.add(ask(recent.after())?);
    Ok(print(&text(&recent), ExitCode::SUCCESS))
}
