//! A message head: one owned buffer and a table of ranges into it.
//!
//! The parsers fill a [`Head`]; the proxy and the policies query it, and copy its lines when they forward the
//! message. A buffer with ranges keeps the fields exactly as written, in order, and makes reuse free of
//! allocations. Invariant: every [`Range`] lies within the buffer, and the sets of known names match the
//! table of fields.

use crate::body_length::without_leading_zeros;
use crate::{Name, NameSet};

/// A range of a head's buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset past the last byte.
    pub end: u32,
}

impl Range {
    /// Never truncates: heads are limited to 32-bit offsets, see [`HeadLimits`](crate::HeadLimits).
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    /// Whether the range is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Returns the range of `bytes`, which must be the buffer that it was made for.
    #[must_use]
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..self.end as usize]
    }
}

/// One field line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name, if the gateway knows it; otherwise [`Name::Other`] or another variant that stands for
    /// several.
    pub id: Name,
    /// Whether `Connection` nominates the field, so that it must not be forwarded (RFC 9110, 7.6.1). Only
    /// fields that the gateway does not know can be nominated; a peer must not remove the others.
    pub nominated: bool,
    /// The name as written, with which the line begins.
    pub name: Range,
    /// The value, without the white space around it.
    pub value: Range,
    /// Offset past the line's CRLF.
    pub line_end: u32,
}

/// A message head as received: start line, fields, and the empty line that ends it. Until it is complete, and
/// after an error, it holds the complete lines so far. In a response, the parser repairs what an endpoint has
/// written loosely.
#[derive(Clone, Debug, Default)]
pub struct Head {
    pub(crate) bytes: Vec<u8>,
    pub(crate) fields: Vec<Field>,
    /// Offset past the start line's CRLF.
    pub(crate) fields_start: u32,
    /// Bit sets of the names that occur, and that occur more than once. Most look-ups are for fields that a
    /// head lacks, and these sets answer them without a search.
    known_names: u64,
    repeated_names: u64,
}

impl Head {
    /// The bytes of the head as received.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The field lines, in the order received.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The bytes of a range.
    #[must_use]
    pub fn slice(&self, range: Range) -> &[u8] {
        range.of(&self.bytes)
    }

    /// Whether there is a field with this name. For [`Name::Other`] and other variants that stand for several
    /// names: with any of these.
    #[must_use]
    pub const fn has(&self, name: Name) -> bool {
        self.known_names & name.bit() != 0
    }

    /// Whether there is a field with any of these names.
    #[must_use]
    pub const fn has_any(&self, names: NameSet) -> bool {
        self.known_names & names.0 != 0
    }

    /// Whether there are several field lines with this name. For [`Name::Other`] and
    /// [`Name::AmbiguousSpelling`]: with any such names.
    #[must_use]
    pub const fn is_repeated(&self, name: Name) -> bool {
        self.repeated_names & name.bit() != 0
    }

    /// The value of the first field with a known name.
    #[must_use]
    pub fn get(&self, name: Name) -> Option<&[u8]> {
        self.find(name).map(|value| self.slice(value))
    }

    /// The range of the value of the first field with a known name.
    pub(crate) fn find(&self, name: Name) -> Option<Range> {
        if !self.has(name) {
            return None;
        }
        self.fields.iter().find(|field| field.id == name).map(|field| field.value)
    }

    /// The value of the first field with this name, in any case.
    #[must_use]
    pub fn get_by_text(&self, name: &[u8]) -> Option<&[u8]> {
        match Name::of(name) {
            several if several.is_group() => {
                let named = |field: &&Field| self.slice(field.name).eq_ignore_ascii_case(name);
                self.fields.iter().find(named).map(|field| self.slice(field.value))
            }
            known => self.get(known),
        }
    }

    /// The values of all fields with this name, in any case.
    pub fn all_by_text<'h>(&'h self, name: &'h [u8]) -> impl Iterator<Item = &'h [u8]> {
        let named = move |field: &&Field| self.slice(field.name).eq_ignore_ascii_case(name);
        self.fields.iter().filter(named).map(|field| self.slice(field.value))
    }

    /// Whether there is a field with any of these names, in any case.
    #[must_use]
    pub fn has_any_by_text(&self, names: &[&[u8]]) -> bool {
        self.fields.iter().any(|field| {
            let name = self.slice(field.name);
            names.iter().any(|one| one.eq_ignore_ascii_case(name))
        })
    }

    /// The value of the first cookie with this name (RFC 6265, 5.4: the one with the longest path comes
    /// first).
    #[must_use]
    pub fn cookie(&self, name: &[u8]) -> Option<&[u8]> {
        self.cookies(name).next()
    }

    /// The values of all cookies with this name.
    pub fn cookies<'h>(&'h self, name: &[u8]) -> impl Iterator<Item = &'h [u8]> {
        let pairs = self.all(Name::Cookie).flat_map(|line| line.split(|byte| *byte == b';'));
        pairs.filter_map(move |pair| pair.trim_ascii().strip_prefix(name)?.strip_prefix(b"="))
    }

    /// The index of the first field with this name, in any case.
    pub(crate) fn position(&self, name: &[u8]) -> Option<usize> {
        self.fields.iter().position(|field| self.slice(field.name).eq_ignore_ascii_case(name))
    }

    /// Recomputes the sets of names after a field was removed.
    pub(crate) fn rebuild_index(&mut self) {
        (self.known_names, self.repeated_names) = (0, 0);
        for at in 0..self.fields.len() {
            self.index_name(self.fields[at].id);
        }
    }

    fn index_name(&mut self, id: Name) {
        self.repeated_names |= self.known_names & id.bit();
        self.known_names |= id.bit();
    }

    /// The values of all fields with a known name.
    pub fn all(&self, name: Name) -> impl Iterator<Item = &[u8]> {
        let fields = if self.has(name) { self.fields.as_slice() } else { &[] };
        fields.iter().filter(move |field| field.id == name).map(|field| self.slice(field.value))
    }

    /// The members of a comma-separated list over all fields with a known name, without empty ones (RFC 9110,
    /// 5.6.1). Not for lists with quoted strings.
    pub fn list(&self, name: Name) -> impl Iterator<Item = &[u8]> {
        self.all(name).flat_map(members).filter(|member| !member.is_empty())
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.fields.clear();
        self.fields_start = 0;
        self.known_names = 0;
        self.repeated_names = 0;
    }

    /// Moves the ranges of all fields by `by` bytes, after an insertion before them.
    pub(crate) fn shift_fields(&mut self, by: u32) {
        self.fields_start += by;
        for field in &mut self.fields {
            for at in [
                &mut field.name.start,
                &mut field.name.end,
                &mut field.value.start,
                &mut field.value.end,
                &mut field.line_end,
            ] {
                *at += by;
            }
        }
    }

    /// Rewrites every field line as the name, a colon, a blank and the value. Folds become blanks, and a
    /// `Content-Length` loses its leading zeros.
    pub(crate) fn normalize(&mut self) {
        let mut bytes = self.bytes[..self.fields_start as usize].to_vec();
        for field in &mut self.fields {
            let mut value = field.value.of(&self.bytes).to_vec();
            value.iter_mut().filter(|byte| matches!(byte, b'\r' | b'\n')).for_each(|byte| *byte = b' ');
            let mut value = value.trim_ascii();
            if field.id == Name::ContentLength {
                value = without_leading_zeros(value);
            }
            let start = bytes.len();
            bytes.extend_from_slice(field.name.of(&self.bytes));
            field.name = Range::new(start, bytes.len());
            bytes.extend_from_slice(b": ");
            let start = bytes.len();
            bytes.extend_from_slice(value);
            field.value = Range::new(start, bytes.len());
            bytes.extend_from_slice(b"\r\n");
            field.line_end = bytes.len() as u32;
        }
        bytes.extend_from_slice(b"\r\n");
        self.bytes = bytes;
    }

    pub(crate) fn push(&mut self, field: Field) {
        self.index_name(field.id);
        self.fields.push(field);
    }

    /// Copies the received bytes before `end` that the head does not have yet.
    #[inline]
    pub(crate) fn append_received(&mut self, received: &[u8], end: usize) {
        self.bytes.extend_from_slice(&received[self.bytes.len()..end]);
    }

    /// As [`append_received`](Self::append_received), for an incomplete head that may wait for its remainder:
    /// memory grows in small steps.
    pub(crate) fn append_partial(&mut self, received: &[u8], end: usize) {
        let new = &received[self.bytes.len()..end];
        extend_tightly(&mut self.bytes, new);
    }

    /// Releases memory if an empty head has a capacity of more than `bytes`. The table of fields is checked
    /// only then, because it grows with the bytes.
    #[inline]
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        if self.bytes.capacity() > bytes {
            self.bytes.shrink_to(bytes);
            self.fields.shrink_to(bytes / size_of::<Field>());
        }
    }

    /// All field lines as written, optionally after the start line: what [`copy_lines`](Self::copy_lines)
    /// copies if it keeps every line.
    #[must_use]
    pub fn lines(&self, start_line: bool) -> &[u8] {
        let start = if start_line { 0 } else { self.fields_start };
        let end = self.fields.last().map_or(self.fields_start, |field| field.line_end);
        Range { start, end }.of(&self.bytes)
    }

    /// Appends the field lines for which `keep` returns true, as written.
    pub fn copy_fields(&self, out: &mut Vec<u8>, keep: impl FnMut(&Field) -> bool) {
        self.copy_lines(out, false, keep);
    }

    /// The same, optionally after the start line. Adjacent lines are copied together.
    pub fn copy_lines(&self, out: &mut Vec<u8>, start_line: bool, mut keep: impl FnMut(&Field) -> bool) {
        let mut start = if start_line { 0 } else { self.fields_start as usize };
        for field in &self.fields {
            if !keep(field) {
                out.extend_from_slice(&self.bytes[start..field.name.start as usize]);
                start = field.line_end as usize;
            }
        }
        let end = self.fields.last().map_or(self.fields_start, |field| field.line_end) as usize;
        out.extend_from_slice(&self.bytes[start..end]);
    }
}

/// Appends bytes to a buffer that may wait for more. A vector doubles its capacity when it grows. This
/// function grows it in steps of 2 KiB, so that a slow peer makes the gateway keep about as much as the peer
/// has sent.
pub fn extend_tightly(buffer: &mut Vec<u8>, bytes: &[u8]) {
    const STEP: usize = 2048;
    let needed = buffer.len() + bytes.len();
    if needed > buffer.capacity() {
        buffer.reserve_exact(needed.next_multiple_of(STEP) - buffer.len());
    }
    buffer.extend_from_slice(bytes);
}

/// The members of one comma-separated list, empty ones included.
pub(crate) fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}
