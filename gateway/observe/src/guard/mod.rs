//! How much the process uses of what it must not run out of: memory and file descriptors.

mod files;
mod memory;

use std::time::Instant;

use serde_json::{Value, json};

use self::files::Files;
use self::memory::Memory;

/// What is used of something, and how much of it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guarded {
    /// Bytes, or descriptors.
    pub used: u64,
    /// As many as there may be; never 0.
    pub bound: u64,
}

impl Guarded {
    /// What is used, as a part of what may be.
    #[must_use]
    pub fn ratio(self) -> f64 {
        self.used as f64 / self.bound.max(1) as f64
    }
}

/// What is used of everything that is guarded. What cannot be read, and what has no bound, is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuardReading {
    /// Bytes of resident memory.
    pub memory: Option<Guarded>,
    /// Open file descriptors.
    pub files: Option<Guarded>,
    /// Requests below this priority are turned away; 0: none is, 3: all are.
    pub sheds: u8,
}

impl GuardReading {
    /// As the admin listener shows it.
    pub(crate) fn json(&self) -> Value {
        let one =
            |guarded: Option<Guarded>| guarded.map(|one| json!({ "used": one.used, "bound": one.bound }));
        let shed = ["low", "normal", "high"].into_iter().take(usize::from(self.sheds)).collect::<Vec<_>>();
        json!({ "memory": one(self.memory), "files": one(self.files), "shed": shed })
    }
}

/// Reads what is used, again and again. Opens no file to do so: it works when no descriptor is left.
#[derive(Debug)]
pub struct Guards {
    memory: Memory,
    files: Files,
}

impl Guards {
    /// Made while there are descriptors left.
    #[must_use]
    pub fn new() -> Self {
        Self { memory: Memory::new(), files: Files::new() }
    }

    /// What is used now. `memory` is the bound of resident memory; `None`: 90 % of the control group's limit, if there
    /// is one. `files` is the share (0 to 1) of the process's descriptors that may be used.
    pub fn read(&mut self, now: Instant, memory: Option<u64>, files: f64) -> GuardReading {
        GuardReading { memory: self.memory.read(now, memory), files: self.files.read(now, files), sheds: 0 }
    }
}

impl Default for Guards {
    fn default() -> Self {
        Self::new()
    }
}
