//! Formats figures for people: three significant digits, and a unit.

/// The text for an unknown figure.
const UNKNOWN: &str = "-";

/// Formats a count or a rate.
pub fn amount(value: f64) -> String {
    match value {
        1e6.. => format!("{:.2}M", value / 1e6),
        1e5.. => format!("{:.0}k", value / 1e3),
        10.0.. | 0.0 => format!("{value:.0}"),
        _ => format!("{value:.1}"),
    }
}

/// Formats seconds, in a suitable unit.
pub fn time(seconds: Option<f64>) -> String {
    let Some(seconds) = seconds else { return UNKNOWN.to_owned() };
    let (value, unit) = match seconds {
        1.0.. => (seconds, "s"),
        1e-3.. => (seconds * 1e3, "ms"),
        _ => (seconds * 1e6, "us"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

/// Formats a fraction as a percentage. A small fraction is never shown as zero.
pub fn percent(part: f64) -> String {
    match part {
        0.0 => "0 %".to_owned(),
        ..0.0005 => "<0.1 %".to_owned(),
        ..0.0995 => format!("{:.1} %", part * 100.0),
        _ => format!("{:.0} %", part * 100.0),
    }
}

/// Formats bytes.
pub fn bytes(value: Option<u64>) -> String {
    let Some(value) = value else { return UNKNOWN.to_owned() };
    let (mut left, mut units) = (value as f64, ["B", "KiB", "MiB", "GiB"].into_iter());
    let mut unit = units.next().unwrap_or_default();
    while left >= 1024.0
        && let Some(next) = units.next()
    {
        (left, unit) = (left / 1024.0, next);
    }
    if unit == "B" || left >= 100.0 { format!("{left:.0} {unit}") } else { format!("{left:.1} {unit}") }
}

/// Formats a duration in whole units, rounded down.
pub fn age(seconds: f64) -> String {
    match seconds {
        172_800.0.. => format!("{:.0} d", (seconds / 86_400.0).floor()),
        7_200.0.. => format!("{:.0} h", (seconds / 3_600.0).floor()),
        120.0.. => format!("{:.0} min", (seconds / 60.0).floor()),
        _ => format!("{:.0} s", seconds.max(0.0).floor()),
    }
}

/// Formats a count with its noun: `1 connection`, `2 connections`.
pub fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Formats a figure that may be unknown, with `digits` decimals.
pub fn optional(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), |value| format!("{value:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        let amounts = [0.0, 0.4, 9.94, 12.3, 99_999.0, 123_456.0, 3_210_000.0].map(amount);
        assert_eq!(amounts, ["0", "0.4", "9.9", "12", "99999", "123k", "3.21M"]);
        let times = [Some(62.5e-6), Some(1.234e-3), Some(0.0441), Some(0.144), Some(2.5), None].map(time);
        assert_eq!(times, ["62.5 us", "1.23 ms", "44.1 ms", "144 ms", "2.50 s", "-"]);
        assert_eq!([0.0, 0.0001, 0.057, 0.5].map(percent), ["0 %", "<0.1 %", "5.7 %", "50 %"]);
        assert_eq!(
            [Some(999), Some(28_900_000), Some(5 << 40)].map(bytes),
            ["999 B", "27.6 MiB", "5120 GiB"]
        );
        assert_eq!([0, 1, 2].map(|count| counted(count, "row")), ["0 rows", "1 row", "2 rows"]);
        assert_eq!([59.9, 150.0, 7_300.0, 200_000.0].map(age), ["59 s", "2 min", "2 h", "2 d"]);
    }
}
