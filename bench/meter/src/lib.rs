//! What a process tree and the machine used while a trial ran; and the children, quotas, ports and folders of a trial,
//! none of which outlives it.
//!
//! | module | what it tells or does |
//! |---|---|
//! | [`process`] | CPU time by tree and thread, context switches, memory |
//! | [`machine`] | how each core spent its time, what machine this is |
//! | [`network`] | listen overflows, retransmits, connections of a port |
//! | [`callgrind`] | instructions, counted under valgrind |
//! | [`cgroup`] | CPU quotas: ours, and those somebody set on us |
//! | [`child`] | programs that are pinned, limited, and never left behind |
//! | [`ports`], [`Scratch`] | where servers listen, where files go |
//!
//! # What did this program use?
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

/// The part of `total` that `part` is of `whole`; 0 of nothing.
fn part_of(total: u64, part: u64, whole: u64) -> u64 {
    let exact = u128::from(total) * u128::from(part) / u128::from(whole).max(1);
    u64::try_from(exact).unwrap_or(u64::MAX)
}

/// Tells that this machine cannot run a test; past the test runner, which hides what a test that passed has printed.
#[cfg(test)]
fn skipped(why: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("SKIPPED: {why}\n").as_bytes());
}
