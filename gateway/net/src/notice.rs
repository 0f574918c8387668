//! Notices for people on the standard error.
//!
//! `eprintln!` panics when its line cannot be written. A gateway must survive the end of the reader of its
//! notices (`2>&1 | logger`), and a full disk. Crates that write notices while requests pass deny
//! `clippy::print_stderr`.
//!
//! A running gateway does not wait for the reader of its notices either: see [`drop_notices_when_stalled`].

use std::fmt::Arguments;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;

/// How long a running gateway waits for a stalled reader of its notices. It then does not wait again until
/// the reader has taken something.
const STALL_TIMEOUT: Duration = Duration::from_millis(500);
/// Bytes that a writable pipe takes without blocking (`PIPE_BUF`, pipe(7)).
const PIPE_BUF_BYTES: usize = 4096;

/// Whether notices may be lost to avoid waiting.
static MAY_DROP: AtomicBool = AtomicBool::new(false);
/// Whether the reader has stalled.
static IS_STALLED: AtomicBool = AtomicBool::new(false);

/// Writes a line on the standard error; arguments as for [`format!`]. A line that cannot be written is lost.
#[macro_export]
macro_rules! notice {
    ($($text:tt)*) => {
        $crate::write_notice(format_args!($($text)*))
    };
}

/// Writes a line on the standard error. [`notice!`] expands to a call of it.
pub fn write_notice(line: Arguments<'_>) {
    write_error(&format!("{line}\n"));
}

/// Makes later notices get lost if the reader of the standard error does not take them in time. A running
/// gateway calls it, because its threads must answer signals and requests. A command waits for its reader:
/// `tollgate check file 2>&1 | less`.
pub fn drop_notices_when_stalled() {
    MAY_DROP.store(true, Ordering::Relaxed);
}

/// Writes a text on the standard error, in one call if possible, so that lines of two threads or processes do
/// not mix. The part that cannot be written is lost.
pub fn write_error(text: &str) {
    let written = match MAY_DROP.load(Ordering::Relaxed) {
        false => io::stderr().write_all(text.as_bytes()),
        true => write_with_timeout(text.as_bytes()),
    };
    // No channel remains on which to report the error.
    let _ = written;
}

fn write_with_timeout(mut bytes: &[u8]) -> io::Result<()> {
    let error = io::stderr();
    // A regular file takes everything in one write.
    let is_file =
        fstat(&error).is_ok_and(|data| FileType::from_raw_mode(data.st_mode) == FileType::RegularFile);
    let piece = if is_file { bytes.len() } else { PIPE_BUF_BYTES };
    let patience = if IS_STALLED.load(Ordering::Relaxed) { Duration::ZERO } else { STALL_TIMEOUT };
    let end = Instant::now() + patience;
    while !bytes.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::new(&error, PollFlags::OUT)], Some(&timeout)) {
            Ok(0) => {
                IS_STALLED.store(true, Ordering::Relaxed);
                return Err(io::ErrorKind::TimedOut.into());
            }
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        match rustix::io::write(&error, &bytes[..bytes.len().min(piece)]) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    IS_STALLED.store(false, Ordering::Relaxed);
    Ok(())
}
