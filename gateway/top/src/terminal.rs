//! The loop of `tollgate top`: it receives documents and keys, and draws the screen.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, crossterm};
use tollgate_observe::live::Live;

use crate::recent::Recent;
use crate::rows::rows;
use crate::screen::{Key, Screen};
use crate::view::draw;

/// Interval between two requests.
const EVERY: Duration = Duration::from_secs(1);

/// Longest delay before a document is shown.
const LOOK: Duration = Duration::from_millis(100);

/// The result of a request: a document, or the problem.
pub type Answer = Result<Live, String>;

/// The meaning of a terminal event.
enum Wish {
    Quit,
    Do(Key),
    Nothing,
}

/// Shows a document from `ask` once per second, until the user quits. `ask` takes the time of the last known
/// history point, and runs on a thread of its own. `first` holds the documents received before.
///
/// # Errors
/// Returns an error if the terminal cannot be used.
pub fn run(address: &str, first: Recent, ask: impl FnMut(f64) -> Answer + Send + 'static) -> io::Result<()> {
    let answers = asking(first.after(), ask);
    // Restores the terminal, also after a panic.
    let mut terminal = ratatui::try_init()?;
    let result = shown(&mut terminal, address, first, &answers);
    ratatui::try_restore()?;
    result
}

/// Calls `ask` until the receiver is dropped.
fn asking(mut after: f64, mut ask: impl FnMut(f64) -> Answer + Send + 'static) -> Receiver<Answer> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        loop {
            let begun = Instant::now();
            let answer = ask(after);
            if let Ok(live) = &answer {
                after = live.history.time.last().copied().unwrap_or(after);
            }
            if sender.send(answer).is_err() {
                return;
            }
            thread::sleep(EVERY.saturating_sub(begun.elapsed()));
        }
    });
    receiver
}

fn shown(
    terminal: &mut DefaultTerminal,
    address: &str,
    mut recent: Recent,
    answers: &Receiver<Answer>,
) -> io::Result<()> {
    let (mut screen, mut problem) = (Screen::default(), None);
    loop {
        terminal.draw(|frame| {
            draw(frame, &recent, screen, address, problem.as_deref());
        })?;
        // Wait for a key, a resize of the terminal, or a document.
        while !event::poll(LOOK)? {
            match answers.recv_timeout(Duration::ZERO) {
                Ok(answer) if screen.paused => drop(answer),
                Ok(Ok(live)) => {
                    problem = None;
                    recent.take(live);
                    break;
                }
                Ok(Err(why)) => {
                    problem = Some(why);
                    break;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(io::Error::other("nobody asks any longer"));
                }
            }
        }
        while event::poll(Duration::ZERO)? {
            match wish(&event::read()?) {
                Wish::Quit => return Ok(()),
                Wish::Do(key) => screen.press(key, rows(&recent, screen.tab, screen.order).rows.len()),
                Wish::Nothing => {}
            }
        }
    }
}

fn wish(event: &crossterm::event::Event) -> Wish {
    let Event::Key(key) = event else { return Wish::Nothing };
    if key.kind == KeyEventKind::Release {
        return Wish::Nothing;
    }
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Wish::Quit,
        KeyCode::Char('q') | KeyCode::Esc => Wish::Quit,
        KeyCode::Tab | KeyCode::BackTab | KeyCode::Left | KeyCode::Right => Wish::Do(Key::Tab),
        KeyCode::Char('s') => Wish::Do(Key::Sort),
        KeyCode::Char(' ') => Wish::Do(Key::Pause),
        KeyCode::Down | KeyCode::Char('j') => Wish::Do(Key::Down),
        KeyCode::Up | KeyCode::Char('k') => Wish::Do(Key::Up),
        KeyCode::PageDown => Wish::Do(Key::PageDown),
        KeyCode::PageUp => Wish::Do(Key::PageUp),
        _ => Wish::Nothing,
    }
}
