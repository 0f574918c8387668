//! The loop of `tollgate top`: it receives documents and keys, and draws the screen.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, crossterm};
use tollgate_observe::live::LiveDocument;

use crate::recent::RecentDocuments;
use crate::rows::rows;
use crate::screen::{InputMode, KeyAction, ScreenState};
use crate::view::draw;

/// Interval between two requests.
const REQUEST_INTERVAL: Duration = Duration::from_secs(1);

/// Longest delay before a document is shown.
const EVENT_POLL_TIMEOUT: Duration = Duration::from_millis(100);

/// The result of a request: a document, or the problem.
pub type LiveResult = Result<LiveDocument, String>;

/// The meaning of a terminal event.
enum UserAction {
    Quit,
    Press(KeyAction),
    Ignore,
}

/// Shows a document from `request` once per second, until the user quits. `request` takes the time of the last known
/// history point, and runs on a thread of its own. `first` holds the documents received before.
///
/// # Errors
/// Returns an error if the terminal cannot be used.
pub fn run(
    address: &str,
    first: RecentDocuments,
    request: impl FnMut(f64) -> LiveResult + Send + 'static,
) -> io::Result<()> {
    let results = spawn_requests(first.after(), request);
    // Restores the terminal, also after a panic.
    let mut terminal = ratatui::try_init()?;
    let result = run_screen(&mut terminal, address, first, &results);
    ratatui::try_restore()?;
    result
}

/// Calls `request` until the receiver is dropped.
fn spawn_requests(
    mut after: f64,
    mut request: impl FnMut(f64) -> LiveResult + Send + 'static,
) -> Receiver<LiveResult> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        loop {
            let started_at = Instant::now();
            let result = request(after);
            if let Ok(live) = &result {
                after = live.history.time.last().copied().unwrap_or(after);
            }
            if sender.send(result).is_err() {
                return;
            }
            thread::sleep(REQUEST_INTERVAL.saturating_sub(started_at.elapsed()));
        }
    });
    receiver
}

fn run_screen(
    terminal: &mut DefaultTerminal,
    address: &str,
    mut recent: RecentDocuments,
    results: &Receiver<LiveResult>,
) -> io::Result<()> {
    let (mut screen, mut problem) = (ScreenState::default(), None);
    loop {
        terminal.draw(|frame| {
            draw(frame, &recent, &screen, address, problem.as_deref());
        })?;
        // Wait for a key, a resize of the terminal, or a document.
        while !event::poll(EVENT_POLL_TIMEOUT)? {
            match results.recv_timeout(Duration::ZERO) {
                Ok(result) if screen.paused => drop(result),
                Ok(Ok(live)) => {
                    problem = None;
                    recent.add(live);
                    break;
                }
                Ok(Err(why)) => {
                    problem = Some(why);
                    break;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(io::Error::other("the thread that requests samples has ended"));
                }
            }
        }
        while event::poll(Duration::ZERO)? {
            match user_action(&event::read()?, screen.mode) {
                UserAction::Quit => return Ok(()),
                UserAction::Press(key) => {
                    let mut table = rows(&recent, screen.tab, screen.order);
                    table.retain_matching(&screen.filter);
                    screen.press(key, table.rows.len());
                }
                UserAction::Ignore => {}
            }
        }
    }
}

fn user_action(event: &crossterm::event::Event, mode: InputMode) -> UserAction {
    let Event::Key(key) = event else { return UserAction::Ignore };
    if key.kind == KeyEventKind::Release {
        return UserAction::Ignore;
    }
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    if control && key.code == KeyCode::Char('c') {
        return UserAction::Quit;
    }
    UserAction::Press(match (mode, key.code) {
        (InputMode::Help, _) => KeyAction::Help,
        (InputMode::Filter, KeyCode::Enter) => KeyAction::Accept,
        (InputMode::Filter, KeyCode::Esc) => KeyAction::Clear,
        (InputMode::Filter, KeyCode::Backspace) => KeyAction::Erase,
        (InputMode::Filter, KeyCode::Char('u')) if control => KeyAction::Clear,
        (InputMode::Filter, KeyCode::Char(c)) if !control => KeyAction::Type(c),
        (_, KeyCode::Down) => KeyAction::Down,
        (_, KeyCode::Up) => KeyAction::Up,
        (_, KeyCode::PageDown) => KeyAction::PageDown,
        (_, KeyCode::PageUp) => KeyAction::PageUp,
        (_, KeyCode::Tab | KeyCode::BackTab | KeyCode::Left | KeyCode::Right) => KeyAction::Tab,
        (InputMode::Filter, _) => return UserAction::Ignore,
        (InputMode::Commands, KeyCode::Char('q') | KeyCode::Esc) => return UserAction::Quit,
        (InputMode::Commands, KeyCode::Char('s')) => KeyAction::Sort,
        (InputMode::Commands, KeyCode::Char(' ')) => KeyAction::Pause,
        (InputMode::Commands, KeyCode::Char('j')) => KeyAction::Down,
        (InputMode::Commands, KeyCode::Char('k')) => KeyAction::Up,
        (InputMode::Commands, KeyCode::Char('/')) => KeyAction::Filter,
        (InputMode::Commands, KeyCode::Char('?')) => KeyAction::Help,
        (InputMode::Commands, _) => return UserAction::Ignore,
    })
}
