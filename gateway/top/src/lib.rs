//! `tollgate top`: shows the admin listener's live document in a terminal, once per second.
//!
//! `recent` keeps the documents of the last seconds and computes rates from them, and `rows` turns the rates
//! into tables. `view` draws a screen; `text` prints the same once, for a pipe. `screen` holds the state that
//! keys change, and `terminal` is the loop. The caller fetches the documents. [`read_secret`] is here because it
//! needs the terminal too.

mod figures;
mod recent;
mod rows;
mod screen;
mod secret;
mod terminal;
mod text;
mod view;

pub use recent::RecentDocuments;
pub use secret::read_secret;
pub use terminal::{LiveResult, run};
pub use text::text;

#[cfg(test)]
mod sample;
