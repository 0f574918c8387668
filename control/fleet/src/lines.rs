//! Reads and writes lines of JSON, within bounds of size and time.

use std::io;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

/// Bytes that are written at a time.
const WRITE_BYTES: usize = 64 << 10;
/// Time limit for writing [`WRITE_BYTES`]: a peer that reads slower is cut off.
const WRITE_TIMEOUT: Duration = Duration::from_secs(15);
/// The reason for the end of a connection without an error.
const ENDED: &str = "the connection ended";
/// First size of the receive buffer, in bytes.
const READ_BYTES: usize = 16 << 10;

/// Reads lines.
#[derive(Debug)]
pub struct LineReader<R> {
    stream: R,
    buffer: BytesMut,
    line_max_bytes: usize,
    /// The first bytes of `buffer`, which contain no line end.
    searched: usize,
    /// When the last bytes arrived.
    heard_at: Instant,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Reads lines of at most this many bytes.
    pub fn new(stream: R, line_max_bytes: usize) -> Self {
        Self { stream, buffer: BytesMut::new(), line_max_bytes, searched: 0, heard_at: Instant::now() }
    }

    /// Reads the next message. Bytes must arrive within `silence_max` after the last ones. Cancel safe: no byte is
    /// lost, and the silence counts from the last bytes.
    ///
    /// # Errors
    /// The reason: the connection ended, nothing arrived in time, or a line is too long or no message.
    pub async fn next<T: DeserializeOwned>(&mut self, silence_max: Duration) -> Result<T, String> {
        loop {
            if let Some(end) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(self.searched + end + 1);
                self.searched = 0;
                return serde_json::from_slice(&line)
                    .map_err(|error| format!("a message makes no sense: {error}"));
            }
            self.searched = self.buffer.len();
            if self.searched > self.line_max_bytes {
                return Err(format!("a message has more than {} bytes", self.line_max_bytes));
            }
            self.buffer.reserve(READ_BYTES);
            let reading = self.stream.read_buf(&mut self.buffer);
            match timeout_at(self.heard_at + silence_max, reading).await {
                Ok(Ok(0)) => return Err(ENDED.to_owned()),
                // The peer's process ended without a `close_notify` of TLS.
                Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(ENDED.to_owned());
                }
                Ok(Ok(_)) => self.heard_at = Instant::now(),
                Ok(Err(error)) => return Err(error.to_string()),
                Err(_) => return Err(format!("nothing arrived for {silence_max:?}")),
            }
        }
    }
}

/// Writes lines, many at a time.
///
/// # Errors
/// The connection ended, or the peer reads too slowly.
pub async fn write_lines<W: AsyncWrite + Unpin>(
    stream: &mut W,
    lines: impl IntoIterator<Item = Bytes>,
) -> io::Result<()> {
    let mut block = BytesMut::with_capacity(WRITE_BYTES);
    for mut line in lines {
        while line.has_remaining() {
            let part = line.split_to(line.len().min(WRITE_BYTES - block.len()));
            block.extend_from_slice(&part);
            if block.len() == WRITE_BYTES {
                write_block(stream, &mut block).await?;
            }
        }
    }
    write_block(stream, &mut block).await
}

async fn write_block<W: AsyncWrite + Unpin>(stream: &mut W, block: &mut BytesMut) -> io::Result<()> {
    let written = async {
        stream.write_all(block).await?;
        stream.flush().await
    };
    let written = timeout(WRITE_TIMEOUT, written).await;
    block.clear();
    written.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "the peer reads too slowly")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<T>(test: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(test)
    }

    #[test]
    fn lines_arrive_whole_and_in_bounds() {
        run(async {
            let (mut near, far) = tokio::io::duplex(10);
            let long = format!("\"{}\"\n", "x".repeat(100));
            let lines = [Bytes::from("1\n"), Bytes::from("[2]\n"), Bytes::from(long)];
            let writing = tokio::spawn(async move { write_lines(&mut near, lines).await });
            let mut reader = LineReader::new(far, 50);
            let wait = Duration::from_secs(5);
            assert_eq!(reader.next::<u8>(wait).await, Ok(1));
            assert_eq!(reader.next::<Vec<u8>>(wait).await, Ok(vec![2]));
            let error = reader.next::<String>(wait).await.expect_err("too long");
            assert!(error.contains("more than 50 bytes"), "{error}");
            writing.abort();
        });
    }

    #[test]
    fn silence_is_an_error() {
        run(async {
            let (_near, far) = tokio::io::duplex(10);
            let mut reader = LineReader::new(far, 50);
            let error = reader.next::<u8>(Duration::from_millis(20)).await.expect_err("silence");
            assert!(error.contains("nothing arrived"), "{error}");
        });
    }

    #[test]
    fn a_message_that_is_not_understood_is_an_error() {
        run(async {
            let (mut near, far) = tokio::io::duplex(100);
            write_lines(&mut near, [Bytes::from("{\n")]).await.expect("written");
            let mut reader = LineReader::new(far, 50);
            assert!(reader.next::<u8>(Duration::from_secs(5)).await.is_err());
        });
    }
}
