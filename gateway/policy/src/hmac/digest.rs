//! Compares a body with its signed `Content-Digest` (RFC 9530).

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{Algorithm, SHA256, SHA512, digest};

use super::structured::{BareItem, DictionaryMember, dictionary};

/// Compares a body with these digests. All digests with a known algorithm must match, and there must be at
/// least one.
///
/// # Errors
/// The cause of the mismatch.
pub(super) fn matches(field: &[u8], body: &[u8]) -> Result<(), &'static str> {
    let known: [(&str, &Algorithm); 2] = [("sha-256", &SHA256), ("sha-512", &SHA512)];
    let digests = dictionary(field).ok_or("`Content-Digest` cannot be read")?;
    let mut any = false;
    for (name, value) in &digests {
        let Some((_, algorithm)) = known.iter().find(|(own, _)| own == name) else { continue };
        let DictionaryMember::Item(BareItem::Bytes(value)) = value else {
            return Err("`Content-Digest` cannot be read");
        };
        verify_slices_are_equal(digest(algorithm, body).as_ref(), value)
            .map_err(|_| "the body is not the one of `Content-Digest`")?;
        any = true;
    }
    if any { Ok(()) } else { Err("`Content-Digest` has neither `sha-256` nor `sha-512`") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_of_a_body() {
        // RFC 9530, appendix D.
        let (good, body) =
            (&b"sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:"[..], b"{\"hello\": \"world\"}");
        assert_eq!(matches(good, body), Ok(()));
        assert!(matches(good, b"{\"hello\": \"World\"}").is_err());
        assert!(matches(b"md5=:AQ==:", body).is_err() && matches(b"", body).is_err());
        assert!(
            matches(&[good, b", sha-512=:AQ==:"].concat(), body).is_err(),
            "each that is known must match"
        );
        assert!(matches(b"sha-256=x", body).is_err());
        assert_eq!(matches(&[good, b", md5=:AQ==:"].concat(), body), Ok(()));
    }
}
