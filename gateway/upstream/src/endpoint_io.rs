//! Adapts the connection's socket to the traits that the `h2` crate needs.

use std::cell::{Cell, OnceCell, RefCell};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tollgate_http::h2::ResponseInspector;
use tollgate_net::{Stream, TlsFault};

/// Upper bound of the bytes of one read.
const READ_MAX_BYTES: usize = 16 * 1024;

/// The connection's socket, as the `h2` crate needs it.
#[derive(Debug)]
pub(crate) struct EndpointIo {
    stream: Stream,
    /// The buffer for reads, shared with the other connections.
    buffer: Rc<RefCell<Vec<u8>>>,
    /// When bytes last arrived.
    last_read: Rc<Cell<Instant>>,
    /// Receives a TLS failure of the connection.
    fault: Option<FaultCell>,
    /// Inspects all bytes from the endpoint.
    inspector: Rc<RefCell<ResponseInspector>>,
}

/// The TLS failure of a connection that a library owns.
pub(crate) type FaultCell = Rc<OnceCell<TlsFault>>;

impl EndpointIo {
    pub fn new(
        stream: Stream,
        buffer: Rc<RefCell<Vec<u8>>>,
        last_read: Rc<Cell<Instant>>,
        inspector: Rc<RefCell<ResponseInspector>>,
    ) -> Self {
        Self { stream, buffer, last_read, inspector, fault: None }
    }

    /// Makes it store a TLS failure of the connection in `fault`.
    pub fn with_fault_cell(self, fault: FaultCell) -> Self {
        Self { fault: Some(fault), ..self }
    }
}

/// Stores a TLS failure in the cell.
#[cold]
pub(crate) fn store_fault(cell: Option<&FaultCell>, error: &io::Error) {
    if let (Some(cell), Some(fault)) = (cell, TlsFault::of_io(error)) {
        // Only the first failure counts; it ended the connection.
        let _ = cell.set(fault);
    }
}

impl AsyncRead for EndpointIo {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // Reads through a shared buffer: the library's own is not initialised, and filling it with zeros
        // costs more than copying the bytes.
        let mut buffer = this.buffer.borrow_mut();
        if buffer.is_empty() {
            buffer.resize(READ_MAX_BYTES, 0);
        }
        let most = buffer.len().min(out.remaining());
        let read = ready!(this.stream.poll_read(cx, &mut buffer[..most]));
        let count = read.inspect_err(|error| store_fault(this.fault.as_ref(), error))?;
        this.last_read.set(tollgate_net::now());
        this.inspector.borrow_mut().inspect(&mut buffer[..count]);
        out.put_slice(&buffer[..count]);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for EndpointIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream.poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.stream.write(pieces)? {
            // The socket accepts nothing now; this call registers the waker.
            0 => match pieces.iter().find(|piece| !piece.is_empty()) {
                Some(piece) => self.stream.poll_write(cx, piece),
                None => Poll::Ready(Ok(0)),
            },
            written => Poll::Ready(Ok(written)),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_shutdown(cx)
    }
}
