//! The body of a record, which stays on disk while it is sent.

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::Disk;
use super::format::{BLOCK_BYTES, Place, block_sum};
use super::medium::{SegmentFile, read_exact};

/// The body of a record. It is readable for as long as this exists, even if its segment is evicted. Each block is verified
/// before its bytes are returned.
pub struct DiskBody {
    pub(super) disk: Arc<Disk>,
    pub(super) hash: u64,
    pub(super) key: Box<[u8]>,
    pub(super) place: Place,
    pub(super) file: Arc<dyn SegmentFile>,
    /// Offset of its first byte in the file.
    pub(super) start: u64,
    pub(super) length: u64,
    /// The checksums of its blocks.
    pub(super) sums: Box<[u64]>,
}

impl DiskBody {
    /// The length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Reads the bytes from an offset on: some of them, at least one unless the body ends there, and about `most` at the
    /// most. Blocks the thread.
    ///
    /// # Errors
    /// If they cannot be read, or are not the bytes that were stored. Then the object is removed.
    pub fn read(&self, offset: u64, most: usize) -> io::Result<Bytes> {
        if offset >= self.length {
            return Ok(Bytes::new());
        }
        let block = BLOCK_BYTES as u64;
        let first = offset / block;
        let last = ((offset + most.max(1) as u64).min(self.length) - 1) / block;
        let from = first * block;
        let until = ((last + 1) * block).min(self.length);
        let read = read_exact(&*self.file, (until - from) as usize, self.start + from);
        let read = read.inspect_err(|_| self.disk.note_bad_record(self.hash, &self.key, self.place))?;
        let mut blocks = (first..).zip(read.chunks(BLOCK_BYTES));
        let is_good = |(number, data): (u64, &[u8])| {
            self.sums.get(number as usize) == Some(&block_sum(self.place, number, data))
        };
        if !blocks.all(is_good) {
            self.disk.note_bad_record(self.hash, &self.key, self.place);
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a block of a stored body is damaged"));
        }
        let end = ((offset - from) as usize).saturating_add(most.max(1)).min(read.len());
        self.disk.counters.count_read((end - (offset - from) as usize) as u64);
        Ok(Bytes::from(read).slice((offset - from) as usize..end))
    }
}

impl fmt::Debug for DiskBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("DiskBody").field("place", &self.place).finish_non_exhaustive()
    }
}
