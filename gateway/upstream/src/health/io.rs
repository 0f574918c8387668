//! Adapts a stream to hyper, and drives connections during a probe.

use std::cell::OnceCell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};
use tollgate_net::{Stream, TlsFault};

/// The TLS failure of a connection that a library owns.
pub(super) type FaultCell = Rc<OnceCell<TlsFault>>;

/// Stores a TLS failure in the cell.
#[cold]
fn store_fault(cell: &FaultCell, error: &io::Error) {
    if let Some(fault) = TlsFault::of_io(error) {
        // Only the first failure counts; it ended the connection.
        let _ = cell.set(fault);
    }
}

/// Drives a connection until the work on it has finished, and returns the result of the work.
pub(super) async fn drive<T>(connection: impl Future, work: impl Future<Output = T>) -> T {
    let (mut work, mut connection) = (pin!(work), pin!(connection));
    let mut ended = false;
    poll_fn(|cx| {
        if let Poll::Ready(result) = work.as_mut().poll(cx) {
            return Poll::Ready(result);
        }
        // The work learns of an error of the connection by its own result.
        if !ended && connection.as_mut().poll(cx).is_ready() {
            ended = true;
        }
        work.as_mut().poll(cx)
    })
    .await
}

/// A stream with the traits that hyper needs.
#[derive(Debug)]
pub(super) struct ProbeIo(Stream, FaultCell);

impl ProbeIo {
    /// Wraps a stream. A TLS failure of the stream is stored in `fault`.
    pub(super) fn new(stream: Stream, fault: &FaultCell) -> Self {
        Self(stream, fault.clone())
    }

    fn poll_some(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let Self(stream, fault) = self;
        stream.poll_read(cx, buffer).map(|read| read.inspect_err(|error| store_fault(fault, error)))
    }
}

impl Read for ProbeIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut to: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        // One more copy than necessary: hyper's buffer is not initialised, and only `unsafe` code may write
        // to it.
        let mut buffer = [0; 4096];
        let room = to.remaining().min(buffer.len());
        let count = ready!(self.poll_some(cx, &mut buffer[..room]))?;
        to.put_slice(&buffer[..count]);
        Poll::Ready(Ok(()))
    }
}

impl Write for ProbeIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Nothing is buffered.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_shutdown(cx)
    }
}
