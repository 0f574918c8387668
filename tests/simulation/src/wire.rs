//! A stream that one task reads and another writes, and a reader of messages on it.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate_net::{Listener, RegisteredListener, Stream, simulated};

use crate::message::{Framing, Head};

/// The largest size of a head, in bytes.
const HEAD: usize = 64 * 1024;

/// Listens on an address, with an accept queue of this size. `None`: the socket accepts no
/// connections.
#[must_use]
pub fn listen(address: SocketAddr, backlog: usize) -> Option<Listener> {
    match simulated::listen(address, backlog).register() {
        Ok(RegisteredListener::Connections(listener)) => Some(listener),
        _ => None,
    }
}

/// A stream that one task reads and another writes. It is closed by [`Wire::close`], or when the last handle
/// is dropped.
#[derive(Clone, Debug)]
pub struct Wire(Rc<RefCell<Shared>>);

#[derive(Debug)]
struct Shared {
    stream: Option<Stream>,
    /// The tasks that wait on the stream, and that its close must wake.
    waiting: Vec<Waker>,
}

impl Shared {
    fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        act: impl FnOnce(&mut Stream, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let Some(stream) = &mut self.stream else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        let polled = act(stream, cx);
        if polled.is_pending() && !self.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.waiting.push(cx.waker().clone());
        }
        polled
    }
}

/// The reason why nothing more can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// An orderly end, before the first byte.
    Nothing,
    /// An orderly end, in the middle.
    Short,
    /// A reset.
    Reset,
    /// The bytes are not HTTP.
    Malformed(String),
}

impl Wire {
    /// Wraps a stream.
    #[must_use]
    pub fn new(stream: Stream) -> Self {
        Self(Rc::new(RefCell::new(Shared { stream: Some(stream), waiting: Vec::new() })))
    }

    /// Reads once. Returns 0 at the end.
    ///
    /// # Errors
    /// Returns the stream's error.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        poll_fn(|cx| self.0.borrow_mut().poll(cx, |stream, cx| stream.poll_read(cx, buffer))).await
    }

    /// Writes all bytes.
    ///
    /// # Errors
    /// Returns the stream's error.
    pub async fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written =
                poll_fn(|cx| self.0.borrow_mut().poll(cx, |stream, cx| stream.poll_write(cx, bytes)));
            bytes = &bytes[written.await?..];
        }
        Ok(())
    }

    /// Ends its own direction.
    pub async fn shutdown(&self) {
        let ended = poll_fn(|cx| self.0.borrow_mut().poll(cx, Stream::poll_shutdown));
        // An error means that the peer has already closed.
        let _ = ended.await;
    }

    /// Closes the stream for every handle, with a reset if `reset` is set.
    pub fn close(&self, reset: bool) {
        let mut shared = self.0.borrow_mut();
        if let Some(stream) = shared.stream.take()
            && reset
        {
            stream.reset_on_close();
        }
        shared.waiting.drain(..).for_each(Waker::wake);
    }

    /// Sends bytes without a request. The network drops them if a request is sent before they arrive.
    pub fn send_unsolicited(&self, bytes: &[u8]) {
        if let Some(stream) = &self.0.borrow().stream {
            simulated::send_unsolicited(stream, bytes);
        }
    }

    /// Makes the later close a reset.
    pub fn resets(&self) {
        if let Some(stream) = &self.0.borrow().stream {
            stream.reset_on_close();
        }
    }
}

/// How fast a party reads or writes.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Bytes at a time.
    pub piece: usize,
    /// The pause at each piece.
    pub pause: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { piece: 16 * 1024, pause: Duration::ZERO }
    }
}

/// A reader of messages.
#[derive(Debug)]
pub struct Reader {
    wire: Wire,
    pace: Pace,
    buffer: Vec<u8>,
    start: usize,
}

impl Reader {
    /// Creates a reader on a wire.
    #[must_use]
    pub fn new(wire: Wire, pace: Pace) -> Self {
        Self { wire, pace, buffer: Vec::new(), start: 0 }
    }

    /// Returns the received bytes that were not used yet.
    #[must_use]
    pub fn rest(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// Reads once more. Returns whether any bytes arrived.
    async fn more(&mut self) -> Result<bool, Broken> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        if !self.pace.pause.is_zero() {
            simulated::sleep(self.pace.pause).await;
        }
        // Into a buffer of its own: a caller that stops waiting leaves the reader's buffer unchanged.
        let mut piece = vec![0; self.pace.piece];
        let count = self.wire.read(&mut piece).await.map_err(|_| Broken::Reset)?;
        self.buffer.extend_from_slice(&piece[..count]);
        Ok(count > 0)
    }

    /// Waits for any byte, or the end.
    ///
    /// # Errors
    /// Returns [`Broken::Nothing`] at the end, and [`Broken::Reset`].
    pub async fn wait(&mut self) -> Result<(), Broken> {
        if self.rest().is_empty() && !self.more().await? {
            return Err(Broken::Nothing);
        }
        Ok(())
    }

    /// Reads a head.
    ///
    /// # Errors
    /// See [`Broken`].
    pub async fn head(&mut self) -> Result<Head, Broken> {
        loop {
            if let Some(end) = self.rest().windows(4).position(|window| window == b"\r\n\r\n") {
                let head = Head::parse(&self.rest()[..end]).map_err(Broken::Malformed)?;
                self.start += end + 4;
                return Ok(head);
            }
            if self.rest().len() > HEAD {
                return Err(Broken::Malformed("a head without end".to_owned()));
            }
            let empty = self.rest().is_empty();
            if !self.more().await? {
                return Err(if empty { Broken::Nothing } else { Broken::Short });
            }
        }
    }

    async fn line(&mut self) -> Result<String, Broken> {
        loop {
            if let Some(end) = self.rest().windows(2).position(|window| window == b"\r\n") {
                let line = String::from_utf8_lossy(&self.rest()[..end]).into_owned();
                self.start += end + 2;
                return Ok(line);
            }
            if self.rest().len() > HEAD {
                return Err(Broken::Malformed("a line without end".to_owned()));
            }
            if !self.more().await? {
                return Err(Broken::Short);
            }
        }
    }

    /// Reads some bytes, at most `most`. Returns none at the end of the stream.
    ///
    /// # Errors
    /// Returns [`Broken::Reset`].
    pub async fn some(&mut self, most: usize) -> Result<Vec<u8>, Broken> {
        if self.rest().is_empty() && !self.more().await? {
            return Ok(Vec::new());
        }
        let count = self.rest().len().min(most);
        let bytes = self.rest()[..count].to_vec();
        self.start += count;
        Ok(bytes)
    }

    async fn exactly(
        &mut self,
        mut length: usize,
        take: &mut impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(), Broken> {
        while length > 0 {
            let bytes = self.some(length).await?;
            if bytes.is_empty() {
                return Err(Broken::Short);
            }
            length -= bytes.len();
            take(&bytes).map_err(Broken::Malformed)?;
        }
        Ok(())
    }

    /// Reads a body. `take` gets its bytes as they arrive, and may refuse them.
    ///
    /// # Errors
    /// See [`Broken`].
    pub async fn body(
        &mut self,
        framing: Framing,
        mut take: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(), Broken> {
        match framing {
            Framing::None => Ok(()),
            Framing::Length(length) => self.exactly(length, &mut take).await,
            Framing::Close => loop {
                let bytes = self.some(usize::MAX).await?;
                if bytes.is_empty() {
                    return Ok(());
                }
                take(&bytes).map_err(Broken::Malformed)?;
            },
            Framing::Chunked => loop {
                let line = self.line().await?;
                let size = line.split(';').next().unwrap_or_default();
                let size = usize::from_str_radix(size, 16)
                    .map_err(|_| Broken::Malformed(format!("no chunk: {line:?}")))?;
                if size == 0 {
                    while !self.line().await?.is_empty() {}
                    return Ok(());
                }
                self.exactly(size, &mut take).await?;
                if !self.line().await?.is_empty() {
                    return Err(Broken::Malformed("a chunk that does not end".to_owned()));
                }
            },
        }
    }
}
