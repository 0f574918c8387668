//! A folder in memory whose calls fail when the test wants it, and that survives the process.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::medium::{Medium, SegmentFile};

/// Numbers of the system's errors.
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// A failure of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call fails.
    Io,
    /// The disk is full. If it is a write, half of it happens.
    Full,
    /// A read or a write does less than was asked for.
    Short,
    /// The process is killed in the middle of the call: half of a write happens, and no later call has any effect.
    Kill,
}

#[derive(Default)]
struct World {
    files: BTreeMap<u32, Vec<u8>>,
    /// Removed files, which stay readable through open handles.
    removed: BTreeMap<u32, Vec<u8>>,
    calls: u64,
    /// The failures, by the number of the call.
    faults: BTreeMap<u64, Fault>,
    is_dead: bool,
    /// The time that was noted last.
    confirmed: Option<u64>,
    /// The most bytes of all files together.
    room: Option<usize>,
}

impl World {
    /// Counts a call. Returns what goes wrong with it.
    fn call(&mut self) -> Option<Fault> {
        self.calls += 1;
        if self.is_dead {
            return Some(Fault::Io);
        }
        let fault = self.faults.remove(&self.calls);
        self.is_dead |= fault == Some(Fault::Kill);
        fault
    }

    fn checked(&mut self) -> io::Result<()> {
        match self.call() {
            Some(Fault::Io | Fault::Kill) => Err(io::Error::from_raw_os_error(EIO)),
            Some(Fault::Full) => Err(io::Error::from_raw_os_error(ENOSPC)),
            Some(Fault::Short) | None => Ok(()),
        }
    }
}

/// The folder. Clones are the same folder.
#[derive(Clone, Default)]
pub struct Simulated(Arc<Mutex<World>>);

impl Simulated {
    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has something go wrong at the call after this many further ones.
    pub fn fail_after(&self, calls: u64, fault: Fault) {
        let mut world = self.world();
        let at = world.calls + calls + 1;
        world.faults.insert(at, fault);
    }

    /// The number of calls so far.
    pub fn calls(&self) -> u64 {
        self.world().calls
    }

    /// Bounds all files together; `None`: no bound.
    pub fn set_room(&self, room: Option<usize>) {
        self.world().room = room;
    }

    /// Starts another process: nothing fails any more.
    pub fn revive(&self) {
        let mut world = self.world();
        world.is_dead = false;
        world.removed.clear();
        world.faults.clear();
    }

    /// Whether the process was killed.
    pub fn is_dead(&self) -> bool {
        self.world().is_dead
    }

    /// The bytes of all files.
    pub fn bytes(&self) -> usize {
        self.world().files.values().map(Vec::len).sum()
    }

    /// Flips a bit of the byte at a position among all bytes.
    pub fn flip(&self, mut position: usize, bit: u8) {
        for file in self.world().files.values_mut() {
            if let Some(byte) = file.get_mut(position) {
                *byte ^= 1 << (bit % 8);
                return;
            }
            position -= file.len();
        }
    }

    /// Cuts the newest file to a length.
    pub fn cut_newest(&self, length: usize) {
        if let Some(mut newest) = self.world().files.last_entry() {
            newest.get_mut().truncate(length);
        }
    }
}

impl Medium for Simulated {
    fn claim(&mut self) -> io::Result<bool> {
        self.world().checked().map(|()| true)
    }

    fn segments(&self) -> io::Result<Vec<u32>> {
        let mut world = self.world();
        world.checked()?;
        Ok(world.files.keys().copied().collect())
    }

    fn create(&self, number: u32) -> io::Result<Arc<dyn SegmentFile>> {
        let mut world = self.world();
        world.checked()?;
        assert!(world.files.insert(number, Vec::new()).is_none(), "a number is used once");
        Ok(Arc::new(Open { folder: self.clone(), number }))
    }

    fn open(&self, number: u32) -> io::Result<Arc<dyn SegmentFile>> {
        self.world().checked()?;
        Ok(Arc::new(Open { folder: self.clone(), number }))
    }

    fn remove(&self, number: u32) -> io::Result<()> {
        let mut world = self.world();
        world.checked()?;
        let removed = world.files.remove(&number);
        world.removed.extend(removed.map(|file| (number, file)));
        Ok(())
    }

    fn confirmed(&self) -> io::Result<Option<u64>> {
        let mut world = self.world();
        world.checked().map(|()| world.confirmed)
    }

    fn confirm(&self, seconds: u64) -> io::Result<()> {
        let mut world = self.world();
        world.checked()?;
        world.confirmed = Some(seconds);
        Ok(())
    }
}

/// An open file.
struct Open {
    folder: Simulated,
    number: u32,
}

impl SegmentFile for Open {
    fn length(&self) -> io::Result<u64> {
        let mut world = self.folder.world();
        world.checked()?;
        Ok(world.files.get(&self.number).map_or(0, Vec::len) as u64)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut world = self.folder.world();
        let fault = world.call();
        let others: usize = world.files.values().map(Vec::len).sum();
        let room = world.room.map_or(usize::MAX, |room| room.saturating_sub(others));
        let is_dead = world.is_dead && fault != Some(Fault::Kill);
        let Some(file) = world.files.get_mut(&self.number).filter(|_| !is_dead) else {
            return Err(io::Error::from_raw_os_error(EIO));
        };
        assert_eq!(offset, file.len() as u64, "the log is only appended to");
        let count = match fault {
            None => bytes.len(),
            Some(Fault::Io) => 0,
            Some(Fault::Full | Fault::Short | Fault::Kill) => bytes.len().div_ceil(2),
        };
        let written = count.min(room);
        file.extend_from_slice(&bytes[..written]);
        match fault {
            Some(Fault::Io | Fault::Kill) => Err(io::Error::from_raw_os_error(EIO)),
            Some(Fault::Full) => Err(io::Error::from_raw_os_error(ENOSPC)),
            _ if written == 0 => Err(io::Error::from_raw_os_error(ENOSPC)),
            _ => Ok(written),
        }
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut world = self.folder.world();
        let most = match world.call() {
            Some(Fault::Io | Fault::Kill | Fault::Full) => return Err(io::Error::from_raw_os_error(EIO)),
            Some(Fault::Short) => bytes.len().div_ceil(2),
            None => bytes.len(),
        };
        let file = world.files.get(&self.number).or_else(|| world.removed.get(&self.number));
        let file = file.map_or(&[][..], |file| file);
        let rest = file.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(most);
        bytes[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn sync(&self) -> io::Result<()> {
        self.folder.world().checked()
    }
}

impl fmt::Debug for Open {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Open").field("number", &self.number).finish_non_exhaustive()
    }
}
