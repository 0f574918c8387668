//! The calls of the file system that the disk tier makes.
//!
//! [`Medium`] is the folder, [`SegmentFile`] one file in it. The program uses [`Folder`]; tests replace it by a
//! simulated folder whose calls fail. All calls may block, so no worker makes them.

use std::fmt::Debug;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError, read_dir, read_to_string, remove_file, rename};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The end of the names of segments, after the number as 16 hexadecimal digits.
const SUFFIX: &str = ".segment";
/// The file that the process with the folder holds locked.
const LOCK: &str = "lock";
/// The file with the time up to which the contents are purged, in seconds since 1970.
const CONFIRMED: &str = "confirmed";
/// Stored responses may be personal, so only the gateway's user can read them.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// A folder of segments.
pub(super) trait Medium: Send {
    /// Claims the folder for this process, and creates it if it is missing. False: another process has it.
    fn claim(&mut self) -> io::Result<bool>;
    /// Lists the numbers of all segments, in no order.
    fn segments(&self) -> io::Result<Vec<u32>>;
    fn create(&self, number: u32) -> io::Result<Arc<dyn SegmentFile>>;
    fn open(&self, number: u32) -> io::Result<Arc<dyn SegmentFile>>;
    fn remove(&self, number: u32) -> io::Result<()>;
    /// Returns the time of the last confirmation, in seconds since 1970; `None`: there is none.
    fn confirmed(&self) -> io::Result<Option<u64>>;
    /// Stores the time of a confirmation.
    fn confirm(&self, seconds: u64) -> io::Result<()>;
}

/// One file of the folder.
pub(super) trait SegmentFile: Debug + Send + Sync {
    fn length(&self) -> io::Result<u64>;
    /// Writes some of the bytes, and returns how many.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Reads some of the bytes, and returns how many; 0 at the end.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Waits until everything that was written survives a loss of power.
    fn sync(&self) -> io::Result<()>;
}

/// Writes all bytes.
pub(super) fn write_all(file: &dyn SegmentFile, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, offset) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => {
                bytes = &bytes[count..];
                offset += count as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads this many bytes.
pub(super) fn read_exact(file: &dyn SegmentFile, length: usize, offset: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut read = 0;
    while read < length {
        match file.read_at(&mut bytes[read..], offset + read as u64) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => read += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

/// A folder of the file system.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// The locked file; the lock ends with it.
    lock: Option<File>,
}

impl Folder {
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), lock: None }
    }

    fn file(&self, number: u32) -> PathBuf {
        self.path.join(format!("{number:016x}{SUFFIX}"))
    }
}

impl Medium for Folder {
    fn claim(&mut self) -> io::Result<bool> {
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(&self.path)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
        let file = options.open(self.path.join(LOCK))?;
        match file.try_lock() {
            Ok(()) => {
                self.lock = Some(file);
                Ok(true)
            }
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn segments(&self) -> io::Result<Vec<u32>> {
        let mut numbers = Vec::new();
        for entry in read_dir(&self.path)? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
            numbers.extend(number.and_then(|digits| u32::from_str_radix(digits, 16).ok()));
        }
        Ok(numbers)
    }

    fn create(&self, number: u32) -> io::Result<Arc<dyn SegmentFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(FILE_MODE);
        Ok(Arc::new(options.open(self.file(number))?))
    }

    fn open(&self, number: u32) -> io::Result<Arc<dyn SegmentFile>> {
        Ok(Arc::new(File::open(self.file(number))?))
    }

    fn remove(&self, number: u32) -> io::Result<()> {
        remove_file(self.file(number))
    }

    fn confirmed(&self) -> io::Result<Option<u64>> {
        match read_to_string(self.path.join(CONFIRMED)) {
            // A file that a loss of power cut does not count.
            Ok(text) => Ok(text.strip_suffix('\n').and_then(|digits| digits.parse().ok())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn confirm(&self, seconds: u64) -> io::Result<()> {
        let new = self.path.join(format!("{CONFIRMED}.new"));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(FILE_MODE);
        options.open(&new)?.write_all(format!("{seconds}\n").as_bytes())?;
        rename(&new, self.path.join(CONFIRMED))
    }
}

impl SegmentFile for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, offset)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
