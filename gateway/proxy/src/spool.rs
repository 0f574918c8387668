//! A bounded queue of bytes: in memory first, then in a temporary file.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use tollgate_plan::BufferBounds;

/// Bytes that leave the queue at once.
const PULL: usize = 64 * 1024;

/// A bounded queue of bytes: in memory first, then in a temporary file without a name, which the kernel removes
/// whatever happens to the process. Its reads and writes mostly meet the page cache; like nginx's they are made on
/// the worker, since a thread's hand-over costs more than they do.
#[derive(Debug)]
pub(crate) struct Spool {
    bounds: BufferBounds,
    memory: VecDeque<u8>,
    file: Option<File>,
    /// Bytes of the file that were written, and taken out again.
    written: u64,
    taken: u64,
}

impl Spool {
    pub fn new(bounds: BufferBounds) -> Self {
        Self { bounds, memory: VecDeque::new(), file: None, written: 0, taken: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes in the queue.
    pub fn len(&self) -> u64 {
        self.memory.len() as u64 + (self.written - self.taken)
    }

    /// Whether it is within its bounds. A push may overshoot them by one read.
    pub fn has_room(&self) -> bool {
        (self.memory.len() as u64) < self.bounds.memory || self.written < self.bounds.file
    }

    /// Appends.
    ///
    /// # Errors
    /// When the temporary file cannot be made or written.
    pub fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.written == self.taken && self.memory.len() as u64 + bytes.len() as u64 <= self.bounds.memory {
            // What was in the file has gone out: its room is free again.
            (self.written, self.taken) = (0, 0);
            self.memory.extend(bytes);
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile()?),
        };
        file.write_all_at(bytes, self.written)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Moves the oldest bytes to the end of `out`.
    ///
    /// # Errors
    /// When the temporary file cannot be read.
    pub fn pull(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        if !self.memory.is_empty() {
            let count = self.memory.len().min(PULL);
            out.extend(self.memory.drain(..count));
            return Ok(());
        }
        let Some(file) = &self.file else { return Ok(()) };
        let count = (self.written - self.taken).min(PULL as u64) as usize;
        let start = out.len();
        out.resize(start + count, 0);
        file.read_exact_at(&mut out[start..], self.taken)?;
        self.taken += count as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_over_memory_and_file() -> io::Result<()> {
        let mut spool = Spool::new(BufferBounds { memory: 10, file: 200_000 });
        let bytes: Vec<u8> = (0..150_000u32).map(|at| (at * 7) as u8).collect();
        let (mut out, mut fed) = (Vec::new(), 0);
        for (turn, piece) in bytes.chunks(7001).enumerate() {
            spool.push(piece)?;
            fed += piece.len();
            assert_eq!(spool.len() as usize, fed - out.len());
            if turn % 3 == 2 {
                spool.pull(&mut out)?;
            }
        }
        while !spool.is_empty() {
            spool.pull(&mut out)?;
        }
        assert_eq!(out, bytes);
        spool.push(b"abc")?;
        spool.pull(&mut out)?;
        assert!(out.ends_with(b"abc") && spool.is_empty());
        Ok(())
    }

    #[test]
    fn it_has_bounds() -> io::Result<()> {
        let mut spool = Spool::new(BufferBounds { memory: 4, file: 8 });
        spool.push(b"1234")?;
        assert!(spool.has_room());
        spool.push(b"567890ab")?;
        assert!(!spool.has_room());
        Ok(())
    }
}
