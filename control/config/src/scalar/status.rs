//! Status codes of responses.

use super::ScalarError;

/// Parses `503`, `5xx` or `502-504` into the first and the last code (RFC 9110, section 15: three digits, the
/// first from 1 to 5).
///
/// # Errors
/// If the text is none of these.
pub fn range(text: &str) -> Result<(u16, u16), ScalarError> {
    if let Some((first, last)) = text.split_once('-') {
        let (first, last) = (one(first.trim_end())?, one(last.trim_start())?);
        if first > last {
            return Err(ScalarError::new("{} starts with the larger status"));
        }
        return Ok((first, last));
    }
    if let Some(class) = text.strip_suffix("xx").or_else(|| text.strip_suffix("XX")) {
        let first = one(&format!("{class}00"))?;
        return Ok((first, first + 99));
    }
    let only = one(text)?;
    Ok((only, only))
}

fn one(text: &str) -> Result<u16, ScalarError> {
    let digits = text.len() == 3 && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse::<u16>() {
        Ok(status) if digits && (100..600).contains(&status) => Ok(status),
        _ => Err(ScalarError::new("{} is not a status")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_class_and_range() {
        for (text, range) in
            [("503", (503, 503)), ("5xx", (500, 599)), ("2XX", (200, 299)), ("200-204", (200, 204))]
        {
            assert_eq!(super::range(text), Ok(range), "{text}");
        }
        for text in
            ["", "99", "600", "6xx", "xx", "50", "5x", "204-200", "200-", "-200", "+20", "2000", "20xx"]
        {
            assert!(range(text).is_err(), "{text}");
        }
    }
}
