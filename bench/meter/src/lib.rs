//! Measures what a process tree and the machine use during a trial, and manages the trial's child processes,
//! quotas, ports and folders. None of these outlives the run.
//!
//! | module | content |
//! |---|---|
//! | [`process`] | CPU time by tree and thread, context switches, memory |
//! | [`machine`] | time of each core by kind, description of the machine |
//! | [`network`] | listen overflows, retransmits, connections of a port |
//! | [`callgrind`] | instructions, counted under valgrind |
//! | [`cgroup`] | CPU quotas: the laboratory's own, and quotas set on it from outside |
//! | [`child`] | child programs that are pinned, limited and always ended |
//! | [`ports`], [`Scratch`] | ports for servers, folders for files |
//!
//! # Example: what a program used
//! ```
//! use std::time::Duration;
//! use tollgate_lab_meter::{child::Launch, machine::allowed_cores, process::Snapshot};
//!
//! let core = allowed_cores()?[0];
//! let server = Launch::new("sleep").arguments(["5"]).cores(&[core]).start()?;
//! let before = Snapshot::take(server.id());
//! std::thread::sleep(Duration::from_millis(20));
//! let used = Snapshot::take(server.id()).since(&before);
//! assert_eq!(used.total_ns, used.user_ns + used.system_ns);
//! for thread in &used.threads {
//!     assert!(thread.ns <= used.total_ns, "{}: {} ns", thread.name, thread.ns);
//! }
//! # Ok::<(), tollgate_lab_meter::Error>(())
//! ```

pub mod callgrind;
pub mod cgroup;
pub mod child;
pub mod error;
pub mod machine;
pub mod network;
mod owner;
pub mod ports;
pub mod process;
mod scratch;

pub use error::Error;
pub use scratch::Scratch;

/// Returns the part of `total` that `part` is of `whole`; 0 if `whole` is 0.
fn part_of(total: u64, part: u64, whole: u64) -> u64 {
    let exact = u128::from(total) * u128::from(part) / u128::from(whole).max(1);
    u64::try_from(exact).unwrap_or(u64::MAX)
}

/// Reports that this machine cannot run a test. Writes past the test runner, which hides the output of passed
/// tests.
#[cfg(test)]
fn skipped(why: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("SKIPPED: {why}\n").as_bytes());
}
