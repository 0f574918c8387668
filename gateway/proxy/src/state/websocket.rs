//! Follows the frame boundaries of a WebSocket (RFC 6455, 5.2), so that [`tunnel`](crate::exchange::tunnel) can insert
//! a close frame between two frames.

/// The most bytes of a frame's header: two, a length of eight, and a mask of four.
const HEADER_MAX_BYTES: usize = 14;
/// The opcode of a close frame.
const CLOSE: u8 = 8;
/// "Going away" (RFC 6455, 7.4.1).
const GOING_AWAY: [u8; 2] = 1001_u16.to_be_bytes();

/// Follows one direction of a WebSocket, frame by frame. It does not look at the payload.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    header: [u8; HEADER_MAX_BYTES],
    /// Bytes of the header that have arrived.
    known: u8,
    /// Bytes of the payload still to come.
    left: u64,
    /// Whether a close frame has passed.
    closed: bool,
}

impl Frames {
    /// Advances over these bytes. With `stop`, only to the end of the current frame. Returns how many bytes
    /// that is.
    pub fn advance(&mut self, bytes: &[u8], stop: bool) -> usize {
        let mut at = 0;
        while at < bytes.len() && !(stop && self.is_between()) {
            if self.left > 0 {
                let step = self.left.min((bytes.len() - at) as u64);
                self.left -= step;
                at += step as usize;
                continue;
            }
            self.header[usize::from(self.known)] = bytes[at];
            self.known += 1;
            at += 1;
            if let Some(length) = self.length() {
                self.closed |= self.header[0] & 0x0f == CLOSE;
                self.left = length;
                self.known = 0;
            }
        }
        at
    }

    /// Returns whether the position is between two frames.
    pub fn is_between(&self) -> bool {
        self.known == 0 && self.left == 0
    }

    /// Returns whether a close frame has passed.
    pub fn has_closed(&self) -> bool {
        self.closed
    }

    /// Returns the length of the payload, once the header is complete.
    fn length(&self) -> Option<u64> {
        let header = self.header.get(..usize::from(self.known))?;
        let (short, masked) = match header {
            [_, second, ..] => (second & 0x7f, second & 0x80 != 0),
            _ => return None,
        };
        let more = match short {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        if header.len() < 2 + more + if masked { 4 } else { 0 } {
            return None;
        }
        Some(match more {
            0 => u64::from(short),
            _ => header[2..2 + more].iter().fold(0, |length, byte| length << 8 | u64::from(*byte)),
        })
    }
}

/// Returns a close frame with "going away". A client's frame is masked (RFC 6455, 5.3). The mask may be any
/// number, since no other party chooses the payload (10.3).
pub(crate) fn going_away(mask: Option<u32>) -> Vec<u8> {
    let mut frame = vec![0x80 | CLOSE, GOING_AWAY.len() as u8];
    match mask.map(u32::to_be_bytes) {
        None => frame.extend_from_slice(&GOING_AWAY),
        Some(mask) => {
            frame[1] |= 0x80;
            frame.extend_from_slice(&mask);
            frame.extend(GOING_AWAY.iter().zip(mask).map(|(byte, mask)| byte ^ mask));
        }
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(opcode: u8, masked: bool, length: usize) -> Vec<u8> {
        let mut bytes = vec![0x80 | opcode];
        let mask = if masked { 0x80 } else { 0 };
        match length {
            0..=125 => bytes.push(mask | length as u8),
            126..=0xffff => {
                bytes.push(mask | 126);
                bytes.extend_from_slice(&(length as u16).to_be_bytes());
            }
            _ => {
                bytes.push(mask | 127);
                bytes.extend_from_slice(&(length as u64).to_be_bytes());
            }
        }
        bytes.resize(bytes.len() + length + if masked { 4 } else { 0 }, 7);
        bytes
    }

    #[test]
    fn every_cut_finds_the_same_boundaries() {
        for length in [0, 1, 125, 126, 300, 70_000] {
            for masked in [false, true] {
                let bytes = [frame(1, masked, length), frame(2, masked, 3)].concat();
                let first = bytes.len() - frame(2, masked, 3).len();
                for cut in [0, 1, 2, 3, 9, 13, 14, first - 1, first, first + 1] {
                    let (mut frames, cut) = (Frames::default(), cut.min(bytes.len()));
                    assert_eq!(frames.advance(&bytes[..cut], false), cut);
                    assert_eq!(
                        frames.is_between(),
                        [0, first, bytes.len()].contains(&cut),
                        "{length} {masked} {cut}"
                    );
                    if !frames.is_between() && cut < first {
                        assert_eq!(frames.advance(&bytes[cut..], true), first - cut);
                        assert!(frames.is_between());
                    }
                    assert!(!frames.has_closed());
                }
            }
        }
        let mut frames = Frames::default();
        frames.advance(&frame(8, true, 2), false);
        assert!(frames.has_closed() && frames.is_between());
    }

    #[test]
    fn a_length_that_no_memory_holds_is_followed_all_the_same() {
        let mut frames = Frames::default();
        frames.advance(&[0x82, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], false);
        assert_eq!(frames.advance(&[0; 100], true), 100);
        assert!(!frames.is_between());
    }

    #[test]
    fn going_away_is_1001_for_both() {
        assert_eq!(going_away(None), [0x88, 2, 3, 0xe9]);
        let masked = going_away(Some(0x0102_0304));
        assert_eq!(masked, [0x88, 0x82, 1, 2, 3, 4, 3 ^ 1, 0xe9 ^ 2]);
    }
}
