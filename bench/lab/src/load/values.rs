//! The values of options: numbers, times, and rates with their shapes.

use tollgate_lab_load::Think;
use tollgate_lab_load::shape::{Stage, sine};
use tollgate_lab_record::LoadModel;

/// The shortest period of a sine wave, in seconds. The wave is divided into stages, each of which has some requests.
const PERIOD_MIN_SECONDS: f64 = 0.1;

/// Parses a rate: its kind of arrivals, and its stages over `seconds` if it changes.
pub fn arrivals(text: &str, seconds: f64) -> Result<(LoadModel, Vec<Stage>), String> {
    let (kind, rest) = text.split_once(':').unwrap_or(("constant", text));
    let number = |text: &str| number(text).ok_or("expected requests a second, such as 250 or 5k");
    let flat = |seconds: f64, rate: f64| Stage::new(seconds, rate, rate);
    let stages = match kind {
        "constant" => return Ok((LoadModel::Constant { rps: number(rest)? }, Vec::new())),
        "poisson" => return Ok((LoadModel::Poisson { rps: number(rest)? }, Vec::new())),
        "ramp" => {
            let (from, to) = rest.split_once('-').ok_or("expected `ramp:FROM-TO`")?;
            vec![Stage::new(seconds, number(from)?, number(to)?)]
        }
        "step" => {
            let rates = rest.split(',').map(number).collect::<Result<Vec<f64>, _>>()?;
            let each = seconds / rates.len() as f64;
            rates.into_iter().map(|rate| flat(each, rate)).collect()
        }
        "spike" => {
            let expected = "expected `spike:BASE-PEAK,LENGTH`, such as spike:100-5k,2s";
            let (rates, length) = rest.split_once(',').ok_or(expected)?;
            let (base, peak) = rates.split_once('-').ok_or(expected)?;
            let (base, peak, length) = (number(base)?, number(peak)?, span(length)?);
            let around = (seconds - length) / 2.0;
            if around <= 0.0 {
                return Err(format!(
                    "the spike of {length} s is not shorter than the duration of {seconds} s"
                ));
            }
            vec![flat(around, base), flat(length, peak), flat(around, base)]
        }
        "sine" => {
            let expected = "expected `sine:MIDDLE,AMPLITUDE,PERIOD`, such as sine:1k,500,10s";
            let [middle, amplitude, period] = rest.split(',').collect::<Vec<_>>()[..] else {
                return Err(expected.into());
            };
            let (middle, amplitude, period) = (number(middle)?, number(amplitude)?, span(period)?);
            if period < PERIOD_MIN_SECONDS {
                return Err(format!("a period of {period} s: expected at least {PERIOD_MIN_SECONDS} s"));
            }
            if amplitude > middle {
                return Err(format!(
                    "the rate would fall below 0: expected an amplitude of at most {middle}"
                ));
            }
            sine(seconds, middle, amplitude, period)
        }
        _ => return Err("expected a rate, or poisson:, ramp:, step:, spike: or sine: before it".into()),
    };
    // The plan's mean follows from its stages.
    Ok((LoadModel::Constant { rps: 1.0 }, stages))
}

/// Parses a number with `k` or `M`.
pub fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let (digits, factor) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1e3),
        Some((at, 'M')) => (&text[..at], 1e6),
        _ => (text, 1.0),
    };
    digits.parse::<f64>().ok().map(|value| value * factor).filter(|value| value.is_finite() && *value >= 0.0)
}

/// Parses a time in seconds: `500us`, `200ms`, `10s`, `5m`, `1h`; a bare number counts seconds.
pub fn span(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let at = text.find(|char: char| char.is_ascii_alphabetic() || char == 'µ').unwrap_or(text.len());
    let factor = match &text[at..] {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        _ => f64::NAN,
    };
    text[..at]
        .trim()
        .parse::<f64>()
        .ok()
        .map(|value| value * factor)
        .filter(|seconds| seconds.is_finite() && *seconds >= 0.0)
        .ok_or_else(|| "expected a time, such as 200ms, 10s or 5m".into())
}

/// Parses a pause, or the shortest and the longest one: `200ms`, `100ms-1s`.
pub fn pauses(text: &str) -> Result<Think, String> {
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let think = Think { least: span(least)?, most: span(most)? };
    if think.least > think.most { Err("expected the shorter time first".into()) } else { Ok(think) }
}

/// Parses a factor above 0: `2`, `0.5`, `2x`.
pub fn factor(text: &str) -> Result<f64, String> {
    text.trim_end_matches('x')
        .parse()
        .ok()
        .filter(|factor: &f64| factor.is_finite() && *factor > 0.0)
        .ok_or_else(|| "expected a factor above 0, such as 2 or 0.5".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_shapes() {
        let stages = |text: &str| arrivals(text, 10.0).unwrap().1;
        assert_eq!(arrivals("5k", 10.0), Ok((LoadModel::Constant { rps: 5_000.0 }, vec![])));
        assert_eq!(arrivals("poisson:250", 10.0), Ok((LoadModel::Poisson { rps: 250.0 }, vec![])));
        assert_eq!(stages("ramp:0-1k"), [Stage::new(10.0, 0.0, 1_000.0)]);
        assert_eq!(stages("step:1,2"), [Stage::new(5.0, 1.0, 1.0), Stage::new(5.0, 2.0, 2.0)]);
        assert_eq!(
            stages("spike:10-1k,2s"),
            [Stage::new(4.0, 10.0, 10.0), Stage::new(2.0, 1e3, 1e3), Stage::new(4.0, 10.0, 10.0)]
        );
        assert_eq!(stages("sine:100,50,5s").len(), 128);
        for (text, words) in [
            ("fast", "requests a second"),
            ("ramp:5", "ramp:FROM-TO"),
            ("spike:1-2,20s", "not shorter"),
            ("square:5", "poisson:"),
            ("sine:5", "sine:MIDDLE"),
            ("sine:5,6,1s", "an amplitude of at most 5"),
            ("sine:5,5,0s", "a period of 0 s: expected at least 0.1 s"),
            ("sine:5,5,1us", "expected at least 0.1 s"),
        ] {
            assert!(arrivals(text, 10.0).unwrap_err().contains(words), "{text}");
        }
    }

    #[test]
    fn times() {
        assert_eq!((span("500ms"), span("2m"), span("3")), (Ok(0.5), Ok(120.0), Ok(3.0)));
        assert!(["", "1d", "-1s", "x"].iter().all(|text| span(text).is_err()));
        assert_eq!(pauses("100ms-1s"), Ok(Think { least: 0.1, most: 1.0 }));
        assert!(pauses("2s-1s").is_err());
    }
}
