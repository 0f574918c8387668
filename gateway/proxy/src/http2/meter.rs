//! What a connection costs beside its requests.

use std::time::Instant;

use tollgate_http2::PREFACE;

/// The length of a frame's header (RFC 9113, 4.1).
const HEADER: usize = 9;
/// The frame of a head, or of a trailer section (RFC 9113, 6.2).
const HEADERS: u8 = 1;
/// The flag of SETTINGS that answer the other side's (RFC 9113, 6.5).
const ACK: u8 = 1;

/// What a connection may spend at most before it has earned anything. A browser's start takes about 10.
const BURST: u32 = 1_000;
/// What it earns in a second: a keep-alive PING, an update of a window.
const PER_SECOND: u32 = 100;
/// What it earns with a request: its cancellation, updates of its window, its priority.
const PER_STREAM: u32 = 8;
/// What it earns with a piece of a response behind the first, which the request has paid for: a PING to measure the path
/// (gRPC's clients send one for each, as long as they do not know it), an update of a window.
const PER_PIECE: u32 = 8;
/// The flag of DATA with padding, of at most `PADDING` bytes with its length (RFC 9113, 6.1).
const PADDED: u8 = 8;
const PADDING: u32 = 256;
/// How many bytes, in either direction, earn one: a receiver updates its windows every few KiB.
const BYTES: u32 = 1024;

/// What frames cost. Those that carry requests and bodies are for the library's own bounds, and for the limits on
/// requests.
fn price(kind: u8, flags: u8, length: u32) -> u32 {
    match kind {
        // DATA without data: nothing but work.
        0 if length == 0 || flags & PADDED != 0 && length == 1 => 8,
        // It may be padding, all of it.
        0 if flags & PADDED != 0 && length <= PADDING => 1,
        // Messages of a few bytes, one in each frame, are what WebSockets and gRPC's streams are for. Whether somebody takes
        // them is not known yet.
        0 => 0,
        // HEADERS that ask for nothing: trailers, or what follows a stream that is gone and has to be decoded all the same.
        HEADERS => 2,
        // RST_STREAM: a request that was begun in vain.
        3 => 16,
        // SETTINGS want an answer, and may move the window of every stream. Clients that measure the path (gRPC's) send them
        // some ten times, all others once.
        4 if flags & ACK == 0 => 50,
        // PING wants an answer.
        6 => 8,
        // PRIORITY, which nobody heeds any more (RFC 9113, 5.3.2), and older browsers send some with each request.
        2 => 2,
        // PUSH_PROMISE, GOAWAY, WINDOW_UPDATE, CONTINUATION and what nobody knows.
        _ => 1,
    }
}

/// The connection costs more than it is worth. What has come may be looked at up to the frame that was too much: so many
/// bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exhausted(pub usize);

/// Weighs the frames that cost work and bring nothing against what the connection is used for: floods of PING, SETTINGS,
/// PRIORITY, WINDOW_UPDATE, empty DATA and RST_STREAM are each allowed by the protocol, frame by frame.
#[derive(Debug)]
pub(super) struct Meter {
    header: [u8; HEADER],
    /// Bytes of it that have come.
    have: usize,
    /// Bytes of the payload that are still to come.
    payload: u32,
    /// Bytes of the preface that are still to come.
    preface: usize,
    credit: u32,
    bytes: u32,
    /// The client's highest stream so far: only the head of a new one is a request.
    highest: u32,
    /// Pieces of responses that have earned something.
    pieces: usize,
    earned_at: Instant,
}

impl Meter {
    /// Of a connection that begins now.
    pub fn new(now: Instant) -> Self {
        Self {
            header: [0; HEADER],
            have: 0,
            payload: 0,
            preface: PREFACE.len(),
            credit: BURST,
            bytes: 0,
            highest: 0,
            pieces: 0,
            earned_at: now,
        }
    }

    /// Looks at bytes that came. `pieces` of responses have gone so far.
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
            let take = (HEADER - self.have).min(bytes.len());
            self.header[self.have..self.have + take].copy_from_slice(&bytes[..take]);
            self.have += take;
            bytes = &bytes[take..];
            if self.have == HEADER {
                self.have = 0;
                self.frame(pieces, &now).ok_or(Exhausted(begin))?;
            }
        }
        Ok(())
    }

    /// Bytes went out.
    pub fn sent(&mut self, count: usize) {
        self.earn_bytes(count);
    }

    /// Pays for a frame; nothing, if it cannot.
    fn frame(&mut self, pieces: usize, now: &impl Fn() -> Instant) -> Option<()> {
        let [a, b, c, kind, flags, stream @ ..] = self.header;
        let length = u32::from_be_bytes([0, a, b, c]);
        self.payload = length;
        let stream = u32::from_be_bytes(stream) & 0x7fff_ffff;
        let asks = kind == HEADERS && stream > self.highest;
        if asks {
            self.highest = stream;
            self.earn(PER_STREAM);
        }
        let price = if asks { 0 } else { price(kind, flags, length) };
        self.pay(price, pieces, now)
    }

    /// Spends so much; nothing, if it cannot.
    pub fn pay(&mut self, price: u32, pieces: usize, now: &impl Fn() -> Instant) -> Option<()> {
        if price > self.credit {
            let sent = u32::try_from(pieces.saturating_sub(self.pieces)).unwrap_or(u32::MAX);
            self.pieces = pieces;
            self.earn(sent.saturating_mul(PER_PIECE));
            // Only now: the clock costs more than most frames.
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
        self.earn(bytes / BYTES);
        self.bytes = bytes % BYTES;
    }

    fn earn(&mut self, credit: u32) {
        self.credit = self.credit.saturating_add(credit).min(BURST);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn frame(kind: u8, payload: usize) -> Vec<u8> {
        let [_, a, b, c] = (payload as u32).to_be_bytes();
        let mut frame = vec![a, b, c, kind, 0, 0, 0, 0, 1];
        frame.resize(HEADER + payload, 0xff);
        frame
    }

    fn padded(payload: usize) -> Vec<u8> {
        let mut frame = frame(0, payload);
        frame[4] = PADDED;
        frame
    }

    /// The frames in the given round: each head of a stream of its own, if they are to ask for something.
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

    /// How many of these frames a connection may send at once, in reads of so many bytes.
    fn allowed(frames: &[Vec<u8>], read: usize) -> Option<usize> {
        let start = Instant::now();
        let mut meter = Meter::new(start);
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
        // Of stream 0, so that they are of none that is new: trailers, or what follows a stream that is gone.
        let mut trailers = frame(1, 1);
        trailers[8] = 0;
        assert_eq!(allowed(&[trailers.clone()], 1000), Some(500));
        assert_eq!(allowed(&[frame(1, 20), trailers.clone()], 1000), None, "each request with trailers");
        assert!(allowed(&[trailers, frame(6, 8)], 1000).is_some_and(|count| count <= 100), "a PING for each");
    }

    #[test]
    fn what_comes_after_the_end_is_not_looked_at() {
        let start = Instant::now();
        let (pings, piece) = (frame(6, 8).repeat(1000), 100);
        for whole in [true, false] {
            let mut meter = Meter { preface: 0, ..Meter::new(start) };
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
            // The header of the frame that is too much may have come in part before.
            assert!((125 * 17..125 * 17 + HEADER).contains(&ended), "{ended}");
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
        let mut meter = Meter { preface: 0, ..Meter::new(start) };
        for pieces in 0..10_000 {
            assert_eq!(meter.received(&frame(6, 8), pieces, || start), Ok(()), "{pieces}");
        }
        let more = (0..1000).take_while(|_| meter.received(&frame(6, 8), 10_000, || start).is_ok()).count();
        assert!(more <= 125, "{more} for nothing");
    }

    #[test]
    fn what_nobody_wants_is_paid_for() {
        let start = Instant::now();
        let mut meter = Meter { preface: 0, ..Meter::new(start) };
        assert_eq!(meter.pay(BURST, 0, &|| start), Some(()));
        assert_eq!(meter.pay(1, 0, &|| start), None);
    }

    #[test]
    fn time_and_what_was_sent_earn_too() {
        let start = Instant::now();
        let mut meter = Meter { preface: 0, ..Meter::new(start) };
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
