//! Splits texts that contain `{name}` placeholders; `{{` and `}}` are literal braces.

use super::ScalarError;

/// Splits such a text. Literal text goes to `plain`, after `fits` has checked each of its characters. Each
/// name goes to `named`; a fault from `named` covers the name and its braces. `help` explains braces.
///
/// # Errors
/// Returns the first unpaired brace, or the first fault of `fits` or `named`.
pub(super) fn split<T>(
    text: &str,
    help: &'static str,
    plain: impl Fn(String) -> T,
    fits: impl Fn(char) -> Result<(), ScalarError>,
    named: impl Fn(&str) -> Result<T, ScalarError>,
) -> Result<Vec<T>, ScalarError> {
    let (mut pieces, mut kept) = (Vec::new(), String::new());
    let mut chars = text.char_indices().enumerate().peekable();
    while let Some((at, (start, c))) = chars.next() {
        match c {
            '{' | '}' if chars.peek().is_some_and(|(_, (_, next))| *next == c) => {
                chars.next();
                kept.push(c);
            }
            '{' => {
                let Some((name, _)) = text[start + 1..].split_once('}') else {
                    return Err(ScalarError::new("{} has a `{` that is not closed").part(at, 1).help(help));
                };
                let length = name.chars().count() + 2;
                chars.nth(length - 2);
                let piece = named(name).map_err(|fault| fault.part(at, length))?;
                if !kept.is_empty() {
                    pieces.push(plain(std::mem::take(&mut kept)));
                }
                pieces.push(piece);
            }
            '}' => return Err(ScalarError::new("{} has a `}` that closes nothing").part(at, 1).help(help)),
            c => {
                fits(c).map_err(|fault| fault.part(at, 1))?;
                kept.push(c);
            }
        }
    }
    if !kept.is_empty() {
        pieces.push(plain(kept));
    }
    Ok(pieces)
}
