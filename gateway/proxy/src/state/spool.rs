//! A bounded queue of bytes: first in memory, then in a temporary file. [`Backlog`](crate::state::backlog::Backlog)
//! uses it for buffered responses, and `collect` for buffered requests.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use tollgate_plan::BufferBounds;

/// The most bytes that leave the queue at once.
const PULL: usize = 64 * 1024;

/// A bounded queue of bytes, first in memory, then in an unnamed temporary file. The kernel removes that file
/// whatever happens to the process. Reads and writes mostly hit the page cache. They are made on the worker,
/// as in nginx, because handing them to a thread costs more.
#[derive(Debug)]
pub(crate) struct Spool {
    bounds: BufferBounds,
    memory: Rc<VecDeque<u8>>,
    /// Bytes of `memory` that were read; always 0 unless `kept`.
    memory_taken: usize,
    /// Whether bytes stay after they are read, so that [`Self::rewind`] can return them again.
    kept: bool,
    file: Option<Rc<File>>,
    /// Bytes written to the file, and bytes read from it.
    written: u64,
    taken: u64,
}

impl Spool {
    pub fn new(bounds: BufferBounds) -> Self {
        let memory = Rc::default();
        Self { bounds, memory, memory_taken: 0, kept: false, file: None, written: 0, taken: 0 }
    }

    /// Keeps the whole content for repeated reading. No more may be added; [`Self::rewind`] returns to the
    /// start.
    pub fn keep(mut self) -> Self {
        self.kept = true;
        self
    }

    /// Returns another reader of [kept](Self::keep) content, from its first byte. Nothing is copied.
    pub fn reader(&self) -> Self {
        let Self { bounds, written, .. } = *self;
        let (memory, file) = (self.memory.clone(), self.file.clone());
        Self { bounds, memory, memory_taken: 0, kept: true, file, written, taken: 0 }
    }

    /// Leaves no room beyond what it holds.
    pub fn shut(&mut self) {
        self.bounds = BufferBounds { memory: 0, file: 0 };
    }

    /// Continues at the first byte.
    pub fn rewind(&mut self) {
        (self.memory_taken, self.taken) = (0, 0);
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of unread bytes.
    pub fn len(&self) -> u64 {
        (self.memory.len() - self.memory_taken) as u64 + (self.written - self.taken)
    }

    /// Returns whether the queue is within its bounds. One push may exceed them by one read.
    pub fn has_room(&self) -> bool {
        // Once the file holds unread bytes, all later bytes go there, however much memory is free. Bytes that
        // were read keep their place in the file until it is empty.
        match self.written == self.taken {
            true => self.bounds.file > 0 || (self.memory.len() as u64) < self.bounds.memory,
            false => self.written < self.bounds.file,
        }
    }

    /// Returns whether `bytes` in total are within the bounds.
    pub fn can_hold(&self, bytes: u64) -> bool {
        bytes <= self.bounds.memory.saturating_add(self.bounds.file)
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// If the temporary file cannot be created or written.
    pub fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.written == self.taken {
            // Everything in the file was read, so it is reused from its start.
            (self.written, self.taken) = (0, 0);
            let fits = self.memory.len() as u64 + bytes.len() as u64 <= self.bounds.memory;
            // Without a file, memory takes the excess.
            if fits || self.bounds.file == 0 {
                // The memory is shared only once it is kept, and nothing is added after that: this copies
                // nothing.
                Rc::make_mut(&mut self.memory).extend(bytes);
                return Ok(());
            }
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(Rc::new(tempfile::tempfile()?)),
        };
        file.write_all_at(bytes, self.written)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Moves the oldest bytes to the end of `out`.
    ///
    /// # Errors
    /// If the temporary file cannot be read.
    pub fn pull(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let count = (self.memory.len() - self.memory_taken).min(PULL);
        if count > 0 {
            if self.kept {
                out.extend(self.memory.range(self.memory_taken..self.memory_taken + count));
                self.memory_taken += count;
            } else {
                out.extend(Rc::make_mut(&mut self.memory).drain(..count));
            }
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

    /// Reading the memory first must not let the file grow without bound.
    #[test]
    fn a_reader_slower_than_the_writer_does_not_lift_the_bounds() -> io::Result<()> {
        let mut spool = Spool::new(BufferBounds { memory: PULL as u64, file: 100_000 });
        let mut out = Vec::new();
        for _ in 0..100 {
            while spool.has_room() {
                spool.push(&[7; 10_000])?;
                assert!(spool.written <= 110_000 && spool.memory.len() <= PULL);
            }
            spool.pull(&mut out)?;
        }
        Ok(())
    }

    #[test]
    fn stored_bytes_are_read_back() -> io::Result<()> {
        let mut spool = Spool::new(BufferBounds { memory: 100_000, file: 200_000 });
        let bytes: Vec<u8> = (0..150_000u32).map(|at| (at * 7) as u8).collect();
        bytes.chunks(9000).try_for_each(|piece| spool.push(piece))?;
        let mut spool = spool.keep();
        for _ in 0..3 {
            let mut out = Vec::new();
            assert_eq!(spool.len(), 150_000);
            while !spool.is_empty() {
                spool.pull(&mut out)?;
            }
            assert!(out == bytes);
            spool.rewind();
            // Also from the middle.
            spool.pull(&mut out)?;
            spool.rewind();
        }
        Ok(())
    }

    #[test]
    fn readers_of_what_is_kept_do_not_disturb_each_other() -> io::Result<()> {
        let mut spool = Spool::new(BufferBounds { memory: 100_000, file: 200_000 });
        let bytes: Vec<u8> = (0..250_000u32).map(|at| (at * 7) as u8).collect();
        bytes.chunks(9000).try_for_each(|piece| spool.push(piece))?;
        let mut first = spool.keep();
        first.pull(&mut Vec::new())?;
        let mut readers = [first.reader(), first.reader(), first];
        readers[2].rewind();
        let mut out = [const { Vec::new() }; 3];
        while readers.iter().any(|reader| !reader.is_empty()) {
            for (reader, out) in readers.iter_mut().zip(&mut out) {
                reader.pull(out)?;
            }
        }
        assert!(out.iter().all(|out| *out == bytes));
        Ok(())
    }

    #[test]
    fn an_emptied_file_is_used_again_from_its_start() -> io::Result<()> {
        let mut spool = Spool::new(BufferBounds { memory: 0, file: 100 });
        for _ in 0..5 {
            spool.push(&[1; 60])?;
            spool.pull(&mut Vec::new())?;
        }
        assert_eq!(spool.written, 60);
        Ok(())
    }

    #[test]
    fn no_file_where_none_is_allowed() -> io::Result<()> {
        let mut spool = Spool::new(BufferBounds { memory: 4, file: 0 });
        assert!(spool.has_room());
        spool.push(b"123456789")?;
        assert!(!spool.has_room() && spool.file.is_none());
        spool.pull(&mut Vec::new())?;
        assert!(spool.has_room());
        Ok(())
    }
}
