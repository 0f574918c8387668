//! Limits how many bytes may wait in the output buffer of a connection. The limit drops from `LIMIT_BYTES` to
//! `CROWDED_LIMIT_BYTES` when all connections of the worker together hold `CROWDED_TOTAL_BYTES` bytes.

use crate::shared::totals::{ConnectionShare, MemoryTotals};

/// Bytes that may wait for the socket of one connection, all streams together.
const LIMIT_BYTES: usize = 128 * 1024;
/// Bytes that may wait on all connections of a worker before the limit of each drops to
/// `CROWDED_LIMIT_BYTES`. Otherwise thousands of clients that read nothing would each hold `LIMIT_BYTES`.
const CROWDED_TOTAL_BYTES: usize = 8 * 1024 * 1024;
const CROWDED_LIMIT_BYTES: usize = 16 * 1024;

/// Bytes beyond `LIMIT_BYTES` for the replies to an endpoint's frames. An endpoint may read nothing until its response is
/// taken, so a request's body in the buffer must not stop the gateway from reading.
const REPLIES_BYTES: usize = 64 * 1024;

/// Tracks the unwritten bytes of a connection. Without this bound, a client that opens large windows and
/// reads nothing could make the gateway buffer a full window for each stream.
#[derive(Debug)]
pub(crate) struct OutputLimit {
    unwritten: ConnectionShare,
}

impl OutputLimit {
    pub fn new(totals: &MemoryTotals) -> Self {
        Self { unwritten: ConnectionShare::of(totals.unwritten.clone()) }
    }

    /// Records how many bytes wait now.
    pub fn set(&mut self, unwritten: usize) {
        self.unwritten.set(unwritten);
    }

    /// Bytes that may be added now.
    pub fn available(&self) -> usize {
        self.limit().saturating_sub(self.unwritten.own())
    }

    /// Whether the output buffer has reached `LIMIT_BYTES`.
    pub fn is_full(&self) -> bool {
        self.unwritten.own() >= LIMIT_BYTES
    }

    /// Whether replies to further frames fit, although bodies may have filled `LIMIT_BYTES`.
    pub fn has_room_for_replies(&self) -> bool {
        self.unwritten.own() < LIMIT_BYTES + REPLIES_BYTES
    }

    /// Whether there is enough room to wake the streams that wait for it: more than half of the limit.
    pub fn has_room_for_writers(&self) -> bool {
        self.available() > self.limit() / 2
    }

    fn limit(&self) -> usize {
        if self.unwritten.all() < CROWDED_TOTAL_BYTES { LIMIT_BYTES } else { CROWDED_LIMIT_BYTES }
    }

    /// Whether the client reads slowly: more than half of `CROWDED_LIMIT_BYTES` waits.
    pub fn is_slow_reader(&self) -> bool {
        self.unwritten.own() > CROWDED_LIMIT_BYTES / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_crowd_each_has_less() {
        let totals = MemoryTotals::default();
        let all = &totals.unwritten;
        let mut limits: Vec<_> =
            (0..CROWDED_TOTAL_BYTES / LIMIT_BYTES).map(|_| OutputLimit::new(&totals)).collect();
        limits.iter_mut().for_each(|output_limit| output_limit.set(LIMIT_BYTES));
        let mut late = OutputLimit::new(&totals);
        assert_eq!(
            (all.get(), late.available(), limits[0].available()),
            (CROWDED_TOTAL_BYTES, CROWDED_LIMIT_BYTES, 0)
        );
        late.set(CROWDED_LIMIT_BYTES);
        assert!(late.available() == 0 && !late.has_room_for_writers() && late.is_slow_reader());
        limits.clear();
        assert_eq!((all.get(), late.available()), (CROWDED_LIMIT_BYTES, LIMIT_BYTES - CROWDED_LIMIT_BYTES));
        drop(late);
        assert_eq!(all.get(), 0);
    }
}
