//! Parses the text that tools print for people.

/// Returns the rest of the first line that starts with a label, without surrounding blanks.
pub(crate) fn after<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.trim_start().strip_prefix(label)).map(str::trim)
}

/// Returns the number at the start of a text, whatever follows it.
pub(crate) fn number(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '-' | '+')).unwrap_or(text.len());
    text[..end].parse().ok().filter(|number: &f64| number.is_finite())
}

/// Returns the whole number at the start of a text.
pub(crate) fn count(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// Returns the whole number before a word: `count_before("3 total, 2 done", "done")` is 2.
pub(crate) fn count_before(text: &str, word: &str) -> Option<u64> {
    let mut words = text.split([' ', ',', '\n']).filter(|word| !word.is_empty());
    let mut last = words.next()?;
    for this in words {
        if this == word {
            return last.parse().ok();
        }
        last = this;
    }
    None
}

/// Parses a time with its unit (`35.00us`, `2.13ms`, `1.29s`, `2m`, `1h`). Returns microseconds.
pub(crate) fn time_us(text: &str) -> Option<f64> {
    let text = text.trim();
    let unit = text.find(|c: char| c.is_ascii_alphabetic()).map(|at| &text[at..])?;
    let factor = match unit {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" => 60e6,
        "h" => 3600e6,
        _ => return None,
    };
    text[..text.len() - unit.len()]
        .parse::<f64>()
        .ok()
        .filter(|time| time.is_finite())
        .map(|time| time * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_numbers_and_counts() {
        let text = "Head\n  Total:\t0.05 secs\nrequests: 100 total, 10 started, 3 done\n";
        assert_eq!(after(text, "Total:"), Some("0.05 secs"));
        assert_eq!(number("0.05 secs"), Some(0.05));
        assert_eq!(number("NaN secs"), None);
        assert_eq!(count_before(text, "started"), Some(10));
        assert_eq!(count_before(text, "missing"), None);
        assert_eq!(count("12 of"), Some(12));
        assert_eq!(count("-1"), None);
    }

    #[test]
    fn units_of_time() {
        for (text, us) in
            [("35.00us", 35.0), ("2.5ms", 2500.0), ("1.29s", 1.29e6), ("2m", 120e6), ("1h", 3600e6)]
        {
            assert_eq!(time_us(text), Some(us), "{text}");
        }
        for odd in ["", "1", "ms", "1.5 parsecs", "-nan%"] {
            assert_eq!(time_us(odd), None, "{odd}");
        }
    }
}
