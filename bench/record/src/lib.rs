//! What the laboratory writes down.
//!
//! A result file is JSON Lines: each line is a [`Line`]. The first is a [`Header`]; then come the systems, the cells,
//! and, as they are measured, ceilings, trials and verdicts. A run that was stopped leaves a file that ends early and
//! can be continued; nothing is ever changed in place.
//!
//! [`load`] holds what a load generator saw, [`evidence`] what `/proc` and the kernel saw, [`plan`] what was to be
//! measured, [`measured`] what came of it, [`metric`] how it is compared, [`price`] what features cost, [`mod@file`] reading and writing. Times are microseconds (`_us`), memory is
//! KiB (`_kib`), shares are fractions of 1 unless a name says otherwise.

pub mod evidence;
pub mod file;
pub mod load;
pub mod measured;
pub mod metric;
pub mod plan;
pub mod price;

pub use evidence::{Connections, Evidence, Machine, Network, ThreadShare, Throttled, Tree};
pub use file::{Line, ReadError, Results, append, read, schema};
pub use load::{Distribution, Failures, LoadModel, LoadResult, Verification, Window};
pub use measured::{Ceiling, Cost, Finding, Received, Status, Summary, Trial, Verdict, VerdictKind};
pub use metric::Metric;
pub use plan::{CONTROL, Cell, Header, Host, Missing, PLAIN, Published, RenderedFile, SystemUsed};
pub use price::{Instructions, Known, Price};

/// Version of the format; a reader refuses a file with another one. Since 2 some fields are gone.
pub const FORMAT: u32 = 2;
