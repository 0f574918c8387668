//! The connection's socket as the library wants it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tollgate_net::{Deadline, Stream};

use super::PREFACE;
use super::intake::Intake;
use super::meter::{Exhausted, Meter};
use crate::worker::Worker;

/// How long the end is waited for once the gateway has ended its direction, and how much is read meanwhile: closing a
/// socket with unread bytes sends a reset, which can overtake the last answers.
const LINGER: (Duration, usize) = (Duration::from_secs(2), 1024 * 1024);

/// The connection's socket as the library wants it. Every byte that comes in goes past the meter.
#[derive(Debug)]
pub(super) struct Io {
    stream: Stream,
    worker: Rc<Worker>,
    /// What came before the connection was known to be one of HTTP/2.
    early: Vec<u8>,
    meter: Meter,
    /// How much of the client's preface has come.
    preface: usize,
    /// Whether what came is none.
    refused: bool,
    intake: Rc<Intake>,
    linger: Linger,
}

/// How far closing has come.
#[derive(Debug)]
enum Linger {
    No,
    Since(Deadline, usize),
    Over,
}

impl Io {
    pub fn new(stream: Stream, worker: Rc<Worker>, early: Vec<u8>, intake: Rc<Intake>) -> Self {
        Self {
            stream,
            worker,
            early,
            meter: Meter::new(tollgate_net::now()),
            preface: 0,
            refused: false,
            intake,
            linger: Linger::No,
        }
    }

    /// Looks at bytes that came. So many of them are for the library.
    fn measure(&mut self, bytes: &[u8]) -> usize {
        let left = &PREFACE[self.preface..];
        let count = left.len().min(bytes.len());
        self.refused |= left[..count] != bytes[..count];
        self.preface += count;
        self.intake.read(bytes.len());
        let measured = self.meter.received(bytes, tollgate_net::now);
        self.intake.heads(self.meter.take_heads());
        match measured {
            Ok(()) => bytes.len(),
            Err(Exhausted(good)) => {
                self.intake.exhaust();
                // What nobody has seen yet, nobody waits for: not to look at it at all costs least.
                if self.intake.has_begun() { good } else { 0 }
            }
        }
    }

    /// Gives the library what is for it. Where that is nothing, the connection is about to be ended.
    fn pass(bytes: &[u8], out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if bytes.is_empty() {
            // Nothing would be the end.
            return Poll::Pending;
        }
        out.put_slice(bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Io {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.refused {
            // The library would drop the connection, and with it what the client has not read yet.
            ready!(Pin::new(this).poll_shutdown(cx))?;
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        if this.intake.is_exhausted() {
            // The task that polls is the one that ends the connection.
            return Poll::Pending;
        }
        if this.intake.is_turn_over(cx) {
            return Poll::Pending;
        }
        if !this.early.is_empty() {
            let early = std::mem::take(&mut this.early);
            let (now, later) = early.split_at(early.len().min(out.remaining()));
            let good = this.measure(now);
            this.early = later.to_vec();
            if this.refused {
                return Pin::new(this).poll_read(cx, out);
            }
            return Self::pass(&now[..good], out);
        }
        // By way of the shared buffer: the library's own is not initialised, and to fill it with zeros costs more than
        // to copy what came.
        let worker = this.worker.clone();
        let mut buffer = worker.receive.borrow_mut();
        let most = buffer.len().min(out.remaining());
        let count = ready!(this.stream.poll_read(cx, &mut buffer[..most]))?;
        if count == 0 {
            return Poll::Ready(Ok(()));
        }
        let good = this.measure(&buffer[..count]);
        if this.refused {
            drop(buffer);
            return Pin::new(this).poll_read(cx, out);
        }
        Self::pass(&buffer[..good], out)
    }
}

impl AsyncWrite for Io {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(this.stream.poll_write(cx, bytes))?;
        this.meter.sent(written);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.stream.write(pieces)? {
            // It takes nothing now: leaves the waker.
            0 => match pieces.iter().find(|piece| !piece.is_empty()) {
                Some(piece) => self.poll_write(cx, piece),
                None => Poll::Ready(Ok(0)),
            },
            written => {
                self.meter.sent(written);
                Poll::Ready(Ok(written))
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends the gateway's direction, then reads and throws away what still comes.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            match &mut this.linger {
                Linger::No => {
                    ready!(this.stream.poll_shutdown(cx))?;
                    let deadline = this.worker.timers.deadline();
                    deadline.set(tollgate_net::now(), Some(LINGER.0));
                    this.linger = Linger::Since(deadline, LINGER.1);
                }
                Linger::Since(deadline, left) => {
                    let mut buffer = this.worker.receive.borrow_mut();
                    let read = this.stream.poll_read(cx, &mut buffer);
                    match read {
                        Poll::Pending => ready!(deadline.poll_passed(cx)),
                        Poll::Ready(Ok(count)) if 0 < count && count < *left => {
                            *left -= count;
                            continue;
                        }
                        Poll::Ready(_) => {}
                    }
                    drop(buffer);
                    this.linger = Linger::Over;
                }
                Linger::Over => return Poll::Ready(Ok(())),
            }
        }
    }
}
