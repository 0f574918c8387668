//! The types and the format of the laboratory's result files.
//!
//! A result file is JSON Lines: each line is a [`Line`]. The first is a [`Header`]; then come the systems,
//! the cells, and, as they are measured, ceilings, trials and verdicts. A run that was stopped leaves a file
//! that ends early and can be continued. Existing lines are never changed.
//!
//! [`load`] is the result of a load generator, [`evidence`] the counters of `/proc` and the kernel, [`plan`]
//! the input of the measurement, [`measured`] its result, [`figures`] its summary. [`kind`] names the
//! components of verdicts, [`rounds`] decides which rounds count. [`metric`] defines what is compared,
//! [`price`] the cost of features; [`mod@file`] reads and writes. Unless a name says otherwise, times are
//! microseconds (`_us`), memory is KiB (`_kib`), and shares are fractions of 1.

pub mod evidence;
pub mod figures;
pub mod file;
pub mod kind;
pub mod load;
pub mod measured;
pub mod metric;
pub mod plan;
pub mod price;
pub mod rounds;

pub use evidence::{Checks, Connections, Evidence, Machine, Network, ThreadShare, Throttled, Tree, Workers};
pub use figures::{Condensed, Figures};
pub use file::{Line, ReadError, Results, append, read, schema};
pub use kind::VerdictKind;
pub use load::{Distribution, Failures, LoadModel, LoadResult, Verification, Window};
pub use measured::{Ceiling, Cost, Finding, Received, Status, Summary, Trial, Verdict};
pub use metric::Metric;
pub use plan::{CONTROL, Cell, Decides, Header, Host, Missing, PLAIN, Published, RenderedFile, SystemUsed};
pub use price::{Instructions, Known, Price};
pub use rounds::Rounds;

/// The version of the format; a reader refuses a file of another version. Version 2 removed some fields.
pub const FORMAT: u32 = 2;
