//! The systems under test as data: reads `bench/systems/NAME/`, reports which systems are installed, installs
//! the others where possible, writes a system's files for one run, and waits until the system answers
//! correctly.
//!
//! The caller starts the processes, because it pins, limits and measures them: see [`System::prepare`].
//!
//! ```text
//! Catalogue::load -> System::status | System::install -> System::prepare -> (the caller spawns) -> ready::wait
//! ```

mod capture;
mod catalogue;
mod check;
pub mod credentials;
mod description;
mod error;
mod feature;
mod install;
mod launch;
mod problem;
mod program_paths;
pub mod ready;
mod setting;
mod status;
mod system;
mod table;
mod template;
mod workers;

pub use catalogue::Catalogue;
pub use description::{AddRoute, Choice, Description, Reload, ReloadSignal, Source};
pub use error::SystemError;
pub use feature::{Feature, Support};
pub use launch::{CommandSpec, Launch, RenderedFile};
pub use problem::{Problem, Problems};
pub use program_paths::ProgramPaths;
pub use setting::{Address, Partners, Route, Setting, Timeouts, TlsFiles, Upstream, VirtualHost};
pub use status::Status;
pub use system::System;
pub use workers::{WorkerMetrics, WorkerReading};
