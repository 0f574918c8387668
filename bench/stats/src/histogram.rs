//! Latency histograms that merge without loss.
//!
//! This wrapper of the HdrHistogram port fixes the parameters: the unit is **nanoseconds**, and values run
//! from 1 ns to one hour with 3 significant digits. Every histogram has the same shape, so that any two merge
//! by adding counts. A percentile over several threads is read from the merged counts, never averaged.
//!
//! The unit is 1 ns although no response takes less than a microsecond. HDR's precision starts at its unit,
//! and with a unit of 1 us a latency of 50 us would have two digits. A histogram takes 265 kB, of which a run
//! touches a few pages.

use std::fmt;
use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

/// The longest value, one hour, in nanoseconds. Longer values are recorded as this.
pub const LONGEST_NANOS: u64 = 3_600_000_000_000;

/// Significant decimal digits at every value.
pub const DIGITS: u8 = 3;

/// The percentiles of a table, in order.
pub const PERCENTILES: [f64; 8] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0];

/// Counts of latencies.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// Creates an empty histogram.
    pub fn new() -> Self {
        let empty = hdrhistogram::Histogram::new_with_bounds(1, LONGEST_NANOS, DIGITS);
        Self(empty.expect("1 ns to 1 h with 3 digits is a valid shape"))
    }

    /// Counts one latency in nanoseconds. A latency above an hour counts as an hour.
    pub fn record(&mut self, nanos: u64) {
        self.0.saturating_record(nanos.min(LONGEST_NANOS));
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all histograms have one shape");
    }

    /// Returns how many latencies were counted.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns whether none was counted. Every figure below is then 0.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the nanoseconds that this percentage (0..=100) of the latencies do not exceed.
    pub fn percentile(&self, percent: f64) -> u64 {
        // HDR returns the upper end of the value's bucket, which can exceed the longest value by the bucket's
        // width.
        self.0.value_at_quantile(percent.clamp(0.0, 100.0) / 100.0).min(LONGEST_NANOS)
    }

    /// Returns `(percent, nanoseconds)` for [`PERCENTILES`].
    pub fn percentiles(&self) -> Vec<(f64, u64)> {
        PERCENTILES.iter().map(|percent| (*percent, self.percentile(*percent))).collect()
    }

    /// Returns `(percent, nanoseconds)` along the whole curve, for a plot whose axis shows 90, 99, 99.9... at
    /// equal distances. There are `steps` points for each halving of the distance to 100 %. Empty for an
    /// empty histogram.
    pub fn curve(&self, steps: u32) -> Vec<(f64, u64)> {
        if self.is_empty() {
            return Vec::new();
        }
        let point = |step: hdrhistogram::iterators::IterationValue<u64>| {
            (step.quantile_iterated_to() * 100.0, step.value_iterated_to().min(LONGEST_NANOS))
        };
        self.0.iter_quantiles(steps.max(1)).map(point).collect()
    }

    /// Returns the shortest latency in nanoseconds.
    pub fn min(&self) -> u64 {
        if self.is_empty() { 0 } else { self.0.min() }
    }

    /// Returns the longest latency in nanoseconds, to 3 digits.
    pub fn max(&self) -> u64 {
        self.0.max().min(LONGEST_NANOS)
    }

    /// Returns the mean latency in microseconds.
    pub fn mean_us(&self) -> f64 {
        self.0.mean() / 1_000.0
    }

    /// Returns the standard deviation of the latencies (population form) in microseconds.
    pub fn stdev_us(&self) -> f64 {
        self.0.stdev() / 1_000.0
    }

    /// Adds the latencies that a closed-loop generator missed while it waited. For each latency longer than
    /// the expected interval between two requests (nanoseconds), it adds the requests that should have been
    /// sent in that time. This is an estimate, for tools that cannot measure from the intended send time. An
    /// interval of 0 corrects nothing.
    pub fn corrected(&self, interval_nanos: u64) -> Self {
        Self(self.0.clone_correct(interval_nanos))
    }

    /// Encodes in HdrHistogram's V2 format, deflated, as base64 (standard alphabet, padded). Other HDR tools
    /// can read it, with the unit of 1 ns.
    pub fn encode(&self) -> String {
        let mut bytes = Vec::new();
        let written = V2DeflateSerializer::new().serialize(&self.0, &mut bytes);
        written.expect("writing to memory does not fail, and an array of this shape has a length of 32 bits");
        STANDARD.encode(bytes)
    }

    /// Decodes the output of [`Self::encode`].
    ///
    /// # Errors
    /// If the text is not such a histogram, or one of another shape, since merging it would silently lose
    /// digits. Hostile text costs no more memory than a valid one, and causes no panic.
    pub fn decode(text: &str) -> Result<Self, DecodeError> {
        let packed = STANDARD.decode(text.trim()).map_err(|_| DecodeError::NotBase64)?;
        let plain = inflate(&packed)?;
        check(&plain)?;
        let histogram = Deserializer::new().deserialize::<u64, _>(&mut plain.as_slice());
        histogram.map(Self).map_err(|error| DecodeError::Broken(error.to_string()))
    }
}

/// Why a text is not a valid histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Not base64.
    NotBase64,
    /// Not HdrHistogram's deflated V2 format.
    NotDeflatedV2,
    /// A histogram with another range or precision.
    OtherShape {
        /// Its smallest unit.
        low: u64,
        /// Its longest value.
        high: u64,
        /// Its significant digits.
        digits: u32,
    },
    /// Counts that cannot be parsed, with the reason.
    Broken(String),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBase64 => write!(out, "histogram: expected base64"),
            Self::NotDeflatedV2 => write!(out, "histogram: expected HdrHistogram's deflated V2 format"),
            Self::OtherShape { low, high, digits } => write!(
                out,
                "histogram: expected 1 to {LONGEST_NANOS} ns with {DIGITS} digits, found {low} to {high} with {digits}"
            ),
            Self::Broken(why) => write!(out, "histogram: its counts are damaged: {why}"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// The first bytes of the deflated V2 format, and of its content (HdrHistogram's encoding, version 2, word
/// size bits set).
const DEFLATED: [u8; 4] = [0x1c, 0x84, 0x93, 0x14];
const PLAIN: [u8; 4] = [0x1c, 0x84, 0x93, 0x13];

/// Bytes before the counts: cookie, length, offset, digits, low, high, ratio.
const HEADER: usize = 40;

/// The most bytes that this shape can need: 9 for each of its fewer than 34,000 counts.
const MOST: u64 = HEADER as u64 + 9 * 34_000;

/// Decompresses with a bound, which the format's own reader lacks.
fn inflate(packed: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let body =
        packed.strip_prefix(&DEFLATED).and_then(|rest| rest.get(4..)).ok_or(DecodeError::NotDeflatedV2)?;
    let mut plain = Vec::new();
    let read = flate2::read::ZlibDecoder::new(body).take(MOST + 1).read_to_end(&mut plain);
    match read {
        Ok(_) if plain.len() as u64 <= MOST => Ok(plain),
        Ok(_) => Err(DecodeError::Broken("more counts than its range has room for".to_owned())),
        Err(_) => Err(DecodeError::NotDeflatedV2),
    }
}

/// Checks the header before the format's reader allocates the amount that the header states.
fn check(plain: &[u8]) -> Result<(), DecodeError> {
    let word = |at: usize| plain.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_be_bytes);
    let long = |at: usize| plain.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_be_bytes);
    let (true, Some(length), Some(digits), Some(low), Some(high), Some(counts)) =
        (plain.starts_with(&PLAIN), word(4), word(12), long(16), long(24), plain.get(HEADER..))
    else {
        return Err(DecodeError::NotDeflatedV2);
    };
    if (low, high, digits) != (1, LONGEST_NANOS, u32::from(DIGITS)) {
        return Err(DecodeError::OtherShape { low, high, digits });
    }
    if length as usize != counts.len() {
        return Err(DecodeError::Broken(format!("{length} bytes announced, {} found", counts.len())));
    }
    // Counts are varints of 7 bits per byte, sign included. Seven bytes reach 2^48, 89 years of 100,000
    // requests/s; the format's reader overflows on the largest value of nine bytes.
    if counts.windows(7).any(|bytes| bytes.iter().all(|byte| byte & 0x80 != 0)) {
        return Err(DecodeError::Broken("a count beyond 2^48".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::new();
        values.into_iter().for_each(|value| histogram.record(value));
        histogram
    }

    fn within_digits(got: u64, expected: u64) {
        assert!(got.abs_diff(expected) as f64 <= expected as f64 * 1e-3, "{got}, expected {expected}");
    }

    #[test]
    fn three_digits_from_a_microsecond_to_an_hour() {
        for nanos in [1_000, 1_234, 50_100, 999_000, 1_234_567, 98_765_432_100, LONGEST_NANOS] {
            let one = of([nanos]);
            for got in [one.percentile(50.0), one.max(), one.min()] {
                within_digits(got, nanos);
            }
        }
    }

    #[test]
    fn percentiles_mean_and_deviation() {
        let histogram = of((1..=1000).map(|i| i * 1_000));
        within_digits(histogram.percentile(50.0), 500_000);
        within_digits(histogram.percentile(99.0), 990_000);
        within_digits(histogram.percentile(100.0), 1_000_000);
        assert!((histogram.mean_us() - 500.5).abs() < 0.5, "{}", histogram.mean_us());
        // Of 1..=1000: sqrt((1000^2 - 1) / 12).
        assert!((histogram.stdev_us() - 288.675).abs() < 0.5, "{}", histogram.stdev_us());
        let list = histogram.percentiles();
        assert_eq!(list.len(), PERCENTILES.len());
        assert!(list.windows(2).all(|pair| pair[0].1 <= pair[1].1));
    }

    #[test]
    fn merging_is_recording_all_in_one() {
        // Averaged percentiles would give 5.5 ms here; the correct value is 10 ms.
        let fast = of(std::iter::repeat_n(1_000_000, 90));
        let slow = of(std::iter::repeat_n(10_000_000, 90));
        let mut merged = fast.clone();
        merged.merge(&slow);
        within_digits(merged.percentile(99.0), 10_000_000);
        assert_eq!(merged.count(), 180);
        let together = of(std::iter::repeat_n(1_000_000, 90).chain(std::iter::repeat_n(10_000_000, 90)));
        assert_eq!(merged, together);
    }

    #[test]
    fn beyond_an_hour_is_an_hour_and_nothing_is_zero() {
        within_digits(of([u64::MAX]).max(), LONGEST_NANOS);
        assert_eq!(of([0]).max(), 0);
        let empty = Histogram::new();
        assert_eq!(
            (empty.percentile(99.0), empty.min(), empty.max(), empty.mean_us(), empty.stdev_us()),
            (0, 0, 0, 0.0, 0.0)
        );
        assert!(empty.is_empty() && empty.curve(5).is_empty());
    }

    #[test]
    fn a_stall_is_corrected_by_what_was_not_sent() {
        // One request took 100 ms while one was due every 10 ms: 90, 80 ... 10 ms are missing.
        let corrected = of([100_000_000]).corrected(10_000_000);
        assert_eq!(corrected.count(), 10);
        within_digits(corrected.percentile(50.0), 50_000_000);
        assert_eq!(of([100_000_000]).corrected(0).count(), 1);
    }

    #[test]
    fn the_curve_ends_at_the_longest() {
        let histogram = of((1..=1000).map(|i| i * 1_000));
        let curve = histogram.curve(5);
        assert!(curve.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1));
        let (percent, nanos) = curve[curve.len() - 1];
        assert_eq!(percent, 100.0);
        within_digits(nanos, 1_000_000);
    }

    #[test]
    fn other_shapes_and_other_texts_are_refused_with_the_reason() {
        let other = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 1_000_000, 2).unwrap();
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&other, &mut bytes).unwrap();
        let refused = Histogram::decode(&STANDARD.encode(&bytes)).unwrap_err();
        assert_eq!(refused, DecodeError::OtherShape { low: 1, high: 1_000_000, digits: 2 });
        assert!(refused.to_string().contains("found 1 to 1000000 with 2"), "{refused}");
        assert_eq!(Histogram::decode("no base64!"), Err(DecodeError::NotBase64));
        assert_eq!(Histogram::decode(""), Err(DecodeError::NotDeflatedV2));
        assert_eq!(Histogram::decode("HISTFA=="), Err(DecodeError::NotDeflatedV2));
    }

    /// Encodes these bytes after a valid header.
    fn forged(counts: &[u8], announced: u32) -> String {
        let mut plain = PLAIN.to_vec();
        plain.extend(announced.to_be_bytes());
        plain.extend(0u32.to_be_bytes());
        plain.extend(u32::from(DIGITS).to_be_bytes());
        plain.extend(1u64.to_be_bytes());
        plain.extend(LONGEST_NANOS.to_be_bytes());
        plain.extend(1f64.to_be_bytes());
        plain.extend(counts);
        let mut packed = Vec::new();
        flate2::read::ZlibEncoder::new(plain.as_slice(), flate2::Compression::fast())
            .read_to_end(&mut packed)
            .unwrap();
        let mut bytes = DEFLATED.to_vec();
        bytes.extend((packed.len() as u32).to_be_bytes());
        bytes.extend(packed);
        STANDARD.encode(bytes)
    }

    #[test]
    fn forged_counts_are_refused_without_a_panic() {
        let broken = |text: &str| matches!(Histogram::decode(text), Err(DecodeError::Broken(_)));
        assert!(broken(&forged(&[0xff; 9], 9)), "the smallest 64-bit number");
        assert!(broken(&forged(&[2], u32::MAX)), "4 GB announced");
        assert!(broken(&forged(&vec![0; 1_000_000], 1_000_000)), "more than fits");
        assert!(broken(&forged(&vec![2; 100_000], 100_000)), "more counts than the range has");
        assert_eq!(
            Histogram::decode(&forged(&[0, 2], 2)).unwrap().count(),
            1,
            "the forger's valid form is read"
        );
    }

    proptest! {
        #[test]
        fn decode_reads_what_encode_wrote(values in prop::collection::vec(0u64..LONGEST_NANOS, 0..300)) {
            let histogram = of(values);
            let back = Histogram::decode(&histogram.encode()).unwrap();
            prop_assert_eq!(&back, &histogram);
            prop_assert_eq!(back.percentiles(), histogram.percentiles());
        }

        #[test]
        fn no_counts_panic(counts in prop::collection::vec(any::<u8>(), 0..400)) {
            let text = forged(&counts, counts.len() as u32);
            if let Ok(histogram) = Histogram::decode(&text) {
                let mut merged = Histogram::new();
                merged.merge(&histogram);
                prop_assert!(merged.max() <= LONGEST_NANOS);
                prop_assert!(histogram.stdev_us().is_finite());
            }
        }

        #[test]
        fn no_text_panics(text in "\\PC*", flip in 0usize..64, to in any::<u8>()) {
            prop_assert!(Histogram::decode(&text).is_err());
            let mut bytes = STANDARD.decode(of([1_000, 5_000_000]).encode()).unwrap();
            let place = flip % bytes.len();
            bytes[place] = to;
            if let Ok(histogram) = Histogram::decode(&STANDARD.encode(&bytes)) {
                prop_assert!(histogram.max() <= LONGEST_NANOS);
            }
        }
    }
}
