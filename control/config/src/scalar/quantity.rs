//! Sizes, durations, counts and percentages.

use std::time::Duration;

use super::ScalarError;

/// Maximum duration, about one year. Longer ones are mistakes, and timers count milliseconds.
const DURATION_MAX_NANOS: u128 = 366 * 24 * 3600 * NANOS;
const NANOS: u128 = 1_000_000_000;

/// Parses a size in bytes: `512`, `64KiB`, `1.5MiB`, `1GB` (10^9).
pub fn size(text: &str, min: u64, max: u64) -> Result<u64, ScalarError> {
    let (number, unit) = split(text);
    let factor: u128 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        short @ ("k" | "m" | "g" | "t" | "ki" | "mi" | "gi" | "ti") if !number.is_empty() => {
            let letter = short[..1].to_ascii_uppercase();
            return Err(ScalarError::new("{} has no full unit").suggest(format!(
                "write `{number}{letter}iB` (powers of 1024) or `{number}{letter}B` (powers of 1000)"
            )));
        }
        _ => return Err(ScalarError::new("{} is not a size")),
    };
    let bytes = scaled(number, factor).ok_or_else(|| ScalarError::new("{} is not a size"))?;
    range(bytes, min, max)
}

/// Parses a timeout: `250ms`, `5s`, `1.5s`, `1m30s`, `1h`, `7d`.
pub fn duration(text: &str) -> Result<Duration, ScalarError> {
    let total = nanos(text)?;
    if total == 0 {
        return Err(ScalarError::new("{} would make every wait fail at once").help(OFF));
    }
    if total > DURATION_MAX_NANOS {
        return Err(ScalarError::new("{} is longer than a year").help(OFF));
    }
    whole(total)
}

/// Parses a duration within bounds.
pub fn time(text: &str, min: Duration, max: Duration) -> Result<Duration, ScalarError> {
    let total = nanos(text)?;
    if total < min.as_nanos() {
        return Err(ScalarError::new("{} is too short"));
    }
    if total > max.as_nanos() {
        return Err(ScalarError::new("{} is too long"));
    }
    whole(total)
}

fn whole(nanos: u128) -> Result<Duration, ScalarError> {
    let no = |_| ScalarError::new("{} is not a duration");
    Ok(Duration::new(u64::try_from(nanos / NANOS).map_err(no)?, u32::try_from(nanos % NANOS).map_err(no)?))
}

fn nanos(text: &str) -> Result<u128, ScalarError> {
    let no = || ScalarError::new("{} is not a duration");
    let mut total: u128 = 0;
    let mut rest = text;
    let mut last = u128::MAX;
    if rest.is_empty() {
        return Err(no());
    }
    while !rest.is_empty() {
        let (number, tail) = split(rest);
        let end = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let factor = match unit {
            "us" => 1_000,
            "ms" => 1_000_000,
            "s" => NANOS,
            "m" => 60 * NANOS,
            "h" => 3600 * NANOS,
            "d" => 24 * 3600 * NANOS,
            "" if number == "0" && tail.is_empty() && text == "0" => return Ok(0),
            "" if !number.is_empty() && tail.starts_with(' ') => {
                return Err(no().help("number and unit are written together: `5s`"));
            }
            "" if !number.is_empty() && tail.is_empty() => {
                return Err(
                    ScalarError::new("{} has no unit").suggest(format!("write `{text}s` for seconds"))
                );
            }
            _ if number.is_empty() => return Err(no()),
            _ => return Err(no().help("the units are `ms`, `s`, `m`, `h` and `d`")),
        };
        if factor >= last {
            return Err(no().help("units go from large to small, each once: `1m30s`"));
        }
        last = factor;
        total = total.saturating_add(scaled(number, factor).ok_or_else(no)?);
        rest = tail;
    }
    Ok(total)
}

const OFF: &str = "write `off` for no limit";

/// Parses a whole number within bounds.
pub fn count(text: &str, min: u64, max: u64) -> Result<u64, ScalarError> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        let signed = text.strip_prefix(['-', '+']).unwrap_or(text);
        let number = !signed.is_empty() && signed.bytes().all(|b| b.is_ascii_digit());
        return Err(ScalarError::new(if number { "{} is out of range" } else { "{} is not a whole number" }));
    }
    match text.parse::<u128>() {
        Ok(number) => range(number, min, max),
        Err(_) => Err(ScalarError::new("{} is out of range")),
    }
}

/// Parses `20%`, `20`, `0.05%` or `1/2000` into trillionths of the whole, with up to ten decimals. With `shares`, a
/// number between 0 and 1 without a percent sign is rejected, because it may mean a share of 1.
pub fn percent(text: &str, min: u64, max: u64, shares: bool) -> Result<u64, ScalarError> {
    if let Some((above, below)) = text.split_once('/') {
        return range(fraction(above, below)?, min * PERCENT, max * PERCENT);
    }
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    let share = number.parse::<f64>().ok().filter(|share| *share > 0.0 && *share < 1.0);
    if let Some(share) = share.filter(|_| shares && !text.ends_with('%')) {
        let fault = ScalarError::new("{} is ambiguous: a percentage or a share of 1");
        return Err(
            fault.suggest(format!("write `{number}%`, or `{}%` for that share", (share * 1e6).round() / 1e4))
        );
    }
    let Some(parts) = scaled(number, u128::from(PERCENT)) else {
        let signed = number.strip_prefix(['-', '+']).unwrap_or(number);
        let is_number =
            !signed.is_empty() && signed.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        return Err(match signed.split_once('.') {
            Some((_, decimals)) if is_number && decimals.len() > 10 => {
                ScalarError::new("{} has more than ten decimals")
            }
            _ if is_number && signed.len() < number.len() => ScalarError::new("{} is out of range"),
            _ => ScalarError::new("{} is not a percentage"),
        });
    };
    range(parts, min * PERCENT, max * PERCENT)
}

/// One percent in trillionths of the whole.
const PERCENT: u64 = 10_000_000_000;

/// Returns a fraction in trillionths, rounded to the nearest.
fn fraction(above: &str, below: &str) -> Result<u128, ScalarError> {
    let number = |text: &str| {
        let text = text.trim();
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // A longer one would not change the share.
        if digits { text.parse::<u32>().ok().map(u128::from) } else { None }
    };
    let (Some(above), Some(below)) = (number(above), number(below)) else {
        return Err(ScalarError::new("{} is not a fraction").help("write two whole numbers: `1/1000`"));
    };
    if below == 0 {
        return Err(ScalarError::new("{} divides by 0"));
    }
    let parts = (above * u128::from(100 * PERCENT) + below / 2) / below;
    Ok(parts)
}

fn range(number: u128, min: u64, max: u64) -> Result<u64, ScalarError> {
    match u64::try_from(number) {
        Ok(number) if number < min => Err(ScalarError::new("{} is too small")),
        Ok(number) if number <= max => Ok(number),
        _ => Err(ScalarError::new("{} is too large")),
    }
}

/// Splits off the leading number (digits and decimal points).
fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text.split_at(end)
}

/// Multiplies a decimal number by a factor, exactly. Returns `None` if the text is not a number, or the
/// result is too large or not whole.
fn scaled(number: &str, factor: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let point = number.len() > whole.len();
    if whole.is_empty()
        || !digits(whole)
        || !digits(fraction)
        || point == fraction.is_empty()
        || fraction.len() > 10
    {
        return None;
    }
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = if fraction.is_empty() { 0 } else { fraction.parse::<u128>().ok()? };
    let whole = whole.parse::<u64>().ok()?;
    let units = u128::from(whole).checked_mul(scale)?.checked_add(part)?.checked_mul(factor)?;
    (units % scale == 0).then(|| units / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let read = |text| size(text, 0, u64::MAX).ok();
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("64KiB", 65_536),
            ("64kib", 65_536),
            ("10MiB", 10 << 20),
            ("1GB", 1_000_000_000),
            ("1.5KiB", 1536),
        ] {
            assert_eq!(read(text), Some(bytes), "{text}");
        }
        for text in ["", "KiB", "-1", "1 KiB", "1.", ".5KiB", "0.3B", "1e3", "10M", "99999999TiB", "1..2KiB"]
        {
            assert_eq!(read(text), None, "{text}");
        }
        let fault = size("10M", 0, 1 << 40).unwrap_err();
        assert!(fault.suggestion.unwrap().starts_with("write `10MiB`"));
    }

    #[test]
    fn durations() {
        let read = |text| duration(text).ok().map(|time| time.as_millis());
        for (text, millis) in [
            ("250ms", 250),
            ("5s", 5_000),
            ("1.5s", 1_500),
            ("1m30s", 90_000),
            ("1h", 3_600_000),
            ("1d12h", 129_600_000),
        ] {
            assert_eq!(read(text), Some(millis), "{text}");
        }
        for text in [
            "",
            "5",
            "0",
            "0s",
            "s",
            "5 s",
            "1s1m",
            "1s1s",
            "-1s",
            "5sec",
            "9999d",
            "1m30",
            "99999999999999999999s",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn times_have_bounds() {
        let read = |text| time(text, Duration::from_millis(10), Duration::from_secs(60));
        assert_eq!(read("10ms"), Ok(Duration::from_millis(10)));
        assert_eq!(read("1m"), Ok(Duration::from_secs(60)));
        for (text, message) in [
            ("0", "{} is too short"),
            ("9.9ms", "{} is too short"),
            ("61s", "{} is too long"),
            ("400d", "{} is too long"),
            ("off", "{} is not a duration"),
            ("5", "{} has no unit"),
        ] {
            assert_eq!(read(text).unwrap_err().message, message, "{text}");
        }
    }

    #[test]
    fn percentages() {
        for (text, number) in [
            ("20%", 200_000_000_000),
            ("20", 200_000_000_000),
            ("20 %", 200_000_000_000),
            ("0%", 0),
            ("100%", 1_000_000_000_000),
            ("0.1%", 1_000_000_000),
            ("0.0001%", 1_000_000),
            ("0.0000000001%", 1),
            ("12.5", 125_000_000_000),
            ("100.0", 1_000_000_000_000),
            ("1/3000000", 333_333),
            ("2/3", 666_666_666_667),
            ("1 / 1", 1_000_000_000_000),
            ("0/7", 0),
        ] {
            for shares in [true, false] {
                assert_eq!(percent(text, 0, 100, shares), Ok(number), "{text}");
            }
        }
        for text in [
            "",
            "%",
            "-1%",
            "101%",
            "100.0001",
            "%5",
            "20%%",
            "x",
            "NaN",
            "inf",
            ".5%",
            "5.%",
            "1e1",
            "0.00000000001%",
            "1/0",
            "/2",
            "1/",
            "3/2",
            "1/2/3",
            "1/2%",
            "-1/2",
            "1.5/2",
            "1/4294967296",
        ] {
            assert!(percent(text, 0, 100, false).is_err(), "{text}");
        }
        assert_eq!(percent("0.2", 0, 100, false), Ok(2_000_000_000));
        assert!(percent("1/200", 1, 100, false).is_err(), "below the least");
        assert!(percent("0.5%", 1, 100, false).is_err());
        let fault = percent("0.2", 0, 100, true).unwrap_err();
        assert_eq!(fault.suggestion.as_deref(), Some("write `0.2%`, or `20%` for that share"));
    }

    #[test]
    fn counts() {
        assert_eq!(count("7", 1, 9), Ok(7));
        for text in ["", "x", "-1", "10", "0", "1.0", "99999999999999999999999999999999999999999999"] {
            assert!(count(text, 1, 9).is_err(), "{text}");
        }
    }
}
