//! `tollgate top`: what the admin listener's live document says, in a terminal, once a second.
//!
//! `recent` keeps the documents of the last seconds and tells what happened between them, `rows` makes tables of that,
//! `view` draws a screen and `text` the same once, for a pipe; `screen` is what keys change, and `terminal` the loop.
//! Where documents come from is the caller's business.

mod figures;
mod recent;
mod rows;
mod screen;
mod terminal;
mod text;
mod view;

pub use recent::Recent;
pub use terminal::{Answer, run};
pub use text::text;

#[cfg(test)]
mod sample;
