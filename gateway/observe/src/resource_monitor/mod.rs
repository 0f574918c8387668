//! Reads how much the process uses of the resources that it must not run out of: memory and file descriptors.

mod files;
mod memory;

use std::time::Instant;

use serde_json::{Value, json};

use self::files::Files;
use self::memory::Memory;

/// Use of a resource, and its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceUse {
    /// Bytes, or descriptors.
    pub used: u64,
    /// The bound, in the same unit; never 0.
    pub bound: u64,
}

impl ResourceUse {
    /// Returns the used part of the bound; above 1 if the bound is exceeded.
    #[must_use]
    pub fn ratio(self) -> f64 {
        self.used as f64 / self.bound.max(1) as f64
    }
}

/// Use of all guarded resources. A resource that cannot be read, or has no bound, is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceReading {
    /// Bytes of resident memory.
    pub memory: Option<ResourceUse>,
    /// Open file descriptors.
    pub files: Option<ResourceUse>,
    /// Requests below this priority are rejected. 0 rejects none, 3 rejects all.
    pub sheds: u8,
}

impl ResourceReading {
    /// Renders the reading for `GET /status`.
    pub(crate) fn json(&self) -> Value {
        let one =
            |guarded: Option<ResourceUse>| guarded.map(|one| json!({ "used": one.used, "bound": one.bound }));
        let shed = ["low", "normal", "high"].into_iter().take(usize::from(self.sheds)).collect::<Vec<_>>();
        json!({ "memory": one(self.memory), "files": one(self.files), "shed": shed })
    }
}

/// Reads the use of the resources repeatedly. It needs no new descriptor for that, so it works when none is
/// left.
#[derive(Debug)]
pub struct ResourceMonitor {
    memory: Memory,
    files: Files,
}

impl ResourceMonitor {
    /// Opens the files to read. Call it at the start, while descriptors are available.
    #[must_use]
    pub fn new() -> Self {
        Self { memory: Memory::new(), files: Files::new() }
    }

    /// Returns the present use. `memory` is the bound of resident memory in bytes; `None`: 90 % of the
    /// control group's limit, if there is one. `files` is the share (0 to 1) of the process's descriptors
    /// that may be used.
    pub fn read(&mut self, now: Instant, memory: Option<u64>, files: f64) -> ResourceReading {
        ResourceReading {
            memory: self.memory.read(now, memory),
            files: self.files.read(now, files),
            sheds: 0,
        }
    }
}

impl Default for ResourceMonitor {
    fn default() -> Self {
        Self::new()
    }
}
