//! The `grpc-timeout` field: how long a client waits for the whole call. The proxy bounds the exchange by it,
//! and sends the remaining time to the endpoint.

use std::time::Duration;

/// Most digits of a value.
const DIGITS_MAX: usize = 8;
/// The units in nanoseconds, finest first.
const UNITS: [(u8, u128); 6] = [
    (b'n', 1),
    (b'u', 1_000),
    (b'm', 1_000_000),
    (b'S', 1_000_000_000),
    (b'M', 60_000_000_000),
    (b'H', 3_600_000_000_000),
];

/// Parses a value: 1 to 8 digits and a unit (`H`, `M`, `S`, `m`, `u`, `n`). Returns `None` if it is
/// malformed.
#[must_use]
pub fn parse(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > DIGITS_MAX || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let (_, nanos) = UNITS.iter().find(|(letter, _)| letter == unit)?;
    let count = digits.iter().fold(0, |count, digit| count * 10 + u128::from(digit - b'0'));
    let nanos = count * nanos;
    Some(Duration::new((nanos / 1_000_000_000) as u64, (nanos % 1_000_000_000) as u32))
}

/// Appends a timeout, in the finest unit in which it fits. It is rounded up, so that a short time does not
/// become zero.
pub fn write(out: &mut Vec<u8>, timeout: Duration) {
    const MOST: u128 = 99_999_999;
    let nanos = timeout.as_nanos();
    let fits = |&&(_, unit): &&(u8, u128)| nanos.div_ceil(unit) <= MOST;
    let (letter, unit) = UNITS.iter().find(fits).unwrap_or(&UNITS[5]);
    let count = nanos.div_ceil(*unit).min(MOST);
    crate::h1::write_decimal(out, count as u64);
    out.push(*letter);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_and_what_is_none() {
        for (text, time) in [
            ("1S", Some(Duration::from_secs(1))),
            ("100m", Some(Duration::from_millis(100))),
            ("00000001u", Some(Duration::from_micros(1))),
            ("99999999n", Some(Duration::from_nanos(99_999_999))),
            ("2M", Some(Duration::from_secs(120))),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3600))),
            ("0n", Some(Duration::ZERO)),
            ("00000000H", Some(Duration::ZERO)),
            ("000000001u", None),
            ("100000000n", None),
            ("18446744073709551616H", None),
            ("340282366920938463463374607431768211456n", None),
            ("1s", None),
            ("S", None),
            ("", None),
            ("-1S", None),
            ("1.5S", None),
            ("1 S", None),
            ("1", None),
        ] {
            assert_eq!(parse(text.as_bytes()), time, "{text}");
        }
    }

    #[test]
    fn the_finest_unit_that_it_fits_in() {
        for (time, text) in [
            (Duration::ZERO, "0n"),
            (Duration::from_millis(99), "99000000n"),
            (Duration::from_millis(100), "100000u"),
            (Duration::from_secs(10), "10000000u"),
            (Duration::from_secs(3600), "3600000m"),
            (Duration::new(100, 1), "100001m"),
            (Duration::MAX, "99999999H"),
        ] {
            let mut out = Vec::new();
            write(&mut out, time);
            assert_eq!(String::from_utf8_lossy(&out), text);
        }
    }

    proptest! {
        #[test]
        fn written_timeouts_round_up_slightly(secs in 0_u64..360_000_000_000, nanos in 0_u32..1_000_000_000) {
            let time = Duration::new(secs, nanos);
            let mut out = Vec::new();
            write(&mut out, time);
            let read = parse(&out).expect("a value");
            prop_assert!(read >= time.min(Duration::from_secs(99_999_999 * 3600)));
            prop_assert!(read.saturating_sub(time).as_nanos() * 1_000_000 <= time.as_nanos().max(1));
        }

        #[test]
        fn malformed_timeouts_are_rejected(text in "[0-9]{0,9}[a-zA-Z]?") {
            let _ = parse(text.as_bytes());
        }
    }
}
