//! The head of a stored response.
//!
//! [`admit`](crate::admit) makes it from a response, and [`StoredHead::updated_by`] from it and a 304. It keeps the
//! field lines as text, ready to be sent, and next to them what the rules need, so that a hit parses no field.

use std::ops::Range;

use memchr::memchr;
use tollgate_http::{Head, Name, is_entity_tag, parse_date};

use crate::Moment;
use crate::rules::freshness::Freshness;
use crate::rules::vary::Vary;

/// Seconds that stand for a date that a response lacks.
const NO_DATE: u64 = u64::MAX;

/// The head of a stored response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredHead {
    pub(crate) lines: Box<[u8]>,
    /// The range of the value of `ETag` in the lines; empty if there is none.
    etag: (u32, u32),
    modified: u64,
    date: u64,
    pub(crate) freshness: Freshness,
    pub(crate) vary: Option<Box<Vary>>,
    /// Separated by single blanks. Boxed twice, because most responses have none.
    pub(crate) tags: Option<Box<Box<[u8]>>>,
    status: u16,
}

/// What a head keeps of its first `ETag`, `Last-Modified` and `Date`.
struct Validators {
    etag: (u32, u32),
    modified: u64,
    date: u64,
}

impl Validators {
    /// Reads them in one pass over the lines.
    fn read(lines: &[u8]) -> Self {
        let (mut etag, mut modified, mut date) = (None, None, None);
        for (name, value) in ranges_of(lines) {
            let (name, text) = (&lines[name], &lines[value.clone()]);
            match name.len() {
                4 if name.eq_ignore_ascii_case(b"etag") => {
                    let tag = || if is_entity_tag(text) { value } else { 0..0 };
                    etag.get_or_insert_with(tag);
                }
                4 if name.eq_ignore_ascii_case(b"date") => {
                    date.get_or_insert_with(|| parse_date(text));
                }
                13 if name.eq_ignore_ascii_case(b"last-modified") => {
                    modified.get_or_insert_with(|| parse_date(text));
                }
                _ => {}
            }
        }
        let seconds = |date: Option<Option<u64>>| date.flatten().unwrap_or(NO_DATE);
        let etag = etag.map_or((0, 0), |value: Range<usize>| (value.start as u32, value.end as u32));
        Self { etag, modified: seconds(modified), date: seconds(date) }
    }
}

impl StoredHead {
    /// Creates a head. `tags` are separated by single blanks.
    pub(crate) fn new(status: u16, lines: Vec<u8>, freshness: Freshness, vary: Vary, tags: Vec<u8>) -> Self {
        let Validators { etag, modified, date } = Validators::read(&lines);
        let vary = (!vary.is_empty()).then(|| Box::new(vary));
        let tags = (!tags.is_empty()).then(|| Box::new(tags.into_boxed_slice()));
        Self { lines: lines.into_boxed_slice(), etag, modified, date, freshness, vary, tags, status }
    }

    /// The status code.
    #[must_use]
    pub const fn status(&self) -> u16 {
        self.status
    }

    /// The field lines, each with its CRLF. They have a `Date`. They have no fields of a connection, and neither
    /// `Age` nor `Content-Length`, which the worker writes for each response.
    #[must_use]
    pub fn lines(&self) -> &[u8] {
        &self.lines
    }

    /// The fields as names and values, in their order.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        fields_of(&self.lines)
    }

    /// Appends the field lines whose names `keeps` accepts, each with its CRLF.
    pub fn write_lines(&self, out: &mut Vec<u8>, keeps: impl Fn(&[u8]) -> bool) {
        for (name, value) in self.fields().filter(|(name, _)| keeps(name)) {
            push_line(out, name, value);
        }
    }

    /// The value of the first field with this name, in any case.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        field(&self.lines, name).map(|value| &self.lines[value])
    }

    /// The entity tag, with its quotes, and `W/` if it is weak.
    #[must_use]
    pub fn etag(&self) -> Option<&[u8]> {
        let (start, end) = self.etag;
        (start != end).then(|| &self.lines[start as usize..end as usize])
    }

    /// `Last-Modified`, in seconds since 1970.
    #[must_use]
    pub fn modified(&self) -> Option<u64> {
        (self.modified != NO_DATE).then_some(self.modified)
    }

    /// `Date`, in seconds since 1970.
    #[must_use]
    pub fn date(&self) -> Option<u64> {
        (self.date != NO_DATE).then_some(self.date)
    }

    /// How long the response can be used, and on which terms.
    #[must_use]
    pub const fn freshness(&self) -> &Freshness {
        &self.freshness
    }

    /// Its age, in whole seconds: the value of `Age` (RFC 9111, 4.2.3 and 5.1).
    #[must_use]
    pub fn age(&self, now: Moment) -> u64 {
        self.freshness.age_millis(now) / 1000
    }

    /// The fields of the request on which the choice of this response depends.
    #[must_use]
    pub fn vary(&self) -> Option<&Vary> {
        self.vary.as_deref()
    }

    /// Returns whether it may answer a request with this head: the fields that `Vary` names have the values of the
    /// request that it was stored for (RFC 9111, 4.1).
    #[must_use]
    pub fn is_selected_by(&self, request: &Head) -> bool {
        self.vary.as_ref().is_none_or(|vary| vary.matches(request))
    }

    /// Its tags, separated by single blanks.
    pub(crate) fn tag_text(&self) -> &[u8] {
        self.tags.as_ref().map_or(b"", |tags| tags)
    }

    /// The tags by which it can be purged.
    pub fn tags(&self) -> impl Iterator<Item = &[u8]> {
        self.tag_text().split(|byte| *byte == b' ').filter(|tag| !tag.is_empty())
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let vary = self.vary.as_ref().map_or(0, |vary| vary.heap_bytes());
        self.lines.len() + vary + self.tags.as_ref().map_or(0, |tags| 16 + tags.len())
    }
}

/// Field lines that are being put together, each with its CRLF.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    bytes: Vec<u8>,
}

impl Lines {
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes) }
    }

    /// The length of a line, with its CRLF.
    pub fn bytes_of(name: &[u8], value: &[u8]) -> usize {
        name.len() + 2 + value.len() + 2
    }

    /// Appends a line. The caller has them from a parsed head, so neither part ends the line.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        push_line(&mut self.bytes, name, value);
    }

    /// Removes all lines with a name, in any case.
    pub fn remove(&mut self, name: &[u8]) {
        while let Some(line) = find_line(&self.bytes, name) {
            self.bytes.drain(line);
        }
    }

    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        fields_of(&self.bytes)
    }

    /// The values of the lines with a name, in any case.
    pub fn values(&self, name: &[u8]) -> impl Iterator<Item = &[u8]> {
        self.fields().filter(move |(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

fn push_line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

/// The names and values of a block of lines that this crate wrote.
fn fields_of(block: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    ranges_of(block).map(|(name, value)| (&block[name], &block[value]))
}

/// The same as ranges of the block.
fn ranges_of(block: &[u8]) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let line = &block[start..start + memchr(b'\n', block.get(start..)?)?];
        let name_end = memchr(b':', line).unwrap_or(line.len());
        let value = line.get(name_end + 1..).unwrap_or_default();
        let value_start = start + line.len() - value.trim_ascii_start().len();
        let value_end = value_start + value.trim_ascii().len();
        let name = start..start + name_end;
        start += line.len() + 1;
        Some((name, value_start..value_end))
    })
}

/// The range of the first line with this name in a block of lines, with its CRLF. Unlike
/// [`find_field_line`](tollgate_http::find_field_line), it examines the first line, since no start line precedes the
/// block.
fn find_line(block: &[u8], name: &[u8]) -> Option<Range<usize>> {
    let mut start = 0;
    for line in block.split_inclusive(|byte| *byte == b'\n') {
        let is_named = line.get(name.len()) == Some(&b':') && line[..name.len()].eq_ignore_ascii_case(name);
        if is_named {
            return Some(start..start + line.len());
        }
        start += line.len();
    }
    None
}

/// The range of the value of the first field with this name in a block of lines.
fn field(block: &[u8], name: &[u8]) -> Option<Range<usize>> {
    let line = find_line(block, name)?;
    let start = line.start + name.len() + 1;
    let value = &block[start..line.end];
    let start = start + (value.len() - value.trim_ascii_start().len());
    Some(start..start + value.trim_ascii().len())
}

/// Whether a response is stored without this field: it belongs to one connection (RFC 9111, 3.1), or is written for
/// each response that is sent.
pub(crate) fn is_left_out(id: Name, name: &[u8]) -> bool {
    const OTHERS: [&[u8]; 2] = [b"age", b"proxy-authentication-info"];
    id.is_hop_by_hop()
        || matches!(
            id,
            Name::ContentLength | Name::Trailer | Name::ProxyAuthenticate | Name::ProxyAuthorization
        )
        || OTHERS.iter().any(|other| name.eq_ignore_ascii_case(other))
}
