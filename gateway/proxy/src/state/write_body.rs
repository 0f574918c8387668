//! Writes a part of a body in the framing of HTTP/1: plain, or in chunks.

use std::io::IoSlice;

use tollgate_http::h1::{BodyReader, ChunkHeader, LAST_CHUNK};

use crate::state::peer_error::PeerError;

/// Writes some data of a body after `head`, in chunks if `chunked`. If `reader` is done, also writes the end
/// of the body. Returns `None` if there is nothing to write.
#[inline]
pub(crate) fn write_body<R>(
    reader: &BodyReader,
    chunked: bool,
    data: &[u8],
    head: &[u8],
    write: impl FnOnce(&[IoSlice<'_>]) -> Result<R, PeerError>,
) -> Result<Option<R>, PeerError> {
    if !chunked {
        return match (head.is_empty(), data.is_empty()) {
            (true, true) => Ok(None),
            (false, true) => write(&[IoSlice::new(head)]).map(Some),
            (true, false) => write(&[IoSlice::new(data)]).map(Some),
            (false, false) => write(&[IoSlice::new(head), IoSlice::new(data)]).map(Some),
        };
    }
    // No header for empty data, since that would be the last chunk.
    let header = (!data.is_empty()).then(|| ChunkHeader::new(data.len()));
    let mut pieces = [IoSlice::new(b""); 7];
    let mut count = 0;
    let mut add = |piece| {
        pieces[count] = IoSlice::new(piece);
        count += 1;
    };
    if !head.is_empty() {
        add(head);
    }
    if let Some(header) = &header {
        add(header.as_bytes());
        add(data);
        add(b"\r\n");
    }
    if reader.is_done() {
        add(LAST_CHUNK);
        if !reader.trailers().is_empty() {
            add(reader.trailers());
        }
        add(b"\r\n");
    }
    if count == 0 { Ok(None) } else { write(&pieces[..count]).map(Some) }
}
