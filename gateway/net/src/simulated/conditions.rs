//! The choices of a scenario: the conditions of the network, and the groups of tasks.

/// Properties of the network and the machines. Ranges are in microseconds or bytes; each new connection draws
/// its own values from them.
#[derive(Clone, Debug)]
pub struct NetworkConditions {
    /// From a send to its arrival, in microseconds.
    pub delay: (u64, u64),
    /// Bytes that fit between a writer and its reader.
    pub capacity: (usize, usize),
    /// One write in this many arrives in several pieces; 0: none does.
    pub pieces: u32,
    /// One write in this many is short, although there is room; 0: none is.
    pub short_writes: u32,
    /// One read in this many is short; 0: none is.
    pub short_reads: u32,
    /// One read in this many returns pending once, as if the task had used its budget; 0: none does.
    pub shares: u32,
    /// Duration of one poll of a task, in microseconds.
    pub poll: (u64, u64),
}

impl Default for NetworkConditions {
    fn default() -> Self {
        Self {
            delay: (20, 200),
            capacity: (64 * 1024, 256 * 1024),
            pieces: 8,
            short_writes: 0,
            short_reads: 0,
            shares: 0,
            poll: (0, 3),
        }
    }
}

/// A set of tasks that acts as one thread, process or machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskGroup(pub(super) usize);
