//! The diagnostic log: what the gateway itself has to say, as events of the crate `tracing`.
//!
//! | Module | Contents |
//! |---|---|
//! | `levels` | the levels of the components, which may change at any time |
//! | `subscriber` | receives the events, and decides which of them are written |
//! | `line` | an event as a line of text or JSON |
//! | `writer` | the queue and the thread that write the lines |
//!
//! [`install`] starts it with the defaults; [`prepare`] and [`PreparedLog::apply`] put the settings of a file
//! in force, and [`set_levels`] changes only the levels. There is one log per process, so its state is
//! static. **A lost output loses lines and nothing else**: no thread of a running gateway waits for a slow
//! reader, and no error of a write reaches the code that reports an event.

mod levels;
mod line;
mod subscriber;
mod writer;

use std::env;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_config::section::Word;
use tollgate_config::{
    DiagnosticFormat, DiagnosticLog, DiagnosticOutput, LogLevel, LogLevels, Problem, Problems, Severity,
};
use tollgate_net::component;
use tracing::{error, warn};

use crate::print::{can_show_colour, print_error_text};
use levels::LevelTable;
use writer::{DiagnosticsWriter, open};

/// How long the end of the process waits for the last lines.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// The levels in force.
static LEVELS: LevelTable = LevelTable::new();
/// The destination and form of lines.
static DESTINATION: RwLock<LineSink> = RwLock::new(LineSink {
    format: DiagnosticFormat::Text,
    output: DiagnosticOutput::Stderr,
    is_timed: false,
    writer: None,
});

#[derive(Clone, Debug)]
struct LineSink {
    format: DiagnosticFormat,
    output: DiagnosticOutput,
    /// Whether every line of text begins with the time.
    is_timed: bool,
    /// Without a writer, lines go to standard error, and the reporting thread waits for it. A command does
    /// so, and a gateway that has not read its file yet.
    writer: Option<Arc<DiagnosticsWriter>>,
}

impl LineSink {
    fn write(&self, line: String) {
        match &self.writer {
            Some(writer) => writer.push(line),
            None => print_error_text(&line),
        }
    }
}

fn destination() -> LineSink {
    DESTINATION.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Starts the log with the defaults: text on standard error, level `info`. Further calls have no effect.
pub fn install() {
    if tracing::subscriber::set_global_default(subscriber::DiagnosticSubscriber).is_err() {
        return;
    }
    let print_panic = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| match destination().format {
        DiagnosticFormat::Text => print_panic(panic),
        DiagnosticFormat::Json => {
            let place = panic.location().map(ToString::to_string);
            let message = panic.payload_as_str().unwrap_or_default();
            error!(target: component::GATEWAY, place, "panic: {message}");
        }
    }));
}

/// The settings of a file, with their output open.
#[derive(Debug)]
pub struct PreparedLog {
    settings: DiagnosticLog,
    /// The writer of a changed output; `None` if the output stays as it is.
    writer: Option<Arc<DiagnosticsWriter>>,
}

/// Opens the output of these settings, unless it is in use already. May wait for a file system.
///
/// # Errors
/// Returns a readable reason why the file cannot be opened, or the thread cannot be started.
pub fn prepare(settings: &DiagnosticLog) -> io::Result<PreparedLog> {
    let current = destination();
    let is_open = current.writer.is_some() && current.output == settings.output;
    let writer = if is_open { None } else { Some(DiagnosticsWriter::start(open(&settings.output)?)?) };
    Ok(PreparedLog { settings: settings.clone(), writer })
}

impl PreparedLog {
    /// Puts the settings in force. The lines of an output that is no longer in use are still written.
    pub fn apply(mut self) {
        set_levels(&self.settings.levels);
        let mut destination = DESTINATION.write().unwrap_or_else(PoisonError::into_inner);
        destination.format = self.settings.format;
        if let Some(writer) = self.writer.take() {
            destination.is_timed = needs_time(&self.settings.output);
            destination.output = self.settings.output.clone();
            if let Some(before) = destination.writer.replace(writer) {
                before.close();
            }
        }
    }
}

impl Drop for PreparedLog {
    fn drop(&mut self) {
        if let Some(writer) = &self.writer {
            writer.close();
        }
    }
}

/// Returns whether lines need a time of their own. The journal adds it, and at a terminal a person sees the lines
/// appear. Nothing adds it to a file, or to what a shell or a container's runtime collects.
fn needs_time(output: &DiagnosticOutput) -> bool {
    match output {
        DiagnosticOutput::Stderr => !io::stderr().is_terminal() && !is_journal(io::stderr().as_fd()),
        DiagnosticOutput::Stdout => !io::stdout().is_terminal() && !is_journal(io::stdout().as_fd()),
        DiagnosticOutput::File(_) => true,
    }
}

/// Returns whether this descriptor leads to the journal: systemd announces its device and inode (systemd.exec(5)).
fn is_journal(output: BorrowedFd<'_>) -> bool {
    let Some(stream) = env::var_os("JOURNAL_STREAM") else { return false };
    let file = output.try_clone_to_owned().map(File::from).and_then(|file| file.metadata());
    file.is_ok_and(|file| *stream == *format!("{}:{}", file.dev(), file.ino()))
}

/// Changes the levels, for all events from now on.
pub fn set_levels(levels: &LogLevels) {
    LEVELS.set(levels);
    tracing::callsite::rebuild_interest_cache();
}

/// Returns the levels in force.
pub fn levels() -> LogLevels {
    LEVELS.get()
}

/// Returns levels as JSON, in the form of the file.
pub fn levels_to_json(levels: &LogLevels) -> Value {
    let components = levels.components.iter();
    let components: serde_json::Map<_, _> =
        components.map(|(component, level)| (component.word().to_owned(), level.word().into())).collect();
    json!({ "level": levels.level.word(), "components": components })
}

/// Returns the state of the log as JSON, for the admin API.
pub fn state_to_json() -> Value {
    let LineSink { format, output, writer, .. } = destination();
    let mut state = levels_to_json(&levels());
    state["format"] = match format {
        DiagnosticFormat::Text => "text",
        DiagnosticFormat::Json => "json",
    }
    .into();
    state["output"] = match output {
        DiagnosticOutput::Stderr => "stderr".into(),
        DiagnosticOutput::Stdout => "stdout".into(),
        DiagnosticOutput::File(path) => path.display().to_string().into(),
    };
    state["lost"] = writer.map_or(0, |writer| writer.lost_in_total()).into();
    state
}

/// Returns how many lines the present output has lost.
pub fn lines_lost() -> u64 {
    destination().writer.map_or(0, |writer| writer.lost_in_total())
}

/// Opens the log's file again, after a rotation.
pub fn reopen() {
    if let Some(writer) = destination().writer {
        writer.reopen();
    }
}

/// Waits a moment until the lines so far are written.
pub fn flush() {
    if let Some(writer) = destination().writer {
        writer.flush(FLUSH_TIMEOUT);
    }
}

/// Writes the problems of a configuration: as text as `tollgate check` prints them, as JSON one by one.
pub fn report_problems(problems: &Problems) {
    let level = if problems.has_errors() { LogLevel::Error } else { LogLevel::Warn };
    if problems.is_empty() || !LEVELS.allows(component::RELOAD, level) {
        return;
    }
    let destination = destination();
    match destination.format {
        DiagnosticFormat::Text => {
            let is_terminal = destination.output == DiagnosticOutput::Stderr && io::stderr().is_terminal();
            destination.write(problems.render(is_terminal && can_show_colour()));
        }
        DiagnosticFormat::Json => problems.iter().for_each(|problem| report_problem(problems, problem)),
    }
}

fn report_problem(problems: &Problems, problem: &Problem) {
    let mut problem = problem.clone();
    problems.conceal(&mut problem);
    let Problem { at, severity, message, expected, help, .. } = problem;
    let file = problems.files().get(at.file as usize).map(|file| file.name.as_str());
    let (expected, help) = (expected.as_deref(), (!help.is_empty()).then(|| help.join("; ")));
    let help = help.as_deref();
    match severity {
        Severity::Error => {
            error!(
                target: component::RELOAD,
                file,
                line = at.line,
                column = at.column,
                expected,
                help,
                "{message}"
            );
        }
        // Only `check` makes hints.
        Severity::Hint => {}
        Severity::Warning => {
            warn!(
                target: component::RELOAD,
                file,
                line = at.line,
                column = at.column,
                expected,
                help,
                "{message}"
            );
        }
    }
}
