//! A file as it is served: its field lines, its validators, and its content or descriptor.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{FileType, Stat, fstat};
use rustix::io::{Errno, ReadWriteFlags};
use tollgate_http::{ContentCoding, Selected, format_date};

use crate::coding::choose;
use crate::media_type::media_type;
use crate::site::Site;

/// Files up to this length are kept in memory: nearly all files of a web site but pictures and videos. Reading a
/// longer one costs more than opening it.
pub(crate) const KEPT_BYTES_MAX: u64 = 64 * 1024;
/// How often a short file is read that changes while it is read.
const READS_MAX: usize = 4;
/// The last second of the year 9999, counted from 1970: the year of an HTTP date has four digits.
const LAST_DATE: u64 = 253_402_300_799;

/// The properties by which a file is recognised as unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            length: u64::try_from(stat.st_size).unwrap_or(0),
            modified: (stat.st_mtime, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime, stat.st_ctime_nsec as i64),
        }
    }
}

/// An open regular file.
#[derive(Debug)]
pub(crate) struct OpenFile {
    descriptor: OwnedFd,
    pub stamp: Stamp,
}

impl OpenFile {
    /// Accepts a descriptor of a regular file. Otherwise returns its type.
    pub fn new(descriptor: OwnedFd) -> Result<Self, Result<FileType, Errno>> {
        let stat = fstat(&descriptor).map_err(Err)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Self { descriptor, stamp: Stamp::of(&stat) }),
            other => Err(Ok(other)),
        }
    }
}

#[derive(Debug)]
enum Content {
    Kept(Box<[u8]>),
    OnDisk(OwnedFd),
}

/// A file as it is served: its field lines, its validators, and its content or descriptor.
#[derive(Debug)]
pub struct ServedFile {
    stamp: Stamp,
    content: Content,
    /// Seconds since 1970.
    modified: u64,
    etag: Vec<u8>,
    /// `Content-Type`, then fields of the whole response, then the fields that a 304 also has, each with its CRLF.
    lines: Vec<u8>,
    type_end: usize,
    validators_start: usize,
    encoded: Vec<(ContentCoding, Arc<ServedFile>)>,
}

/// The result of a read that must not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadNow {
    /// This many bytes were read; 0 is the end of the file.
    Read(usize),
    /// The bytes are not in memory, or the file system cannot tell: use [`ServedFile::read`] on a
    /// [thread](crate::threads).
    MustWait,
}

impl ServedFile {
    /// Loads a file and its encoded variants. `path` is relative to the root.
    pub(crate) fn load(
        site: &Site,
        path: &[u8],
        file: OpenFile,
        encoded: Vec<(ContentCoding, OpenFile)>,
    ) -> Result<Self, Errno> {
        let mut plain = Self::load_one(site, path, file, None)?;
        for (coding, file) in encoded {
            // A file that cannot be read is not offered.
            if let Ok(encoded) = Self::load_one(site, path, file, Some(coding)) {
                plain.encoded.push((coding, Arc::new(encoded)));
            }
        }
        Ok(plain)
    }

    fn load_one(
        site: &Site,
        path: &[u8],
        mut file: OpenFile,
        coding: Option<ContentCoding>,
    ) -> Result<Self, Errno> {
        let kept = if file.stamp.length <= KEPT_BYTES_MAX { read_whole(&mut file)? } else { None };
        let OpenFile { descriptor, stamp } = file;
        let content = match kept {
            Some(bytes) => Content::Kept(bytes),
            None => Content::OnDisk(descriptor),
        };
        let modified = u64::try_from(stamp.modified.0).unwrap_or(0).min(LAST_DATE);
        let suffix = coding.map_or(String::new(), |coding| format!("-{}", coding.name()));
        let (seconds, nanos) = stamp.modified;
        let etag = format!("\"{:x}-{seconds:x}.{nanos:x}{suffix}\"", stamp.length);
        let mut lines = format!("Content-Type: {}\r\n", media_type(path));
        let type_end = lines.len();
        if let Some(coding) = coding {
            lines += &format!("Content-Encoding: {}\r\n", coding.name());
        }
        lines += "Accept-Ranges: bytes\r\n";
        let validators_start = lines.len();
        lines += &format!("ETag: {etag}\r\nLast-Modified: {}\r\n", format_date(modified));
        if let Some(value) = site.cache_control(path) {
            lines += &format!("Cache-Control: {value}\r\n");
        }
        if !site.settings().precompressed.is_empty() {
            lines += "Vary: Accept-Encoding\r\n";
        }
        Ok(Self {
            stamp,
            content,
            modified,
            etag: etag.into_bytes(),
            lines: lines.into_bytes(),
            type_end,
            validators_start,
            encoded: Vec::new(),
        })
    }

    /// Returns whether these open files are the ones that it was loaded from, unchanged.
    pub(crate) fn is_of(&self, file: &OpenFile, encoded: &[(ContentCoding, OpenFile)]) -> bool {
        let same = |(coding, file): &(ContentCoding, OpenFile)| {
            self.encoded.iter().any(|(known, loaded)| known == coding && loaded.stamp == file.stamp)
        };
        self.stamp == file.stamp && self.encoded.len() == encoded.len() && encoded.iter().all(same)
    }

    /// Returns the bytes that it keeps in memory; `None` if it, or one of its encoded variants, is not kept.
    pub(crate) fn kept_bytes(&self) -> Option<usize> {
        let Content::Kept(bytes) = &self.content else { return None };
        let mut sum = bytes.len() + self.lines.len() + self.etag.len() + 256;
        for (_, encoded) in &self.encoded {
            sum += encoded.kept_bytes()?;
        }
        Some(sum)
    }

    /// Returns whether it has encoded variants.
    #[must_use]
    pub fn has_encoded(&self) -> bool {
        !self.encoded.is_empty()
    }

    /// Returns the encoded file that the client prefers by its `Accept-Encoding`; `None`: this file.
    #[must_use]
    pub fn preferred(&self, accept_encoding: &[u8]) -> Option<&Arc<ServedFile>> {
        let coding = choose(accept_encoding, self.encoded.iter().map(|(coding, _)| *coding))?;
        self.encoded.iter().find(|(known, _)| *known == coding).map(|(_, encoded)| encoded)
    }

    /// Returns its length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.stamp.length
    }

    /// Returns its strong entity tag, with the quotes.
    #[must_use]
    pub fn etag(&self) -> &[u8] {
        &self.etag
    }

    /// Returns when it was modified, in seconds since 1970.
    #[must_use]
    pub fn modified(&self) -> u64 {
        self.modified
    }

    /// Returns what the conditions of a request are evaluated against.
    #[must_use]
    pub fn selected(&self) -> Selected<'_> {
        let (etag, modified) = (Some(self.etag()), Some(self.modified));
        Selected { etag, modified, has_strong_date: true, length: self.length() }
    }

    /// Returns the field lines of a 200 or 206.
    #[must_use]
    pub fn lines(&self) -> &[u8] {
        &self.lines
    }

    /// Returns these lines without `Content-Type`, for a body of several parts.
    #[must_use]
    pub fn lines_without_type(&self) -> &[u8] {
        &self.lines[self.type_end..]
    }

    /// Returns the line of `Content-Type`, with its CRLF.
    #[must_use]
    pub fn type_line(&self) -> &[u8] {
        &self.lines[..self.type_end]
    }

    /// Returns the field lines of a 304 (RFC 9110, 15.4.5).
    #[must_use]
    pub fn validator_lines(&self) -> &[u8] {
        &self.lines[self.validators_start..]
    }

    /// Returns the content, if it is in memory.
    #[must_use]
    pub fn content(&self) -> Option<&[u8]> {
        match &self.content {
            Content::Kept(bytes) => Some(bytes),
            Content::OnDisk(_) => None,
        }
    }

    /// Reads at an offset, without waiting for a disk.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read_now(&self, buffer: &mut [u8], offset: u64) -> io::Result<ReadNow> {
        let Content::OnDisk(file) = &self.content else { return Ok(ReadNow::MustWait) };
        match rustix::io::preadv2(file, &mut [IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT) {
            Ok(count) => Ok(ReadNow::Read(count)),
            Err(Errno::AGAIN | Errno::INTR | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                Ok(ReadNow::MustWait)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the file's descriptor; `None` if the content is [kept](Self::content).
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.content {
            Content::OnDisk(file) => Some(file.as_fd()),
            Content::Kept(_) => None,
        }
    }

    /// Returns whether a part of a file that is not [kept](Self::content) is in the page cache, as far as its
    /// first and its last byte show. The kernel reads ahead in long runs, so for parts of a megabyte they show it
    /// nearly always.
    #[must_use]
    pub fn is_in_page_cache(&self, offset: u64, length: usize) -> bool {
        let last = (offset + length as u64).saturating_sub(1);
        [offset, last].into_iter().all(|at| matches!(self.read_now(&mut [0], at), Ok(ReadNow::Read(1))))
    }

    /// Reads at an offset. May wait for a disk. 0 is the end of the file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match &self.content {
            Content::Kept(bytes) => {
                let rest =
                    usize::try_from(offset).ok().and_then(|start| bytes.get(start..)).unwrap_or_default();
                let count = rest.len().min(buffer.len());
                buffer[..count].copy_from_slice(&rest[..count]);
                Ok(count)
            }
            Content::OnDisk(file) => {
                Ok(rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut *buffer, offset))?)
            }
        }
    }
}

/// Reads a short file. `None`: it is not short any more. The stamp is the one of the content: a file that is being
/// written is read again, so that an entity tag does not name half of a change.
fn read_whole(file: &mut OpenFile) -> Result<Option<Box<[u8]>>, Errno> {
    for attempt in 1..=READS_MAX {
        if file.stamp.length > KEPT_BYTES_MAX {
            break;
        }
        // One byte more shows whether the file has grown.
        let mut bytes = vec![0; file.stamp.length as usize + 1];
        let mut filled = 0;
        while filled < bytes.len() {
            let (to, offset) = (&mut bytes[filled..], filled as u64);
            match rustix::io::pread(&file.descriptor, to, offset) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        let stamp = Stamp::of(&fstat(&file.descriptor)?);
        let is_same = stamp == file.stamp && filled as u64 == stamp.length;
        file.stamp = stamp;
        if is_same || attempt == READS_MAX && filled as u64 <= KEPT_BYTES_MAX {
            bytes.truncate(filled);
            file.stamp.length = filled as u64;
            return Ok(Some(bytes.into_boxed_slice()));
        }
    }
    Ok(None)
}
