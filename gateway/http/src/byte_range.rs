//! Parses `Range` (RFC 9110, 14.2).

/// The most ranges that are sent. A request for more gets everything: an attacker who asks for many small ranges
/// would otherwise multiply the work of a request.
const RANGES_MAX: usize = 16;

/// A range of bytes of some content; `end` is exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// The first byte.
    pub start: u64,
    /// The byte after the last one.
    pub end: u64,
}

impl ByteRange {
    /// Returns the number of bytes.
    #[must_use]
    pub const fn length(self) -> u64 {
        self.end - self.start
    }
}

/// The ranges that a `Range` requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requested {
    /// All of it: the field is malformed, has another unit, or asks for too much.
    Whole,
    /// These ranges, at least one, in the order of the request. None of them is empty.
    Ranges(Vec<ByteRange>),
    /// No range that it has.
    Nothing,
}

/// Parses a `Range` for content of this length.
#[must_use]
pub fn parse_ranges(value: &[u8], length: u64) -> Requested {
    let Some(list) = unit(value) else { return Requested::Whole };
    if length == 0 {
        return Requested::Whole;
    }
    let (mut ranges, mut count) = (Vec::new(), 0_usize);
    for member in list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
        if member.is_empty() {
            continue;
        }
        let Some(range) = parse_range(member, length) else { return Requested::Whole };
        count += 1;
        if count > RANGES_MAX {
            return Requested::Whole;
        }
        ranges.extend(range.filter(|range| range.start < range.end));
    }
    if count == 0 {
        return Requested::Whole;
    }
    // Ranges that overlap are of no use to a client, and would make the gateway send more than there is.
    let asked = ranges.iter().fold(0, |sum: u64, range| sum.saturating_add(range.length()));
    if ranges.len() > 1 && asked > length {
        return Requested::Whole;
    }
    if ranges.is_empty() { Requested::Nothing } else { Requested::Ranges(ranges) }
}

fn unit(value: &[u8]) -> Option<&[u8]> {
    let (unit, rest) = value.split_at_checked(b"bytes".len())?;
    let rest = unit.eq_ignore_ascii_case(b"bytes").then_some(rest)?;
    rest.strip_prefix(b"=")
}

/// Parses one range. The outer `None`: it is malformed; the inner one: the content does not have it.
fn parse_range(member: &[u8], length: u64) -> Option<Option<ByteRange>> {
    let dash = member.iter().position(|byte| *byte == b'-')?;
    let (first, last) = (member[..dash].trim_ascii_end(), member[dash + 1..].trim_ascii_start());
    let range = match (first.is_empty(), last.is_empty()) {
        (true, true) => return None,
        (true, false) => {
            let suffix = number(last)?;
            Some(ByteRange { start: length.saturating_sub(suffix), end: length })
        }
        (false, true) => {
            let start = number(first)?;
            (start < length).then_some(ByteRange { start, end: length })
        }
        (false, false) => {
            let (start, last) = (number(first)?, number(last)?);
            if last < start {
                return None;
            }
            (start < length).then(|| ByteRange { start, end: last.saturating_add(1).min(length) })
        }
    };
    Some(range)
}

/// Parses digits. A number beyond 64 bits counts as the largest.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    Some(digits.iter().fold(0, add))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> Requested {
        parse_ranges(text.as_bytes(), 100)
    }

    fn ranges(list: &[(u64, u64)]) -> Requested {
        Requested::Ranges(list.iter().map(|(start, end)| ByteRange { start: *start, end: *end }).collect())
    }

    #[test]
    fn ranges_of_a_file_of_100_bytes() {
        for (text, expected) in [
            ("bytes=0-0", ranges(&[(0, 1)])),
            ("bytes=0-", ranges(&[(0, 100)])),
            ("Bytes=99-200", ranges(&[(99, 100)])),
            ("bytes=-1", ranges(&[(99, 100)])),
            ("bytes=-500", ranges(&[(0, 100)])),
            ("bytes=0-9, 20-29 ,,-1", ranges(&[(0, 10), (20, 30), (99, 100)])),
            ("bytes=200-, 0-0", ranges(&[(0, 1)])),
            ("bytes=0-99999999999999999999999", ranges(&[(0, 100)])),
            ("bytes=100-", Requested::Nothing),
            ("bytes=-0", Requested::Nothing),
            ("bytes=100-100,200-", Requested::Nothing),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
        for text in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=5-4",
            "bytes=a-b",
            "bytes=1",
            "bytes=0-9,x",
            "items=0-1",
            "bytes=+1-2",
            "bytes=0-59,40-99",
            "bytes 0-1",
        ] {
            assert_eq!(of(text), Requested::Whole, "{text}");
        }
        let many = format!("bytes={}", (0..17).map(|at| format!("{at}-{at}")).collect::<Vec<_>>().join(","));
        assert_eq!(of(&many), Requested::Whole);
        assert_eq!(parse_ranges(b"bytes=0-", 0), Requested::Whole);
    }

    proptest! {
        #[test]
        fn every_range_lies_in_the_file(text in "bytes=([0-9]{0,3}-[0-9]{0,3},?){0,20}", length in 0_u64..500) {
            if let Requested::Ranges(ranges) = parse_ranges(text.as_bytes(), length) {
                prop_assert!(!ranges.is_empty() && ranges.len() <= RANGES_MAX);
                prop_assert!(ranges.iter().all(|range| range.start < range.end && range.end <= length));
                let sum: u64 = ranges.iter().map(|range| range.length()).sum();
                prop_assert!(sum <= length);
            }
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, length: u64) {
            let _ = parse_ranges(&bytes, length);
        }
    }
}
