//! The table that `systems` prints.

use crate::catalogue::Catalogue;
use crate::status::Status;
use std::fmt::Write as _;
use unicode_width::UnicodeWidthStr;

impl Catalogue {
    /// Formats one line for each system: name, state, version, and what to do if it is not ready.
    pub fn table(&self) -> String {
        let rows: Vec<[String; 4]> = self
            .systems()
            .iter()
            .map(|system| {
                let (state, version, note) = match system.status() {
                    Status::Ready { version, .. } => ("ready", version.unwrap_or_default(), String::new()),
                    Status::Installable { with, takes } => (
                        "installable",
                        String::new(),
                        format!(
                            "from {}, about {takes}: tollgate bench install {}",
                            with.name(),
                            system.name()
                        ),
                    ),
                    Status::Missing { reason, get } => {
                        ("missing", String::new(), format!("{reason} Get it: {get}"))
                    }
                    Status::Broken { reason } => ("broken", String::new(), reason),
                };
                let marked = system.description().marked.as_deref().unwrap_or_default();
                let note = [note.as_str(), marked].into_iter().filter(|part| !part.is_empty());
                let note = note.collect::<Vec<_>>().join("; ");
                [system.name().to_owned(), state.to_owned(), version, note]
            })
            .collect();
        let head = ["system", "state", "version", "note"].map(str::to_owned);
        let every = || std::iter::once(&head).chain(&rows);
        let widths: [usize; 3] =
            std::array::from_fn(|column| every().map(|row| row[column].width()).max().unwrap_or(0));
        let mut text = String::new();
        for row in every() {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(widths) {
                let _ = write!(line, "{cell}{}", " ".repeat(width - cell.width() + 2));
            }
            line.push_str(&row[3]);
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}
