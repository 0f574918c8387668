//! Reads a secret from the terminal, without showing it. `tollgate hash` calls it.

use std::io::{self, Write};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};

/// Shows `prompt` on standard error and reads a line from the terminal. Returns `None` if the user interrupts.
///
/// # Errors
/// Returns an error if the terminal cannot be used.
pub fn read_secret(prompt: &str) -> io::Result<Option<String>> {
    let mut out = io::stderr();
    // Before the prompt: from then on, the terminal must not show what the user types.
    enable_raw_mode()?;
    let line = out.write_all(prompt.as_bytes()).and_then(|()| out.flush()).and_then(|()| read_line());
    // Also after an error: the terminal must show what the user types next.
    disable_raw_mode()?;
    out.write_all(b"\n")?;
    line
}

fn read_line() -> io::Result<Option<String>> {
    let mut line = String::new();
    loop {
        let Event::Key(key) = event::read()? else { continue };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Enter => return Ok(Some(line)),
            KeyCode::Char('c' | 'd') if control => return Ok(None),
            KeyCode::Esc => return Ok(None),
            KeyCode::Char('u') if control => line.clear(),
            KeyCode::Backspace => drop(line.pop()),
            KeyCode::Char(c) if !control => line.push(c),
            _ => {}
        }
    }
}
