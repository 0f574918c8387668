//! The proxy between simulated clients and origins, deterministic from a seed.
//!
//! A seed makes a `Scenario`: a plan and its changes, workers, clients, origins, and what goes wrong when. `run`
//! plays it in a simulated world (`tollgate_net::simulated`): the workers are the real ones, only the network, the
//! time and the randomness below them are not. What clients got, what origins saw and what the gateway wrote down is
//! kept in `Books`, which must agree in the end (`audit`).
//!
//! - `scenario`: what a seed becomes.
//! - `client`, `origin`: the parties, on raw bytes, by a reader of their own (`wire`).
//! - `gateway`: the workers, their drain, their log; `control`: their plans; `directory`: what is looked up.
//! - `books`: what happened; `audit`: what must be true of it.
//! - `watch`: what must be true all the time; `rest`: what must be left when all have gone.
//! - `sabotage`: what tests have go wrong, to see that all of these find it.
//!
//! `make simulate` runs thousands of seeds; `make simulate SEED=n` one, with its trace.
#![cfg(feature = "simulate")]

pub mod audit;
pub mod books;
pub mod client;
pub mod control;
pub mod directory;
pub mod gateway;
pub mod message;
pub mod origin;
pub mod pattern;
pub mod rest;
mod run;
pub mod sabotage;
pub mod scenario;
pub mod script;
pub mod watch;
pub mod wire;

pub use books::Books;
pub use run::{Verdict, run};
pub use sabotage::Sabotage;
pub use scenario::Scenario;
