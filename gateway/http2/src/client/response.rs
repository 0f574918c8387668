//! Checks that decoded fields form a response (RFC 9113, 8.3.2).

use crate::shared::fields::{FieldIter, FieldSection};

/// The reason why fields form no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MalformedResponse {
    /// The head exceeds the limit, so fields were dropped.
    Cut,
    /// `:status` is missing, repeated or no status, or another pseudo-header field is there.
    Pseudo,
}

impl FieldSection {
    /// Returns the response's status and the other fields in order. The other fields are not checked here;
    /// a pseudo-header field among them is no valid field.
    ///
    /// # Errors
    /// [`MalformedResponse`], if fields were dropped or the pseudo-header fields form no response.
    pub fn response(&self) -> Result<(u16, FieldIter<'_>), MalformedResponse> {
        if self.is_cut() {
            return Err(MalformedResponse::Cut);
        }
        let mut others = self.iter();
        match others.next() {
            Some((b":status", [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'])) => {
                let digits = [a, b, c].map(|digit| u16::from(digit - b'0'));
                Ok((digits[0] * 100 + digits[1] * 10 + digits[2], others))
            }
            _ => Err(MalformedResponse::Pseudo),
        }
    }

    /// Whether the head has a status of success.
    pub(crate) fn is_success(&self) -> bool {
        matches!(self.iter().next(), Some((b":status", [b'2', _, _])))
    }

    /// Whether the head belongs to an interim response.
    pub(crate) fn is_interim(&self) -> bool {
        // A section that was cut still has its first field.
        matches!(self.iter().next(), Some((b":status", [b'1', _, _])))
    }
}
