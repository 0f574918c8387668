//! Finds endpoints whose success rate is much lower than their neighbours'.

use super::TrafficTotals;

/// Fewest endpoints with enough attempts for a comparison, as in Envoy (`success_rate_minimum_hosts`).
const ENDPOINTS_MIN: usize = 5;
/// Fewest attempts in an interval for an endpoint to be compared (`success_rate_request_volume`).
const ATTEMPTS_MIN: u64 = 100;
/// How many standard deviations below the mean the threshold lies (`success_rate_stdev_factor`).
const DEVIATIONS: f64 = 1.9;

/// Returns the success rate below which an endpoint is an outlier. `None` if too few endpoints have enough
/// attempts.
///
/// This is Envoy's rule: the mean minus 1.9 standard deviations (of the population) of the endpoints with
/// enough attempts.
pub(super) fn threshold(interval: &[TrafficTotals]) -> Option<f64> {
    let rates: Vec<f64> = interval.iter().copied().filter_map(rate).collect();
    if rates.len() < ENDPOINTS_MIN {
        return None;
    }
    let count = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / count;
    let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / count;
    Some(mean - DEVIATIONS * variance.sqrt())
}

/// Returns the success rate of an endpoint; `None` if it had too few attempts.
pub(super) fn rate(interval: TrafficTotals) -> Option<f64> {
    let good = interval.attempts.saturating_sub(interval.failures);
    (interval.attempts >= ATTEMPTS_MIN).then(|| good as f64 / interval.attempts as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(failures: &[u64]) -> Vec<TrafficTotals> {
        failures.iter().map(|failures| TrafficTotals { attempts: 1000, failures: *failures }).collect()
    }

    fn outliers(interval: &[TrafficTotals]) -> Vec<usize> {
        let Some(threshold) = threshold(interval) else { return Vec::new() };
        let below = |index: &usize| rate(interval[*index]).is_some_and(|rate| rate < threshold);
        (0..interval.len()).filter(below).collect()
    }

    #[test]
    fn an_endpoint_that_fails_more_than_the_others_is_an_outlier() {
        assert_eq!(outliers(&of(&[0, 0, 300, 0, 0, 0])), [2]);
        assert_eq!(outliers(&of(&[10, 12, 9, 11, 40, 10, 12])), [4]);
        assert_eq!(outliers(&of(&[0, 0, 0, 0, 500])), [4], "five are enough");
    }

    #[test]
    fn equal_endpoints_have_no_outlier() {
        assert_eq!(outliers(&of(&[0; 10])), [0; 0]);
        assert_eq!(outliers(&of(&[1000; 10])), [0; 0]);
        assert_eq!(outliers(&of(&[400, 420, 390, 410, 405])), [0; 0]);
    }

    #[test]
    fn too_few_endpoints_or_requests() {
        assert_eq!(threshold(&of(&[0, 0, 0, 1000])), None);
        let mut interval = of(&[0, 0, 0, 0]);
        interval.push(TrafficTotals { attempts: 99, failures: 99 });
        assert_eq!(threshold(&interval), None);
        assert_eq!(threshold(&[]), None);
    }
}
