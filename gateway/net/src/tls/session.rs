//! The rustls session of one TLS connection, without its socket.
//!
//! `handshake`, `read` and `write` drive a [`Session`]: they pass received records to
//! [`Session::process_records`] and data to [`Session::encrypt`]. A session owns buffers only while something
//! is incomplete: a partial record, unread data, or records that the kernel has not accepted.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedConnectionCommon, UnbufferedStatus,
    WriteTraffic,
};
use rustls::{CommonState, Error};

/// Most bytes of data in a record (RFC 8446, 5.1).
pub(super) const RECORD_DATA_MAX_BYTES: usize = 16 * 1024;
/// Most bytes of a whole record: its header, and the expansion that TLS 1.2 allows (RFC 5246, 6.2.3).
const RECORD_MAX_BYTES: usize = 5 + RECORD_DATA_MAX_BYTES + 2048;
/// Space in front of the bytes read, so that a record's decrypted data always fits before the record.
pub(super) const HEADROOM_BYTES: usize = RECORD_MAX_BYTES;
/// A buffer is read into directly if at least this much space remains after the headroom and the partial
/// record.
const READ_SPACE_BYTES: usize = RECORD_MAX_BYTES;
/// Most undecoded bytes that are kept: a handshake message, which rustls limits to 64 KiB, and then a record.
const PARTIAL_MAX_BYTES: usize = 0xffff + RECORD_MAX_BYTES;
/// Most bytes that encryption adds to a record: its header, an explicit nonce, the content type, the tag.
pub(super) const ENCRYPTION_OVERHEAD_BYTES: usize = 64;

/// The side of the connection.
pub(super) enum SessionSide {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

impl fmt::Debug for SessionSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Server(_) => "Server",
            Self::Client(_) => "Client",
        })
    }
}

/// The rustls session of one TLS connection.
#[derive(Debug)]
pub(crate) struct Session {
    side: SessionSide,
    /// The received part of an incomplete record.
    pub(super) partial: Vec<u8>,
    /// Decrypted data that was not read yet, from `taken` on.
    pub(super) plain: Vec<u8>,
    pub(super) taken: usize,
    /// Encrypted records that the kernel has not accepted yet, from `sent` on.
    pub(super) out: Vec<u8>,
    pub(super) sent: usize,
    /// The end in `out` of each record with a caller's data, and how much of that data it holds.
    pub(super) ends: VecDeque<(usize, usize)>,
    /// Bytes of a caller's data that were sent during a read. The next write reports them to the caller.
    pub(super) unreported: usize,
    /// The peer's `close_notify` arrived.
    pub(super) ended: bool,
    /// The session has failed: nothing more can be sent or received.
    pub(super) broken: bool,
    /// Whether the handshake is complete.
    pub(super) established: bool,
    /// Whether `close_notify` was sent, or must not be.
    closed: bool,
}

/// The result of processing received bytes.
#[derive(Debug, Default)]
pub(super) struct Processed {
    /// How many of the bytes were consumed.
    pub used: usize,
    /// How much data they held. It lies at the start of the buffer.
    pub plain: usize,
}

impl Session {
    pub(super) fn new(side: SessionSide) -> Self {
        Self {
            side,
            partial: Vec::new(),
            plain: Vec::new(),
            taken: 0,
            out: Vec::new(),
            sent: 0,
            ends: VecDeque::new(),
            unreported: 0,
            ended: false,
            broken: false,
            established: false,
            closed: false,
        }
    }

    /// The state that both sides of rustls have in common.
    pub(super) fn common(&self) -> &CommonState {
        match &self.side {
            SessionSide::Server(connection) => connection,
            SessionSide::Client(connection) => connection,
        }
    }

    /// Whether no received byte is waiting to be read.
    pub(super) fn has_nothing_unread(&self) -> bool {
        self.taken == self.plain.len() && self.partial.is_empty() && !self.ended && !self.broken
    }

    /// Suppresses the `close_notify` at the end.
    pub(super) fn suppress_close_notify(&mut self) {
        self.closed = true;
    }

    /// The least size of a buffer for the next read.
    pub(super) fn read_buffer_size(&self) -> usize {
        HEADROOM_BYTES + self.partial.len() + READ_SPACE_BYTES
    }

    /// Processes records, which `buffer` holds after the headroom. Decrypted data goes to the start of the
    /// buffer, and replies go into `out`.
    ///
    /// # Errors
    /// If the peer violates the protocol; the alert for it is in `out`.
    pub(super) fn process_records(&mut self, buffer: &mut [u8]) -> Result<Processed, Error> {
        let Self { side, out, ended, established, .. } = self;
        let result = match side {
            SessionSide::Server(connection) => {
                process_records(&mut **connection, buffer, out, ended, established)
            }
            SessionSide::Client(connection) => {
                process_records(&mut **connection, buffer, out, ended, established)
            }
        };
        self.broken |= result.is_err();
        result
    }

    /// Keeps the received bytes that were not consumed.
    ///
    /// # Errors
    /// If they exceed a handshake message in pieces; each piece also costs its record's overhead.
    pub(super) fn keep_partial(&mut self, rest: &[u8]) -> Result<(), Error> {
        if rest.is_empty() {
            // Freed, because most connections are idle most of the time.
            self.partial = Vec::new();
        } else if rest.len() > PARTIAL_MAX_BYTES {
            self.broken = true;
            return Err(Error::General("a handshake message in too many pieces".to_owned()));
        } else {
            // Exactly as large as needed: a peer may leave a record incomplete for long.
            self.partial.clear();
            self.partial.reserve_exact(rest.len());
            self.partial.extend_from_slice(rest);
        }
        Ok(())
    }

    /// Encrypts data into `to`, after the first `used` bytes. Returns how many bytes are used then.
    pub(super) fn encrypt(&mut self, data: &[u8], to: &mut [u8], used: usize) -> Result<usize, Error> {
        let free = &mut to[used..];
        let written = match &mut self.side {
            SessionSide::Server(connection) => {
                encrypt(&mut **connection, data, free, &mut self.partial, &mut self.out)
            }
            SessionSide::Client(connection) => {
                encrypt(&mut **connection, data, free, &mut self.partial, &mut self.out)
            }
        };
        written.map(|written| used + written)
    }

    /// Returns the `close_notify` record, unless it was sent or suppressed, or other records must go first.
    pub(super) fn close_notify(&mut self) -> Option<Vec<u8>> {
        let silent = std::mem::replace(&mut self.closed, true) || self.broken || !self.established;
        if silent || self.sent < self.out.len() {
            return None;
        }
        let mut notice = vec![0; ENCRYPTION_OVERHEAD_BYTES];
        let Self { side, partial, out, .. } = self;
        let to = &mut notice;
        let written = match side {
            SessionSide::Server(connection) => {
                with_traffic(&mut **connection, partial, out, |mut it| it.queue_close_notify(to).ok())
            }
            SessionSide::Client(connection) => {
                with_traffic(&mut **connection, partial, out, |mut it| it.queue_close_notify(to).ok())
            }
        };
        notice.truncate(written.ok().flatten().flatten()?);
        Some(notice)
    }
}

/// Either side of rustls' connections.
trait RustlsConnection: Deref<Target = CommonState> {
    type Data;

    fn step<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
}

impl RustlsConnection for UnbufferedConnectionCommon<ServerConnectionData> {
    type Data = ServerConnectionData;

    fn step<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }
}

impl RustlsConnection for UnbufferedConnectionCommon<ClientConnectionData> {
    type Data = ClientConnectionData;

    fn step<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }
}

fn process_records<E: RustlsConnection>(
    engine: &mut E,
    buffer: &mut [u8],
    out: &mut Vec<u8>,
    ended: &mut bool,
    established: &mut bool,
) -> Result<Processed, Error> {
    let mut at = HEADROOM_BYTES;
    let mut plain = 0;
    loop {
        let (front, rest) = buffer.split_at_mut(at);
        let UnbufferedStatus { mut discard, state } = engine.step(rest);
        let state = match state {
            Ok(state) => state,
            Err(error) => {
                write_alert(engine, &mut buffer[at + discard..], out);
                return Err(error);
            }
        };
        match state {
            ConnectionState::ReadTraffic(mut traffic) => {
                while let Some(record) = traffic.next_record() {
                    let record = record?;
                    let end = plain + record.payload.len();
                    // The data always fits: the headroom is as long as a record, and no record holds more
                    // data than its own length.
                    front[plain..end].copy_from_slice(record.payload);
                    plain = end;
                    discard += record.discard;
                }
            }
            ConnectionState::EncodeTlsData(message) => encode(message, out)?,
            ConnectionState::TransmitTlsData(message) => message.done(),
            ConnectionState::PeerClosed => *ended = true,
            ConnectionState::WriteTraffic(_) => {
                *established = true;
                return Ok(Processed { used: at + discard - HEADROOM_BYTES, plain });
            }
            ConnectionState::BlockedHandshake | ConnectionState::Closed => {
                return Ok(Processed { used: at + discard - HEADROOM_BYTES, plain });
            }
            // Early data is not offered, and rustls has no other states yet.
            _ => return Err(Error::General("an unexpected state of the connection".to_owned())),
        }
        at += discard;
    }
}

/// After an error, writes the alert for the peer. Processes no more records, which would fail again.
fn write_alert<E: RustlsConnection>(engine: &mut E, mut rest: &mut [u8], out: &mut Vec<u8>) {
    while engine.wants_write() {
        let UnbufferedStatus { discard, state } = engine.step(rest);
        match state {
            Ok(ConnectionState::EncodeTlsData(message)) => {
                if encode(message, out).is_err() {
                    return;
                }
            }
            _ => return,
        }
        rest = &mut rest[discard..];
    }
}

fn encode<D>(mut message: EncodeTlsData<'_, D>, out: &mut Vec<u8>) -> Result<(), Error> {
    let start = out.len();
    loop {
        match message.encode(&mut out[start..]) {
            Ok(written) => {
                out.truncate(start + written);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(size)) if out.len() == start => {
                out.resize(start + size.required_size, 0);
            }
            Err(error) => return Err(Error::General(error.to_string())),
        }
    }
}

fn encrypt<E: RustlsConnection>(
    engine: &mut E,
    data: &[u8],
    to: &mut [u8],
    partial: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<usize, Error> {
    let written = with_traffic(engine, partial, out, |mut traffic| match traffic.encrypt(data, to) {
        Ok(written) => Ok(written),
        Err(EncryptError::EncryptExhausted) => Err(Error::EncryptError),
        Err(error) => Err(Error::General(error.to_string())),
    })?;
    written.unwrap_or(Err(Error::HandshakeNotComplete))
}

/// Calls `act` if the session is established; returns `None` if it is not, or is closed. Messages that rustls
/// has to send before go into `out`. rustls gets the partial record, because it holds offsets into a
/// handshake message that arrives in pieces.
fn with_traffic<E: RustlsConnection, R>(
    engine: &mut E,
    partial: &mut Vec<u8>,
    out: &mut Vec<u8>,
    act: impl FnOnce(WriteTraffic<'_, E::Data>) -> R,
) -> Result<Option<R>, Error> {
    loop {
        let UnbufferedStatus { discard, state } = engine.step(partial);
        match state? {
            ConnectionState::WriteTraffic(traffic) => {
                let done = act(traffic);
                partial.drain(..discard);
                return Ok(Some(done));
            }
            ConnectionState::EncodeTlsData(message) => encode(message, out)?,
            ConnectionState::TransmitTlsData(message) => message.done(),
            // rustls reports it once; this side may go on.
            ConnectionState::PeerClosed => {}
            _ => return Ok(None),
        }
        partial.drain(..discard);
    }
}
