//! Conditions on a result, such as `p99>10ms`: what `--fail-if` refuses and what `--find-rate` holds.

use super::values::{number, span};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use tollgate_lab_record::LoadResult;
use tollgate_lab_stats::histogram::PERCENTILES;

/// A figure, a comparison and a limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    figure: Figure,
    comparison: Comparison,
    limit: f64,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Figure {
    /// A percentile of latency, in seconds.
    Percentile(f64),
    /// The longest latency, in seconds.
    Max,
    /// The mean latency, in seconds.
    Mean,
    /// Failed requests.
    Errors,
    /// Failed requests as a share of all.
    ErrorShare,
    /// Good responses a second.
    Rate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Above,
    AtLeast,
    Below,
    AtMost,
}

impl Condition {
    /// Returns whether the condition holds; `None` if the result does not have the figure, as when no request
    /// was answered.
    pub fn holds(&self, load: &LoadResult) -> Option<bool> {
        let value = self.value(load)?;
        Some(match self.comparison {
            Comparison::Above => value > self.limit,
            Comparison::AtLeast => value >= self.limit,
            Comparison::Below => value < self.limit,
            Comparison::AtMost => value <= self.limit,
        })
    }

    fn value(&self, load: &LoadResult) -> Option<f64> {
        let failed = load.failures.total() as f64;
        let times = || load.latency().filter(|times| times.count > 0);
        match self.figure {
            Figure::Percentile(at) => times()?.percentile(at).map(|us| us / 1e6),
            Figure::Max => times()?.max_us.map(|us| us / 1e6),
            Figure::Mean => times().map(|times| times.mean_us / 1e6),
            Figure::Errors => Some(failed),
            Figure::ErrorShare => {
                let all = load.ok as f64 + failed;
                (all > 0.0).then(|| failed / all)
            }
            Figure::Rate => Some(load.rps()),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let at = text.find(['<', '>']).ok_or_else(|| {
            let expected = "expected a comparison, such as `p99>10ms`, `errors>0.1%` or `rate<1k`";
            pointed(text, text.len()..text.len(), expected)
        })?;
        let (name, rest) = (text[..at].trim(), &text[at..]);
        let (comparison, rest) = match (rest.strip_prefix(">="), rest.strip_prefix("<=")) {
            (Some(rest), _) => (Comparison::AtLeast, rest),
            (_, Some(rest)) => (Comparison::AtMost, rest),
            _ if rest.starts_with('>') => (Comparison::Above, &rest[1..]),
            _ => (Comparison::Below, &rest[1..]),
        };
        // The limit is at the end of the text, before white space.
        let limit = text.trim_end().len() - rest.trim().len()..text.trim_end().len();
        let rest = rest.trim();
        let wrong = |what: &str| pointed(text, limit.clone(), what);
        let time = || match rest.parse::<f64>() {
            Ok(_) => Err(wrong("expected a unit after the number, such as 10ms")),
            Err(_) => span(rest).map_err(|what| wrong(&what)),
        };
        let count = || number(rest).ok_or_else(|| wrong("expected a number, such as 100 or 5k"));
        let (figure, limit) = match name {
            "max" => (Figure::Max, time()?),
            "mean" => (Figure::Mean, time()?),
            "rate" | "rps" => (Figure::Rate, count()?),
            "errors" => match rest.strip_suffix('%') {
                Some(share) => {
                    let share =
                        share.trim().parse::<f64>().ok().filter(|share| (0.0..=100.0).contains(share));
                    let share = share.ok_or_else(|| wrong("expected a share of 0% to 100%"))?;
                    (Figure::ErrorShare, share / 100.0)
                }
                None => (Figure::Errors, count()?),
            },
            _ => {
                let percentile = name.strip_prefix('p').and_then(|number| number.parse::<f64>().ok());
                let known = percentile.filter(|at| PERCENTILES.contains(at)).ok_or_else(|| {
                    let expected =
                        "expected p50, p75, p90, p95, p99, p99.9, p99.99, p100, max, mean, errors or rate";
                    let start = text.len() - text.trim_start().len();
                    pointed(text, start..start + name.len(), expected)
                })?;
                (Figure::Percentile(known), time()?)
            }
        };
        Ok(Self { figure, comparison, limit, text: text.to_owned() })
    }
}

/// Returns the text with carets below a part of it, and what is expected there.
fn pointed(text: &str, part: Range<usize>, what: &str) -> String {
    let before = text[..part.start].chars().count();
    let carets = text[part].chars().count().max(1);
    format!("\n\n  {text}\n  {}{} {what}", " ".repeat(before), "^".repeat(carets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carets_point_at_what_is_wrong() {
        let reported = |text: &str| text.parse::<Condition>().unwrap_err();
        assert!(
            reported("p98>1ms").starts_with("\n\n  p98>1ms\n  ^^^ expected p50"),
            "{}",
            reported("p98>1ms")
        );
        let text = reported(" p99 >= 10µ ");
        assert!(text.starts_with("\n\n   p99 >= 10µ \n          ^^^ expected a time"), "{text}");
        assert!(
            reported("p99").starts_with("\n\n  p99\n     ^ expected a comparison"),
            "{}",
            reported("p99")
        );
        assert!(
            reported("errors>200%").contains("\n         ^^^^ expected a share"),
            "{}",
            reported("errors>200%")
        );
    }

    #[test]
    fn conditions_are_parsed_with_their_units() {
        let parsed = |text: &str| {
            let condition: Condition = text.parse().unwrap();
            (condition.figure, condition.comparison, condition.limit)
        };
        assert_eq!(parsed("p99>10ms"), (Figure::Percentile(99.0), Comparison::Above, 0.01));
        assert_eq!(parsed("p99.9 <= 1.5 s"), (Figure::Percentile(99.9), Comparison::AtMost, 1.5));
        assert_eq!(parsed("errors>0.1%"), (Figure::ErrorShare, Comparison::Above, 0.001));
        assert_eq!(parsed("errors>=5"), (Figure::Errors, Comparison::AtLeast, 5.0));
        assert_eq!(parsed("rate<1k"), (Figure::Rate, Comparison::Below, 1_000.0));
        for (text, words) in [
            ("p99", "expected a comparison"),
            ("p98>1ms", "^^^ expected p50"),
            ("latency>1ms", "^^^^^^^ expected p50"),
            ("p99>", "^ expected a time"),
            (">1ms", "^ expected p50"),
            ("p99>10", "expected a unit"),
            ("p99>slow", "expected a time"),
            ("errors>200%", "0% to 100%"),
        ] {
            let reported = text.parse::<Condition>().unwrap_err();
            assert!(reported.contains(words), "{text}: {reported}");
        }
    }
}
