//! Runs a study: one cell after another, every system of a cell in turn, in a random order that the seed fixes.
//!
//! The way of a trial: [`ground`] has cores and folders; [`fleet`] starts an [`origin`] and every [`target`], an
//! [`arm`] of the study each; [`schedule`] says whose turn it is; [`warm`] warms up; [`measure`] lets the [`generator`]
//! work and reads what everybody used; [`verdict`] says who was at a limit; [`summary`] sums a cell up. [`run`] holds it
//! together and writes each line of the result as soon as it is known. [`received`] checks that terms are equal, [`search`]
//! finds the generator's best, [`runtime_route`] adds a route while traffic flows, `instructions` counts under valgrind.

pub mod arm;
mod cell;
pub mod failure;
pub mod fleet;
pub mod generator;
pub mod ground;
mod http;
mod idle;
mod instructions;
pub mod measure;
mod once;
pub mod origin;
mod partner;
pub mod received;
pub mod run;
pub mod runtime_route;
pub mod schedule;
pub mod search;
pub mod server;
pub mod summary;
pub mod target;
mod transfer;
pub mod verdict;
pub mod warm;

pub use failure::Failure;
pub use ground::Ground;
pub use run::{Progress, Session};
