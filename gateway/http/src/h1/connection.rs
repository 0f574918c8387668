//! Interprets the `Connection` field (RFC 9112, section 9.3; RFC 9110, section 7.6.1). Both parsers call it.
//! The result decides whether the connection persists, whether an upgrade counts, and which fields are not
//! forwarded.

use crate::head::members;
use crate::{Head, HeadError, Name, Version};

/// Most members of `Connection`, empty ones included. Each is compared with every field, so their number must
/// be bounded. No peer in use sends more than a few.
const MEMBERS_MAX: usize = 32;

/// The contents of all `Connection` lines of a head.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ConnectionOptions {
    close: bool,
    keep_alive: bool,
    /// Whether it names `Upgrade`.
    pub upgrade: bool,
    /// Whether it nominates other fields, which then apply to this connection only.
    pub nominates: bool,
}

impl ConnectionOptions {
    /// Reads all `Connection` lines, and marks the fields that they nominate.
    pub(super) fn read(head: &mut Head) -> Result<Self, HeadError> {
        let mut connection = Self::default();
        if !head.has(Name::Connection) {
            return Ok(connection);
        }
        // The usual value, without the loops.
        if !head.is_repeated(Name::Connection)
            && head.get(Name::Connection).is_some_and(|value| value.eq_ignore_ascii_case(b"keep-alive"))
        {
            connection.keep_alive = true;
            return Ok(connection);
        }
        let mut count = 0;
        for line in 0..head.fields.len() {
            if head.fields[line].id != Name::Connection {
                continue;
            }
            for member in members(head.fields[line].value.of(&head.bytes)) {
                count += 1;
                if count > MEMBERS_MAX {
                    return Err(HeadError::TooMany);
                }
                if member.eq_ignore_ascii_case(b"keep-alive") {
                    connection.keep_alive = true;
                } else if member.eq_ignore_ascii_case(b"close") {
                    connection.close = true;
                } else if member.eq_ignore_ascii_case(b"upgrade") {
                    connection.upgrade = true;
                } else if !member.is_empty() && Name::of(member).can_be_nominated() {
                    connection.nominates = true;
                    for field in head.fields.iter_mut().filter(|field| field.id.can_be_nominated()) {
                        field.nominated |= field.name.of(&head.bytes).eq_ignore_ascii_case(member);
                    }
                }
            }
        }
        Ok(connection)
    }

    /// Whether the connection persists after this message.
    pub(super) fn keeps(self, version: Version) -> bool {
        !self.close && (version == Version::Http11 || self.keep_alive)
    }
}
