//! The frame budget of a client connection: it finds floods of frames that the protocol allows one by one.
//!
//! `Http2Socket` passes every byte that the client sends through [`FloodMeter::received`], which follows the
//! frame headers. Requests, transferred bytes, taken response pieces and time earn credit; PING, SETTINGS,
//! RST_STREAM and frames without effect spend it. A connection that runs out is ended with
//! `ENHANCE_YOUR_CALM`.

use std::time::Instant;

use tollgate_http2::PREFACE;

/// The length of a frame's header (RFC 9113, 4.1).
const HEADER_BYTES: usize = 9;
/// The type of a frame that carries a head or a trailer section (RFC 9113, 6.2).
const HEADERS: u8 = 1;
/// The flag of a SETTINGS frame that acknowledges the peer's (RFC 9113, 6.5).
const ACK: u8 = 1;

/// The credit of a new connection, and the most that one can save up. The start of a browser's connection
/// costs about 10.
const CREDIT_MAX: u32 = 1_000;
/// Credit earned per second: enough for a keep-alive PING and a window update.
const PER_SECOND: u32 = 100;
/// Credit earned with a request: enough for its cancellation, its window updates and its priority.
const PER_STREAM: u32 = 8;
/// Credit earned with each piece of a response after the first, which the request has paid for. It covers a
/// window update, and a PING that measures the path: gRPC clients send one per piece until they know it.
const PER_PIECE: u32 = 8;
/// The flag of padded DATA. Its padding is at most `PADDING_MAX_BYTES` bytes, its length byte included (RFC
/// 9113, 6.1).
const PADDED: u8 = 8;
const PADDING_MAX_BYTES: u32 = 256;
/// How many bytes, in either direction, earn a credit of one: a receiver updates its windows every few KiB.
const BYTES_PER_CREDIT: u32 = 1024;

/// Returns the price of a frame. Frames that carry requests and bodies are free: the bounds of the HTTP/2
/// library and the limits on requests cover them.
fn price(kind: u8, flags: u8, length: u32) -> u32 {
    match kind {
        // DATA without data only causes work.
        0 if length == 0 || flags & PADDED != 0 && length == 1 => 8,
        // All of it may be padding.
        0 if flags & PADDED != 0 && length <= PADDING_MAX_BYTES => 1,
        // WebSockets and gRPC streams send messages of a few bytes, one per frame. At this point it is not
        // known whether the stream will read them; `pay` charges for unwanted ones later.
        0 => 0,
        // HEADERS that start no request: trailers, or a head for a closed stream, which must be decoded all
        // the same.
        HEADERS => 2,
        // RST_STREAM: the gateway may have started a request for nothing.
        3 => 16,
        // SETTINGS must be acknowledged and may change the window of every stream. gRPC clients that measure
        // the path send them some ten times, all others once.
        4 if flags & ACK == 0 => 50,
        // PING must be answered.
        6 => 8,
        // PRIORITY has no effect any more (RFC 9113, 5.3.2), but older browsers send some with each request.
        2 => 2,
        // PUSH_PROMISE, GOAWAY, WINDOW_UPDATE, CONTINUATION and unknown types.
        _ => 1,
    }
}

/// The connection has spent its credit. The value is the number of bytes before the frame that was too much:
/// those may still be processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exhausted(pub usize);

/// Weighs frames that cost work and transfer nothing against the use of the connection. Floods of PING,
/// SETTINGS, PRIORITY, WINDOW_UPDATE, empty DATA and RST_STREAM consist of frames that the protocol allows.
#[derive(Debug)]
pub(super) struct FloodMeter {
    header: [u8; HEADER_BYTES],
    /// Bytes of the header read so far.
    have: usize,
    /// Bytes of the frame's payload still to come.
    payload: u32,
    /// Bytes of the connection preface still to come.
    preface: usize,
    credit: u32,
    bytes: u32,
    /// The client's highest stream so far: only a head with a higher number is a new request.
    highest: u32,
    /// Pieces of responses that have earned credit.
    pieces: usize,
    earned_at: Instant,
}

impl FloodMeter {
    /// Returns the meter of a new connection.
    pub fn new(now: Instant) -> Self {
        Self {
            header: [0; HEADER_BYTES],
            have: 0,
            payload: 0,
            preface: PREFACE.len(),
            credit: CREDIT_MAX,
            bytes: 0,
            highest: 0,
            pieces: 0,
            earned_at: now,
        }
    }

    /// Follows the frames in `all`, and pays for each. `pieces` is how many pieces of responses the client
    /// has taken so far.
    pub fn received(
        &mut self,
        all: &[u8],
        pieces: usize,
        now: impl Fn() -> Instant,
    ) -> Result<(), Exhausted> {
        let mut bytes = all;
        let preface = self.preface.min(bytes.len());
        self.preface -= preface;
        bytes = &bytes[preface..];
        while !bytes.is_empty() {
            let skip = (self.payload as usize).min(bytes.len());
            self.payload -= skip as u32;
            self.earn_bytes(skip);
            bytes = &bytes[skip..];
            let begin = all.len() - bytes.len();
            let take = (HEADER_BYTES - self.have).min(bytes.len());
            self.header[self.have..self.have + take].copy_from_slice(&bytes[..take]);
            self.have += take;
            bytes = &bytes[take..];
            if self.have == HEADER_BYTES {
                self.have = 0;
                self.frame(pieces, &now).ok_or(Exhausted(begin))?;
            }
        }
        Ok(())
    }

    /// Earns credit for `count` bytes that the gateway has written.
    pub fn sent(&mut self, count: usize) {
        self.earn_bytes(count);
    }

    /// Pays for a frame; `None` if the credit does not suffice.
    fn frame(&mut self, pieces: usize, now: &impl Fn() -> Instant) -> Option<()> {
        let [a, b, c, kind, flags, stream @ ..] = self.header;
        let length = u32::from_be_bytes([0, a, b, c]);
        self.payload = length;
        let stream = u32::from_be_bytes(stream) & 0x7fff_ffff;
        let is_new_request = kind == HEADERS && stream > self.highest;
        if is_new_request {
            self.highest = stream;
            self.earn(PER_STREAM);
        }
        let price = if is_new_request { 0 } else { price(kind, flags, length) };
        self.pay(price, pieces, now)
    }

    /// Spends `price`; `None` if the credit does not suffice.
    pub fn pay(&mut self, price: u32, pieces: usize, now: &impl Fn() -> Instant) -> Option<()> {
        if price > self.credit {
            let sent = u32::try_from(pieces.saturating_sub(self.pieces)).unwrap_or(u32::MAX);
            self.pieces = pieces;
            self.earn(sent.saturating_mul(PER_PIECE));
            // The clock is read only here, because that costs more than most frames.
            let now = now();
            let since = now.saturating_duration_since(self.earned_at).as_millis();
            let earned = u32::try_from(since * u128::from(PER_SECOND) / 1000).unwrap_or(u32::MAX);
            if earned > 0 {
                self.earned_at = now;
                self.earn(earned);
            }
        }
        self.credit = self.credit.checked_sub(price)?;
        Some(())
    }

    fn earn_bytes(&mut self, count: usize) {
        let bytes = self.bytes.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        self.earn(bytes / BYTES_PER_CREDIT);
        self.bytes = bytes % BYTES_PER_CREDIT;
    }

    fn earn(&mut self, credit: u32) {
        self.credit = self.credit.saturating_add(credit).min(CREDIT_MAX);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn frame(kind: u8, payload: usize) -> Vec<u8> {
        let [_, a, b, c] = (payload as u32).to_be_bytes();
        let mut frame = vec![a, b, c, kind, 0, 0, 0, 0, 1];
        frame.resize(HEADER_BYTES + payload, 0xff);
        frame
    }

    fn padded(payload: usize) -> Vec<u8> {
        let mut frame = frame(0, payload);
        frame[4] = PADDED;
        frame
    }

    /// Returns the frames for the given round. Each HEADERS frame whose stream is not 0 gets a new stream
    /// number, so that it starts a request.
    fn asking(frames: &[Vec<u8>], round: usize) -> Vec<u8> {
        let mut stream = (round * frames.len()) as u32;
        let mut all = frames.concat();
        let mut at = 0;
        for frame in frames {
            if frame[3] == HEADERS && frame[8] != 0 {
                stream += 1;
                all[at + 5..at + 9].copy_from_slice(&stream.to_be_bytes());
            }
            at += frame.len();
        }
        all
    }

    /// Returns how many of these frames a connection may send at once, if `read` bytes are read at a time;
    /// `None` if there is no bound.
    fn allowed(frames: &[Vec<u8>], read: usize) -> Option<usize> {
        let start = Instant::now();
        let mut meter = FloodMeter::new(start);
        assert_eq!(meter.received(PREFACE, 0, || start), Ok(()));
        for count in 0..10_000 {
            for piece in asking(frames, count).chunks(read) {
                if meter.received(piece, 0, || start).is_err() {
                    return Some(count);
                }
            }
        }
        None
    }

    #[test]
    fn floods_end() {
        for read in [1, 7, 9, 64, 100_000] {
            assert_eq!(allowed(&[frame(6, 8)], read), Some(125), "PING");
            assert_eq!(allowed(&[frame(4, 0)], read), Some(20), "SETTINGS");
            assert_eq!(allowed(&[frame(0, 0)], read), Some(125), "empty DATA");
            assert_eq!(allowed(&[padded(1)], read), Some(125), "a length of no padding");
            assert!(allowed(&[padded(256)], read).is_some_and(|count| count < 1400), "all padding");
            assert!(allowed(&[frame(8, 4)], read).is_some_and(|count| count < 1100), "WINDOW_UPDATE");
            assert!(allowed(&[frame(2, 5)], read).is_some_and(|count| count < 550), "PRIORITY");
            assert!(
                allowed(&[frame(1, 20), frame(3, 4)], read).is_some_and(|count| count < 150),
                "rapid reset"
            );
        }
    }

    #[test]
    fn heads_that_ask_for_nothing_earn_nothing() {
        // On stream 0, so that none counts as new: these are trailers, or heads for a closed stream.
        let mut trailers = frame(1, 1);
        trailers[8] = 0;
        assert_eq!(allowed(&[trailers.clone()], 1000), Some(500));
        assert_eq!(allowed(&[frame(1, 20), trailers.clone()], 1000), None, "each request with trailers");
        assert!(allowed(&[trailers, frame(6, 8)], 1000).is_some_and(|count| count <= 100), "a PING for each");
    }

    #[test]
    fn bytes_after_the_end_are_ignored() {
        let start = Instant::now();
        let (pings, piece) = (frame(6, 8).repeat(1000), 100);
        for whole in [true, false] {
            let mut meter = FloodMeter { preface: 0, ..FloodMeter::new(start) };
            let mut looked = 0;
            let pieces: Vec<_> = if whole { vec![&pings[..]] } else { pings.chunks(piece).collect() };
            let ended = pieces.into_iter().find_map(|bytes| match meter.received(bytes, 0, || start) {
                Ok(()) => {
                    looked += bytes.len();
                    None
                }
                Err(Exhausted(count)) => Some(looked + count),
            });
            let ended = ended.expect("a flood ends");
            // Part of the header of the frame that is too much may have arrived with earlier bytes.
            assert!((125 * 17..125 * 17 + HEADER_BYTES).contains(&ended), "{ended}");
        }
    }

    #[test]
    fn use_does_not() {
        let [headers, data, update] = [frame(1, 40), frame(0, 16_384), frame(8, 4)];
        assert_eq!(allowed(&[headers.clone(), update.clone(), update.clone()], 1000), None, "small requests");
        assert_eq!(allowed(&[data, update.clone(), update], 1000), None, "an upload");
        assert_eq!(allowed(&[frame(0, 1)], 1000), None, "a message of a byte");
        assert_eq!(allowed(&[padded(300)], 1000), None, "padding beside a message");
        let priority = frame(2, 5);
        assert_eq!(
            allowed(&[headers.clone(), priority.clone(), priority], 1000),
            None,
            "priorities of each request"
        );
        assert_eq!(
            allowed(&[headers.clone(), headers, frame(3, 4)], 1000),
            None,
            "every other one cancelled"
        );
    }

    #[test]
    fn each_piece_of_a_response_may_be_answered_by_a_ping() {
        let start = Instant::now();
        let mut meter = FloodMeter { preface: 0, ..FloodMeter::new(start) };
        for pieces in 0..10_000 {
            assert_eq!(meter.received(&frame(6, 8), pieces, || start), Ok(()), "{pieces}");
        }
        let more = (0..1000).take_while(|_| meter.received(&frame(6, 8), 10_000, || start).is_ok()).count();
        assert!(more <= 125, "{more} for nothing");
    }

    #[test]
    fn useless_frames_cost_credit() {
        let start = Instant::now();
        let mut meter = FloodMeter { preface: 0, ..FloodMeter::new(start) };
        assert_eq!(meter.pay(CREDIT_MAX, 0, &|| start), Some(()));
        assert_eq!(meter.pay(1, 0, &|| start), None);
    }

    #[test]
    fn time_and_sent_bytes_earn_credit() {
        let start = Instant::now();
        let mut meter = FloodMeter { preface: 0, ..FloodMeter::new(start) };
        let mut at = start;
        for second in 0..10_000 {
            at = start + Duration::from_millis(second * 100);
            assert_eq!(meter.received(&frame(6, 8), 0, || at), Ok(()), "a PING ten times a second");
        }
        meter.credit = 0;
        for _ in 0..10_000 {
            meter.sent(16 * 1024);
            assert_eq!(meter.received(&frame(8, 4), 0, || at), Ok(()));
        }
    }
}
