//! Slices: parts of a long response that are fetched and stored one by one (RFC 9111, 3.3 and 3.4).
//!
//! A slice is a 206 for an aligned range, stored under a key of its own with its `Content-Range`. The *manifest* is the
//! head of the whole response, with the whole's length as its body. It alone decides whether the response is fresh; it
//! is validated as any stored response is. Invariant: a slice is used only with a manifest that has the same length and
//! the same strong validator, so slices of two versions never become one response.

use std::ops::Range;

use tollgate_http::h1::BodyLength;
use tollgate_http::{RequestHead, ResponseHead};

use super::admit::{Admission, NotStored, admit_as};
use super::age::Received;
use super::request_control::RequestControl;
use crate::stored_head::Lines;
use crate::{Stored, StoredHead};

/// The most bytes of a manifest's body: a decimal number of 64 bits.
const LENGTH_DIGITS_MAX: u64 = 20;

/// The bytes of a partial response: `Content-Range: bytes 0-99/1000`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartRange {
    /// The bytes; not empty.
    pub range: Range<u64>,
    /// The length of the whole.
    pub length: u64,
}

impl PartRange {
    /// Parses the value of `Content-Range` (RFC 9110, 14.4). `None`: it is malformed, has another unit, or does not say
    /// the length of the whole.
    fn parse(value: &[u8]) -> Option<Self> {
        let (unit, rest) = value.split_at_checked(b"bytes ".len())?;
        let rest = unit.eq_ignore_ascii_case(b"bytes ").then_some(rest)?;
        let dash = rest.iter().position(|byte| *byte == b'-')?;
        let slash = rest.iter().position(|byte| *byte == b'/')?;
        let (first, last) = (number(&rest[..dash])?, number(rest.get(dash + 1..slash)?)?);
        let length = number(&rest[slash + 1..])?;
        (first <= last && last < length).then(|| Self { range: first..last + 1, length })
    }
}

/// Parses digits, without a sign.
fn number(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(digits).ok()?.parse().ok()).flatten()
}

/// Decides whether a response to a request for a slice may be stored. Returns its head and its range. `wanted` is the
/// requested range; the last slice may end earlier. The lifetime is computed as for the whole response.
///
/// # Errors
/// Why it is not stored.
pub fn admit_slice(
    request: &RequestHead,
    control: &RequestControl,
    response: &ResponseHead,
    admission: &Admission,
    times: Received,
    wanted: &Range<u64>,
) -> Result<(StoredHead, PartRange), NotStored> {
    let part = response.head.get_by_text(b"content-range").and_then(PartRange::parse);
    let part =
        part.filter(|part| response.status == 206 && is_wanted(part, wanted)).ok_or(NotStored::Status)?;
    let length = part.range.end - part.range.start;
    if matches!(response.length, BodyLength::Exactly(declared) if declared != length) {
        return Err(NotStored::Status);
    }
    let head = admit_as(request, control, response, admission, times)?;
    if head.strong_validator().is_none() {
        return Err(NotStored::Validator);
    }
    Ok((head, part))
}

fn is_wanted(part: &PartRange, wanted: &Range<u64>) -> bool {
    part.range.start == wanted.start && part.range.end == wanted.end.min(part.length)
}

/// A validator that tells two versions of a response apart, byte for byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StrongValidator<'a> {
    /// A strong entity tag.
    Tag(&'a [u8]),
    /// `Last-Modified`, if the response is a second younger at least (RFC 9110, 8.8.2.2).
    Modified(u64),
}

impl StoredHead {
    /// Returns the strong validator, if it has one.
    pub(crate) fn strong_validator(&self) -> Option<StrongValidator<'_>> {
        match (self.etag(), self.modified(), self.date()) {
            (Some(tag), ..) => (!tag.starts_with(b"W/")).then_some(StrongValidator::Tag(tag)),
            (None, Some(modified), Some(date)) if date > modified => {
                Some(StrongValidator::Modified(modified))
            }
            _ => None,
        }
    }

    /// Returns the range of a stored part.
    fn part_range(&self) -> Option<PartRange> {
        (self.status() == 206).then(|| self.get(b"content-range").and_then(PartRange::parse)).flatten()
    }

    /// Returns whether the slice with this head belongs to the manifest with the head `whole`, and holds these bytes.
    #[must_use]
    pub fn is_slice_of(&self, whole: &Self, length: u64, range: &Range<u64>) -> bool {
        let holds = |part: PartRange| part.length == length && part.range == *range;
        self.part_range().is_some_and(holds) && self.has_same_content(whole)
    }

    /// Returns whether two responses with these heads have the same content, byte for byte: the same strong validator.
    #[must_use]
    pub fn has_same_content(&self, other: &Self) -> bool {
        self.strong_validator().is_some() && self.strong_validator() == other.strong_validator()
    }

    /// Returns the head of the whole response that a part belongs to.
    #[must_use]
    pub fn of_whole(&self) -> Self {
        let mut lines = Lines::with_capacity(self.lines().len());
        for (name, value) in self.fields().filter(|(name, _)| !name.eq_ignore_ascii_case(b"content-range")) {
            lines.push(name, value);
        }
        let vary = self.vary().cloned().unwrap_or_default();
        Self::new(200, lines.into_bytes(), *self.freshness(), vary, self.tag_text().to_vec())
    }
}

impl Stored {
    /// Returns the length of the whole response, if this is its manifest.
    #[must_use]
    pub fn manifest_length(&self) -> Option<u64> {
        (self.length() <= LENGTH_DIGITS_MAX).then(|| number(self.piece(0))).flatten()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Moment;
    use crate::test_messages::{request, response};

    const DATE: &str = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    const NOW: u64 = 784_111_777;

    fn admit(status: u16, fields: &str) -> Result<StoredHead, NotStored> {
        let asked = request("GET", "/", "Range: bytes=100-199\r\n");
        let now = Moment::from_seconds(NOW);
        let times = Received { requested: now, received: now };
        let received = response(status, &format!("{DATE}{fields}"));
        let control = RequestControl::default();
        let admitted = admit_slice(&asked, &control, &received, &Admission::default(), times, &(100..200));
        admitted.map(|(head, _)| head)
    }

    #[test]
    fn content_ranges_of_rfc_9110_14_4() {
        let part = |range: Range<u64>, length| Some(PartRange { range, length });
        for (text, expected) in [
            ("bytes 0-0/1", part(0..1, 1)),
            ("Bytes 42-1233/1234", part(42..1234, 1234)),
            ("bytes 0-18446744073709551613/18446744073709551615", part(0..u64::MAX - 1, u64::MAX)),
            ("bytes 42-1233/*", None),
            ("bytes */1234", None),
            ("bytes 5-4/10", None),
            ("bytes 0-10/10", None),
            ("bytes 0-9/", None),
            ("bytes 0-9", None),
            ("bytes 0/9-10", None),
            ("bytes +0-9/10", None),
            ("bytes 0-9/99999999999999999999", None),
            ("bytes=0-9/10", None),
            ("items 0-9/10", None),
            ("", None),
        ] {
            assert_eq!(PartRange::parse(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn parts_that_are_stored_as_slices() {
        use NotStored::{NoLifetime, NoStore, Private, Status, Validator};
        const FRESH: &str = "Cache-Control: max-age=60\r\n";
        const TAG: &str = "ETag: \"a\"\r\n";
        const WHOLE: &str = "Content-Range: bytes 100-199/1000\r\n";
        for (status, fields, expected) in [
            (206, [FRESH, TAG, WHOLE].concat(), None),
            (206, [FRESH, TAG, "Content-Range: bytes 100-149/150\r\n"].concat(), None),
            (206, [FRESH, TAG, WHOLE, "Content-Length: 100\r\n"].concat(), None),
            (206, [FRESH, TAG, WHOLE, "Content-Length: 99\r\n"].concat(), Some(Status)),
            (206, [FRESH, TAG, "Content-Range: bytes 100-149/1000\r\n"].concat(), Some(Status)),
            (206, [FRESH, TAG, "Content-Range: bytes 101-199/1000\r\n"].concat(), Some(Status)),
            (206, [FRESH, TAG, "Content-Range: bytes 100-199/*\r\n"].concat(), Some(Status)),
            (206, [FRESH, TAG, "Content-Type: multipart/byteranges\r\n"].concat(), Some(Status)),
            (200, [FRESH, TAG, WHOLE].concat(), Some(Status)),
            (416, [FRESH, TAG, "Content-Range: bytes */50\r\n"].concat(), Some(Status)),
            (206, [FRESH, WHOLE].concat(), Some(Validator)),
            (206, [FRESH, WHOLE, "ETag: W/\"a\"\r\n"].concat(), Some(Validator)),
            (206, [FRESH, WHOLE, "Last-Modified: Sun, 06 Nov 1994 08:49:36 GMT\r\n"].concat(), None),
            (
                206,
                [FRESH, WHOLE, "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n"].concat(),
                Some(Validator),
            ),
            // A guess, as for the whole.
            (206, [WHOLE, "Last-Modified: Sun, 06 Nov 1994 07:49:36 GMT\r\n"].concat(), None),
            (206, ["Cache-Control: no-store, max-age=60\r\n", TAG, WHOLE].concat(), Some(NoStore)),
            (206, ["Cache-Control: private, max-age=60\r\n", TAG, WHOLE].concat(), Some(Private)),
            (206, ["Cache-Control: max-age=0\r\n", WHOLE].concat(), Some(NoLifetime)),
        ] {
            assert_eq!(admit(status, &fields).err(), expected, "{status} {fields}");
        }
    }

    #[test]
    fn a_slice_belongs_to_one_version() {
        let head =
            |fields: &str| admit(206, &format!("Cache-Control: max-age=60\r\n{fields}")).expect("stored");
        let slice = head("ETag: \"a\"\r\nContent-Range: bytes 100-199/1000\r\nContent-Type: text/plain\r\n");
        let whole = slice.of_whole();
        assert_eq!((whole.status(), whole.get(b"content-range"), whole.etag()), (200, None, slice.etag()));
        assert_eq!(whole.get(b"content-type"), Some(&b"text/plain"[..]));
        assert_eq!(whole.freshness(), slice.freshness());
        assert!(slice.is_slice_of(&whole, 1000, &(100..200)));
        assert!(!slice.is_slice_of(&whole, 1001, &(100..200)) && !slice.is_slice_of(&whole, 1000, &(0..100)));
        let other = head("ETag: \"b\"\r\nContent-Range: bytes 100-199/1000\r\n");
        assert!(!other.is_slice_of(&whole, 1000, &(100..200)));
        assert!(!whole.is_slice_of(&whole, 1000, &(100..200)), "a manifest is no slice");
    }

    proptest! {
        #[test]
        fn a_range_lies_in_the_whole(text in "bytes [0-9]{0,3}-?[0-9]{0,3}/?[0-9*]{0,3}") {
            if let Some(part) = PartRange::parse(text.as_bytes()) {
                prop_assert!(part.range.start < part.range.end && part.range.end <= part.length);
            }
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = PartRange::parse(&bytes);
        }
    }
}
