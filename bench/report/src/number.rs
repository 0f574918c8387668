//! Formats numbers in the same way for every output. A measurement on a shared machine justifies at most
//! three significant digits.

/// Formats with three significant digits and commas between thousands: `9.71`, `13.3`, `102`, `1,240`.
pub fn plain(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let size = value.abs();
    let decimals = if size == 0.0 || size >= 99.95 {
        0
    } else if size >= 9.995 {
        1
    } else {
        2
    };
    let text = thousands(&format!("{value:.decimals$}"));
    // The sign of "-0.00" is meaningless.
    match text.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| matches!(c, '0' | '.')) => rest.to_owned(),
        Some(rest) => format!("−{rest}"),
        None => text,
    }
}

/// Rounds the exact value of a printed number to six significant digits, so that a page with many figures
/// stays small.
pub fn behind(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// Formats a whole number with commas between thousands.
pub fn whole(value: f64) -> String {
    if value.is_finite() { thousands(&format!("{value:.0}")).replace('-', "−") } else { "–".to_owned() }
}

fn thousands(text: &str) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    let (whole, fraction) =
        digits.split_once('.').map_or((digits, None), |(whole, part)| (whole, Some(part)));
    let mut out = String::from(sign);
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(part) = fraction {
        out.push('.');
        out.push_str(part);
    }
    out
}

/// Formats a time in a suitable unit: `812 µs`, `1.24 ms`, `1.93 s`.
pub fn time(us: f64) -> String {
    if us.abs() < 999.5 {
        format!("{} µs", plain(us))
    } else if us.abs() < 999_500.0 {
        format!("{} ms", plain(us / 1e3))
    } else {
        format!("{} s", plain(us / 1e6))
    }
}

/// Formats an amount of memory: `812 KiB`, `12.4 MiB`, `1.20 GiB`.
pub fn memory(kib: f64) -> String {
    if kib < 1000.0 {
        format!("{} KiB", plain(kib))
    } else if kib < 1_023_500.0 {
        format!("{} MiB", plain(kib / 1024.0))
    } else {
        format!("{} GiB", plain(kib / 1_048_576.0))
    }
}

/// Formats a ratio with two decimals, since the intervals of such measurements are a few percent wide.
pub fn ratio(value: f64) -> String {
    if value.is_finite() {
        if value >= 9.995 { plain(value) } else { format!("{value:.2}") }
    } else {
        "–".to_owned()
    }
}

/// Formats an interval of ratios: `0.76–0.80`.
pub fn interval(low: f64, high: f64) -> String {
    format!("{}–{}", ratio(low), ratio(high))
}

/// Formats a number briefly, for chart axes: `32k`, `1.5M`, `250`.
pub fn short(value: f64) -> String {
    let size = value.abs();
    let (scaled, unit) = if size >= 999_999.5 {
        (value / 1e6, "M")
    } else if size >= 9_999.5 {
        (value / 1e3, "k")
    } else {
        (value, "")
    };
    let mut text = format!("{scaled:.3}");
    if text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    let text = if unit.is_empty() { thousands(&text) } else { text };
    format!("{}{unit}", text.replace('-', "−"))
}

/// Formats a duration: `48 s`, `12 min`, `1 h 20 min`.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    match whole {
        0..=119 => format!("{whole} s"),
        120..=7199 => format!("{} min", (seconds / 60.0).round()),
        _ => format!("{} h {} min", whole / 3600, (whole % 3600) / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_that_count() {
        for (value, text) in [
            (9.714, "9.71"),
            (13.32, "13.3"),
            (102.4, "102"),
            (99.96, "100"),
            (9.996, "10.0"),
            (143_318.7, "143,319"),
            (0.0, "0"),
            (-0.001, "0.00"),
            (-1.234, "−1.23"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(plain(value), text, "{value}");
        }
    }

    #[test]
    fn six_digits_stand_behind() {
        assert_eq!(behind(13.0976543), 13.0977);
        assert_eq!(behind(111_894.6), 111_895.0);
        assert_eq!(behind(0.0), 0.0);
    }

    #[test]
    fn units() {
        assert_eq!(time(812.4), "812 µs");
        assert_eq!(time(1240.0), "1.24 ms");
        assert_eq!(time(999_900.0), "1.00 s");
        assert_eq!(memory(812.0), "812 KiB");
        assert_eq!(memory(12_700.0), "12.4 MiB");
        assert_eq!(memory(1_258_291.0), "1.20 GiB");
        assert_eq!(ratio(0.784), "0.78");
        assert_eq!(interval(0.757, 0.801), "0.76–0.80");
        assert_eq!(duration(5400.0), "90 min");
        assert_eq!(duration(8000.0), "2 h 13 min");
    }

    #[test]
    fn axis_labels_are_short() {
        assert_eq!(short(250.0), "250");
        assert_eq!(short(2000.0), "2,000");
        assert_eq!(short(32_000.0), "32k");
        assert_eq!(short(1_500_000.0), "1.5M");
        assert_eq!(short(0.25), "0.25");
        assert_eq!(short(-10.0), "−10");
    }
}
