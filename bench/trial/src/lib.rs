//! Runs a study: one cell after another; within a cell every system in turn, in a random order that the seed
//! fixes.
//!
//! A trial passes through these modules: [`environment`] has what all trials of a run share: cores, hosts and folders.
//! [`fleet`] starts an [`origin`] and every [`target`], one for each [`arm`] of the study. [`schedule`] decides the order.
//! [`warm`] warms up. [`measure`] runs the [`generator`] with a [`load_plan`] and reads what each process used. [`verdict`] finds the
//! component that was at its limit. [`summary`] summarises a cell. [`run`] drives all of it and writes each line of the
//! result as soon as it is known. [`received`] checks that the terms are equal, [`search`] finds the generator's best
//! settings, [`runtime_route`] adds a route under traffic, `instructions` counts under valgrind.

pub mod agent;
pub mod arm;
mod cell;
mod cpu;
mod datagrams;
mod elsewhere;
pub mod environment;
mod external;
pub mod failure;
pub mod fleet;
pub mod generator;
pub mod host;
mod http;
mod idle;
mod instructions;
pub mod load_plan;
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
mod usage;
pub mod verdict;
pub mod warm;

pub use environment::Environment;
pub use failure::Failure;
pub use run::{Progress, Session};
