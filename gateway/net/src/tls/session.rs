//! One TLS connection as rustls sees it, without its socket.

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

/// Bytes of data in a record at most (RFC 8446, 5.1).
pub(super) const RECORD: usize = 16 * 1024;
/// Bytes of a whole record at most: the header, and what TLS 1.2 lets encryption add (RFC 5246, 6.2.3).
const LONGEST: usize = 5 + RECORD + 2048;
/// Room before what is read, so that a record's data always fits in front of the record.
pub(super) const HEADROOM: usize = LONGEST;
/// A buffer is read into directly if at least so much of it is left behind the headroom and what is there already.
const ROOM: usize = LONGEST;
/// Bytes that may be held back: a handshake message is 64 KiB at most (rustls), and then a record.
const MOST_HELD: usize = 0xffff + LONGEST;
/// Bytes that encryption adds to a record at most: its header, an explicit nonce, the content's type, the tag.
pub(super) const OVERHEAD: usize = 64;

/// Which end of the connection this is.
pub(super) enum Side {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

impl fmt::Debug for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Server(_) => "Server",
            Self::Client(_) => "Client",
        })
    }
}

/// One TLS connection as rustls sees it.
#[derive(Debug)]
pub(crate) struct Session {
    side: Side,
    /// What has come of a record that is not whole yet.
    pub(super) partial: Vec<u8>,
    /// Data that was decrypted and not asked for yet, from `taken` on.
    pub(super) plain: Vec<u8>,
    pub(super) taken: usize,
    /// Records that the kernel has not taken yet, from `sent` on.
    pub(super) out: Vec<u8>,
    pub(super) sent: usize,
    /// The ends in `out` of records with a caller's data, and how much of it each holds.
    pub(super) ends: VecDeque<(usize, usize)>,
    /// How much of a caller's data is gone, and the caller was not told: it went while something was read.
    pub(super) untold: usize,
    /// The peer has said that its data has ended.
    pub(super) ended: bool,
    /// Nothing more can be said or heard.
    pub(super) broken: bool,
    /// Whether the handshake is over.
    pub(super) established: bool,
    /// This end has said that its data has ended, or must not say so.
    closed: bool,
}

/// What came of bytes from the peer.
#[derive(Debug, Default)]
pub(super) struct Digested {
    /// How many of them are used up.
    pub used: usize,
    /// How much data they held: it lies at the buffer's beginning.
    pub plain: usize,
}

impl Session {
    pub(super) fn new(side: Side) -> Self {
        Self {
            side,
            partial: Vec::new(),
            plain: Vec::new(),
            taken: 0,
            out: Vec::new(),
            sent: 0,
            ends: VecDeque::new(),
            untold: 0,
            ended: false,
            broken: false,
            established: false,
            closed: false,
        }
    }

    /// What both ends know of it.
    pub(super) fn common(&self) -> &CommonState {
        match &self.side {
            Side::Server(connection) => connection,
            Side::Client(connection) => connection,
        }
    }

    /// Whether nothing is here that was not asked for yet.
    pub(super) fn is_quiet(&self) -> bool {
        self.taken == self.plain.len() && self.partial.is_empty() && !self.ended && !self.broken
    }

    /// This end is to end without a word.
    pub(super) fn forget_close(&mut self) {
        self.closed = true;
    }

    /// How much a buffer has to hold for the next read.
    pub(super) fn wanted(&self) -> usize {
        HEADROOM + self.partial.len() + ROOM
    }

    /// Makes of records what they are: `buffer` holds them from the headroom on. What this end has to answer goes into
    /// `out`.
    ///
    /// # Errors
    /// When the peer breaks the protocol; what it is to be told of that is in `out`.
    pub(super) fn digest(&mut self, buffer: &mut [u8]) -> Result<Digested, Error> {
        let Self { side, out, ended, established, .. } = self;
        let result = match side {
            Side::Server(connection) => digest(&mut **connection, buffer, out, ended, established),
            Side::Client(connection) => digest(&mut **connection, buffer, out, ended, established),
        };
        self.broken |= result.is_err();
        result
    }

    /// Keeps what is not used up of what was read.
    ///
    /// # Errors
    /// When it is more than a handshake message in pieces can be: each piece costs its record's overhead too.
    pub(super) fn keep(&mut self, rest: &[u8]) -> Result<(), Error> {
        if rest.is_empty() {
            // Given back: most connections are idle most of the time.
            self.partial = Vec::new();
        } else if rest.len() > MOST_HELD {
            self.broken = true;
            return Err(Error::General("a handshake message in too many pieces".to_owned()));
        } else {
            // Exactly as much as it needs: a peer may leave a record incomplete for long.
            self.partial.clear();
            self.partial.reserve_exact(rest.len());
            self.partial.extend_from_slice(rest);
        }
        Ok(())
    }

    /// Encrypts data to the end of `to`, of whose bytes so many are used; gives how many are used then.
    pub(super) fn encrypt(&mut self, data: &[u8], to: &mut [u8], used: usize) -> Result<usize, Error> {
        let free = &mut to[used..];
        let written = match &mut self.side {
            Side::Server(connection) => {
                encrypt(&mut **connection, data, free, &mut self.partial, &mut self.out)
            }
            Side::Client(connection) => {
                encrypt(&mut **connection, data, free, &mut self.partial, &mut self.out)
            }
        };
        written.map(|written| used + written)
    }

    /// The message that this end's data has ended, if there is one to send and nothing before it.
    pub(super) fn close_notify(&mut self) -> Option<Vec<u8>> {
        let silent = std::mem::replace(&mut self.closed, true) || self.broken || !self.established;
        if silent || self.sent < self.out.len() {
            return None;
        }
        let mut notice = vec![0; OVERHEAD];
        let Self { side, partial, out, .. } = self;
        let to = &mut notice;
        let written = match side {
            Side::Server(connection) => {
                with_traffic(&mut **connection, partial, out, |mut it| it.queue_close_notify(to).ok())
            }
            Side::Client(connection) => {
                with_traffic(&mut **connection, partial, out, |mut it| it.queue_close_notify(to).ok())
            }
        };
        notice.truncate(written.ok().flatten().flatten()?);
        Some(notice)
    }
}

/// Either end of rustls' connections.
trait Engine: Deref<Target = CommonState> {
    type Data;

    fn step<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
}

impl Engine for UnbufferedConnectionCommon<ServerConnectionData> {
    type Data = ServerConnectionData;

    fn step<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }
}

impl Engine for UnbufferedConnectionCommon<ClientConnectionData> {
    type Data = ClientConnectionData;

    fn step<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }
}

fn digest<E: Engine>(
    engine: &mut E,
    buffer: &mut [u8],
    out: &mut Vec<u8>,
    ended: &mut bool,
    established: &mut bool,
) -> Result<Digested, Error> {
    let mut at = HEADROOM;
    let mut plain = 0;
    loop {
        let (front, rest) = buffer.split_at_mut(at);
        let UnbufferedStatus { mut discard, state } = engine.step(rest);
        let state = match state {
            Ok(state) => state,
            Err(error) => {
                farewell(engine, &mut buffer[at + discard..], out);
                return Err(error);
            }
        };
        match state {
            ConnectionState::ReadTraffic(mut traffic) => {
                while let Some(record) = traffic.next_record() {
                    let record = record?;
                    let end = plain + record.payload.len();
                    // The headroom is a record's, and no record holds more than its own length.
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
                return Ok(Digested { used: at + discard - HEADROOM, plain });
            }
            ConnectionState::BlockedHandshake | ConnectionState::Closed => {
                return Ok(Digested { used: at + discard - HEADROOM, plain });
            }
            // Early data is not offered, and there is nothing else yet.
            _ => return Err(Error::General("an unexpected state of the connection".to_owned())),
        }
        at += discard;
    }
}

/// After an error: what the peer is to be told of it. Nothing more is read: it would break again.
fn farewell<E: Engine>(engine: &mut E, mut rest: &mut [u8], out: &mut Vec<u8>) {
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

fn encrypt<E: Engine>(
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

/// Has something done that needs an established connection; `None`: it is none, or is over. What rustls itself has to
/// send before goes into `out`. It is shown what has come in part: of a handshake message in pieces it knows the places.
fn with_traffic<E: Engine, R>(
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
            // Told of once; this end may go on.
            ConnectionState::PeerClosed => {}
            _ => return Ok(None),
        }
        partial.drain(..discard);
    }
}
