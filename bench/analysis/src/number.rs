//! Formats figures for this crate's tables and notes.

use tollgate_lab_stats::bootstrap::Interval;

/// The text in place of a figure.
pub(crate) const NONE: &str = "-";

/// Formats with this number of decimals, and commas between thousands: `1,240.5`.
pub(crate) fn fixed(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let text = format!("{:.decimals$}", value.abs());
    let (whole, part) =
        text.split_once('.').map_or((text.as_str(), None), |(whole, part)| (whole, Some(part)));
    let mut out = String::new();
    // The sign of "-0.0" is meaningless.
    if value < 0.0 && text.bytes().any(|byte| matches!(byte, b'1'..=b'9')) {
        out.push('-');
    }
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(part) = part {
        out.push('.');
        out.push_str(part);
    }
    out
}

/// Returns the decimals that give three significant digits; none from 100 on.
pub(crate) fn decimals(value: f64) -> usize {
    match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    }
}

/// Formats a figure as in settings: `0.25`, `1`, `5,000`.
pub(crate) fn plain(value: f64) -> String {
    if value.fract() == 0.0 { fixed(value, 0) } else { value.to_string() }
}

/// Formats the estimate, and in parentheses the ends of its interval if there are enough rounds for one:
/// `9.71 (9.60 to 9.80)`.
pub(crate) fn interval(interval: &Interval, decimals: usize) -> String {
    let estimate = fixed(interval.estimate, decimals);
    if interval.level <= 0.0 {
        return estimate;
    }
    format!("{estimate} ({} to {})", fixed(interval.low, decimals), fixed(interval.high, decimals))
}

/// Returns a sentence about the level of a table's intervals. Fewer than 6 rounds cannot reach 95 %: see
/// [`tollgate_lab_stats::bootstrap`].
pub(crate) fn promise(intervals: &[Interval]) -> Option<String> {
    let mut levels: Vec<f64> = intervals.iter().map(|interval| interval.level).collect();
    levels.sort_by(f64::total_cmp);
    let (low, high) = (*levels.first()?, *levels.last()?);
    let percent = |level: f64| format!("{} %", plain((level * 1000.0).round() / 10.0));
    Some(if high <= 0.0 {
        "Each figure is of one round, so that there is no interval.".to_owned()
    } else if low == high {
        format!("Intervals in brackets are {} confidence intervals.", percent(high))
    } else if low <= 0.0 {
        format!(
            "Intervals in brackets are confidence intervals of up to {}, less where there were few rounds; a figure without \
             brackets is of one round.",
            percent(high)
        )
    } else {
        format!(
            "Intervals in brackets are confidence intervals of {} to {}, by the number of rounds.",
            percent(low),
            percent(high)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(estimate: f64, low: f64, high: f64, level: f64) -> Interval {
        Interval { estimate, low, high, level, resamples: 1 }
    }

    #[test]
    fn figures() {
        for (value, places, text) in [
            (1_234_567.0, 0, "1,234,567"),
            (283.333, 1, "283.3"),
            (1_000.04, 1, "1,000.0"),
            (999.96, 1, "1,000.0"),
            (-0.04, 1, "0.0"),
            (-1_234.5, 1, "-1,234.5"),
            (f64::NAN, 0, "-"),
        ] {
            assert_eq!(fixed(value, places), text, "{value}");
        }
        assert_eq!((plain(0.25), plain(5_000.0)), ("0.25".to_owned(), "5,000".to_owned()));
        assert_eq!([0.0, 9.0, 9.999, 99.9, 99.96].map(decimals), [2, 2, 1, 1, 0]);
    }

    #[test]
    fn intervals_and_what_they_promise() {
        assert_eq!(interval(&made(9.71, 9.6, 9.8, 0.95), 2), "9.71 (9.60 to 9.80)");
        assert_eq!(interval(&made(9.71, 9.71, 9.71, 0.0), 1), "9.7");
        let (one, four, many) =
            (made(1.0, 1.0, 1.0, 0.0), made(1.0, 1.0, 1.0, 0.875), made(1.0, 1.0, 1.0, 0.95));
        assert_eq!(promise(&[]), None);
        assert!(promise(&[one]).unwrap().contains("one round"));
        assert!(promise(&[four, many]).unwrap().contains("87.5 % to 95 %"));
        assert!(promise(&[many, many]).unwrap().ends_with("are 95 % confidence intervals."));
        assert!(promise(&[many, one]).unwrap().contains("up to 95 %"));
    }
}
