//! The body of a stored response: pieces of memory that responses share, or a record of the disk tier.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use bytes::Bytes;

/// Pieces at least this long stay as they arrived when a body is complete. Shorter ones are joined, because each
/// piece costs some 100 bytes of its own and a call of the system when it is sent.
const JOINED_BYTES: usize = 16 * 1024;

/// A body that is read from disk while it is sent. It is readable for as long as this exists.
pub trait DiskBody: Debug + Send + Sync {
    /// The length in bytes.
    fn length(&self) -> u64;

    /// Reads the bytes from an offset on: some of them, at least one unless the body ends there, and at most `most`. Each
    /// block is verified before its bytes are returned. Blocks the thread.
    ///
    /// # Errors
    /// If they cannot be read, or are not the bytes that were stored. Then the object is removed.
    fn read(&self, offset: u64, most: usize) -> io::Result<Bytes>;
}

/// The body of a stored response. No piece is empty.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// One piece, as nearly all bodies are; it may be empty.
    One(Bytes),
    /// Several pieces, with their length in sum.
    Several(Box<(u64, Pieces)>),
}

/// The pieces of a body that has not one piece.
#[derive(Clone, Debug)]
pub(crate) enum Pieces {
    Memory(Box<[Bytes]>),
    /// None: it stays on disk.
    Disk(Arc<dyn DiskBody>),
}

impl Default for Body {
    fn default() -> Self {
        Self::One(Bytes::new())
    }
}

impl Body {
    /// Creates a body of pieces. Joins short ones.
    pub fn new(mut pieces: Vec<Bytes>) -> Self {
        pieces.retain(|piece| !piece.is_empty());
        let length: usize = pieces.iter().map(Bytes::len).sum();
        let is_short = |pieces: &[Bytes]| length / pieces.len().max(1) < JOINED_BYTES;
        let mut joined: Vec<Bytes> = match pieces.len() {
            0 | 1 => pieces,
            _ if is_short(&pieces) => join(&pieces, length),
            _ => pieces,
        };
        match joined.len() {
            0 | 1 => Self::One(joined.pop().unwrap_or_default()),
            _ => Self::Several(Box::new((length as u64, Pieces::Memory(joined.into_boxed_slice())))),
        }
    }

    /// Creates a body that stays on disk.
    pub fn on_disk(body: Arc<dyn DiskBody>) -> Self {
        Self::Several(Box::new((body.length(), Pieces::Disk(body))))
    }

    /// The record that has the body, if it stays on disk. It has no pieces then.
    pub fn disk(&self) -> Option<&Arc<dyn DiskBody>> {
        match self {
            Self::Several(several) => match &several.1 {
                Pieces::Disk(body) => Some(body),
                Pieces::Memory(_) => None,
            },
            Self::One(_) => None,
        }
    }

    /// Whether two bodies are the same memory, as before and after a 304.
    pub fn is_shared_with(&self, other: &Self) -> bool {
        match (self.chunks().first(), other.chunks().first()) {
            (Some(own), Some(other)) => own.as_ptr() == other.as_ptr(),
            _ => false,
        }
    }

    pub fn chunks(&self) -> &[Bytes] {
        match self {
            Self::One(piece) if piece.is_empty() => &[],
            Self::One(piece) => std::slice::from_ref(piece),
            Self::Several(several) => match &several.1 {
                Pieces::Memory(pieces) => pieces,
                Pieces::Disk(_) => &[],
            },
        }
    }

    pub fn length(&self) -> u64 {
        match self {
            Self::One(piece) => piece.len() as u64,
            Self::Several(several) => several.0,
        }
    }

    /// The piece with the byte at an offset, and where that byte lies in it; `None` at the end.
    pub fn piece(&self, offset: u64) -> Option<(&Bytes, usize)> {
        let mut start = 0;
        for piece in self.chunks() {
            let end = start + piece.len() as u64;
            if offset < end {
                return Some((piece, (offset - start) as usize));
            }
            start = end;
        }
        None
    }

    /// Bytes on the heap, with what an allocator adds.
    pub fn heap_bytes(&self) -> u64 {
        let pieces: u64 = self.chunks().iter().map(|piece| allocated(piece.len()) as u64).sum();
        match self {
            Self::One(_) => pieces,
            Self::Several(_) => pieces + 64 * self.chunks().len().max(1) as u64,
        }
    }
}

/// Copies pieces into few.
fn join(pieces: &[Bytes], length: usize) -> Vec<Bytes> {
    const JOINED_BYTES_MAX: usize = 256 * 1024;
    let mut joined = Vec::with_capacity(length.div_ceil(JOINED_BYTES_MAX));
    let mut left = length;
    let mut current = Vec::with_capacity(left.min(JOINED_BYTES_MAX));
    for mut piece in pieces.iter().map(|piece| &piece[..]) {
        while !piece.is_empty() {
            let (now, later) = piece.split_at(piece.len().min(current.capacity() - current.len()));
            current.extend_from_slice(now);
            piece = later;
            if current.len() == current.capacity() {
                left -= current.len();
                joined.push(Bytes::from(std::mem::replace(
                    &mut current,
                    Vec::with_capacity(left.min(JOINED_BYTES_MAX)),
                )));
            }
        }
    }
    joined
}

/// The bytes that jemalloc reserves for an allocation: it has four classes for each doubling.
pub(crate) fn allocated(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        1..=128 => bytes.next_multiple_of(16),
        _ => {
            let step = (bytes - 1).ilog2().saturating_sub(2);
            bytes.checked_next_multiple_of(1 << step).unwrap_or(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(pieces: &[&[u8]]) -> Body {
        Body::new(pieces.iter().map(|piece| Bytes::copy_from_slice(piece)).collect())
    }

    #[test]
    fn short_pieces_are_joined() {
        for pieces in [&[][..], &[b"".as_slice()], &[b"abc"], &[b"a", b"", b"bc"], &[b"ab", b"c"]] {
            let (body, whole) = (body(pieces), pieces.concat());
            assert_eq!(
                (body.length(), body.chunks().concat()),
                (whole.len() as u64, whole.clone()),
                "{pieces:?}"
            );
            assert!(body.chunks().len() <= 1 && body.chunks().iter().all(|piece| !piece.is_empty()));
        }
        let long = vec![7; JOINED_BYTES];
        let kept = body(&[&long, b"", &long, &long]);
        assert_eq!((kept.length(), kept.chunks().len()), (3 * JOINED_BYTES as u64, 3), "long pieces stay");
        let many: Vec<Vec<u8>> = (0..900_u32).map(|at| at.to_be_bytes().repeat(250)).collect();
        let many: Vec<&[u8]> = many.iter().map(|piece| &piece[..]).collect();
        let joined = body(&many);
        assert_eq!((joined.chunks().concat(), joined.chunks().len()), (many.concat(), 4));
    }

    #[test]
    fn an_offset_finds_its_piece() {
        let long = vec![7; JOINED_BYTES];
        let body = body(&[&long, &long]);
        let at = |offset: u64| body.piece(offset).map(|(piece, start)| piece.len() - start);
        let length = JOINED_BYTES as u64;
        assert_eq!((at(0), at(length - 1), at(length)), (Some(JOINED_BYTES), Some(1), Some(JOINED_BYTES)));
        assert_eq!(
            (at(2 * length - 1), at(2 * length), Body::default().piece(0).is_none()),
            (Some(1), None, true)
        );
    }

    #[test]
    fn the_allocator_rounds_up() {
        for (bytes, expected) in [
            (0, 0),
            (1, 16),
            (128, 128),
            (129, 160),
            (160, 160),
            (161, 192),
            (256, 256),
            (257, 320),
            (4097, 5120),
        ] {
            assert_eq!(allocated(bytes), expected, "{bytes}");
        }
    }
}
