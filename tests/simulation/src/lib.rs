//! The proxy between simulated clients and origins, deterministic from a seed.
//!
//! A seed makes a `Scenario`: plans, workers, clients, origins, and the faults with their times. `run` plays
//! it in a simulated world (`tollgate_net::simulated`): the workers are real; only the network, the time and
//! the randomness below them are simulated. `Recorder` records the requests of clients, the deliveries at
//! origins and the outcomes. At the end, `audit` checks that the record agrees with the gateway's log.
//!
//! - `scenario`: generates a scenario from a seed.
//! - `client`, `origin`: the parties, on raw bytes, with a reader of their own (`wire`); `front`: HTTP/2 before an
//!   origin.
//! - `gateway`: the workers, their drain, their log; `control`: their plans; `directory`: the simulated DNS.
//! - `recorder`: the record of a run; `audit`: the checks of it after the end.
//! - `stream`: the clients and servers of layer 4.
//! - `watch`: the checks during a run; `rest`: the check for leaks once all clients are done.
//! - `sabotage`: faults that tests inject, to see that these checks find them.
//!
//! `make simulate` runs thousands of seeds; `make simulate SEED=n` one, with its trace.
#![cfg(feature = "simulate")]

pub mod audit;
pub mod client;
pub mod control;
pub mod directory;
mod front;
pub mod gateway;
pub mod message;
pub mod origin;
pub mod pattern;
pub mod recorder;
pub mod rest;
mod run;
pub mod sabotage;
pub mod scenario;
pub mod script;
pub mod stream;
pub mod watch;
pub mod wire;

pub use recorder::Recorder;
pub use run::{Verdict, run};
pub use sabotage::Sabotage;
pub use scenario::Scenario;
