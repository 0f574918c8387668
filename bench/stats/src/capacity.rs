//! Computes how many cores a rate needs.
//!
//! There are two methods. [`cores_needed`] starts from the laboratory's main figure, the CPU time for each
//! request. [`ceiling`] and [`Cluster`] follow the founding document (study `kong-envoy-nginx`): an upstream
//! of known capacity is saturated through each gateway, and the gateways' busy cores are compared at that one
//! rate. The gateway is then sized so that the upstreams of the whole cluster could saturate before it.

use std::fmt;

use crate::bootstrap::Interval;

/// An input for which there is no answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NotPossible {
    /// The name of the input.
    pub what: &'static str,
    /// The range of permitted values, in words.
    pub expected: &'static str,
    /// The value of the input.
    pub found: f64,
}

impl fmt::Display for NotPossible {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "capacity: {}: expected {}, found {}", self.what, self.expected, self.found)
    }
}

impl std::error::Error for NotPossible {}

fn above_zero(what: &'static str, found: f64) -> Result<f64, NotPossible> {
    if found.is_finite() && found > 0.0 {
        Ok(found)
    } else {
        Err(NotPossible { what, expected: "a number above 0", found })
    }
}

fn share(what: &'static str, found: f64) -> Result<f64, NotPossible> {
    if found > 0.0 && found <= 1.0 {
        Ok(found)
    } else {
        Err(NotPossible { what, expected: "a share above 0 and up to 1", found })
    }
}

/// Returns the gateway cores for a rate (requests/s) at a CPU cost (microseconds of CPU for each request, with its
/// interval) if each core is used up to this utilisation (0..=1): `rps * us / 1e6 / utilisation`. The interval comes
/// from the cost alone; rate and utilisation are taken as exact.
///
/// The cost must have been measured at a rate per core that is no higher than the plan's: a saturated gateway
/// batches more and looks cheaper.
///
/// # Errors
/// If the rate or the cost is not above 0, or the utilisation is not a share.
pub fn cores_needed(rps: f64, us_per_request: &Interval, utilisation: f64) -> Result<Interval, NotPossible> {
    let factor = above_zero("rate", rps)? / 1e6 / share("utilisation", utilisation)?;
    above_zero("CPU cost a request", us_per_request.low)?;
    Ok(us_per_request.map(|us| us * factor))
}

/// Returns the rate that a gateway with `cores` could forward, in requests/s, given a run in which it
/// forwarded `rps` with `cores_used` busy cores: `rps * cores / cores_used`. Gateways compare fairly only if
/// `rps` was the same for all, as it is once the upstream is saturated.
///
/// # Errors
/// If an input is not above 0.
pub fn ceiling(rps: f64, cores_used: f64, cores: f64) -> Result<f64, NotPossible> {
    Ok(above_zero("rate", rps)? * above_zero("cores", cores)? / above_zero("cores used", cores_used)?)
}

/// The services behind the gateway.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cluster {
    /// The number of all upstream cores.
    pub cores: f64,
    /// Requests/s of one upstream core at its limit.
    pub rps_per_core: f64,
    /// The share of the upstream cores that is really used, 0..=1. (Not the gateway's: the gateway is planned
    /// up to its ceiling.)
    pub utilisation: f64,
}

/// The gateway cores for a cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Requests/s of all upstream cores at their limit.
    pub rps: f64,
    /// The gateway cores for that rate.
    pub cores: f64,
    /// The gateway cores for the share that is really used.
    pub cores_in_use: f64,
    /// `cores_in_use` as a share of the upstream cores.
    pub share: f64,
}

impl Cluster {
    /// Returns the exact gateway cores for a gateway that forwards `ceiling` requests/s with `gateway_cores`.
    ///
    /// # Errors
    /// If an input is not above 0, or the utilisation is not a share.
    pub fn plan(&self, ceiling: f64, gateway_cores: f64) -> Result<Plan, NotPossible> {
        let (rps, in_use) = self.demand()?;
        let cores = rps / above_zero("ceiling", ceiling)? * above_zero("gateway cores", gateway_cores)?;
        Ok(Plan { rps, cores, cores_in_use: cores * in_use, share: cores * in_use / self.cores })
    }

    /// Returns the gateway cores with the founding document's rounding; see [`WHY_PRINTED_DIFFERS`].
    ///
    /// # Errors
    /// As [`Self::plan`]; also if the ceiling is below 1,000 requests/s, since it is cut to whole thousands.
    pub fn plan_as_printed(&self, ceiling: f64, gateway_cores: f64) -> Result<Plan, NotPossible> {
        let (rps, in_use) = self.demand()?;
        let thousands = above_zero("ceiling in whole thousands of requests/s", (ceiling / 1_000.0).floor())?;
        let cores = (rps / 1_000.0 / thousands * above_zero("gateway cores", gateway_cores)?).floor();
        let cores_in_use = (cores / in_use.recip().floor()).floor();
        Ok(Plan { rps, cores, cores_in_use, share: cores_in_use / self.cores })
    }

    fn demand(&self) -> Result<(f64, f64), NotPossible> {
        let rps = above_zero("upstream cores", self.cores)?
            * above_zero("requests/s an upstream core", self.rps_per_core)?;
        Ok((rps, share("utilisation", self.utilisation)?))
    }
}

/// Why the founding document's cluster figures differ from the exact ones, for the report.
pub const WHY_PRINTED_DIFFERS: &str = "The original cuts three times. The ceiling is cut to whole thousands (338.8k to 338k) before \
    the division, which adds up to 0.5 %. The cores are cut to a whole number (611.5 to 611). For 30 % utilisation they are then \
    divided by 3 instead of multiplied by 0.3, which adds 11 %, and cut again. Its text also prints 250k for Envoy where its own \
    formula gives 230.4k, the figure that its 417 cores come from.";

#[cfg(test)]
mod tests {
    use super::*;

    // Study `kong-envoy-nginx`: 36k requests/s saturate the upstream's 4 cores; busy gateway cores at that
    // rate; 32 gateway cores.
    const SATURATED: f64 = 36_000.0;
    const GATEWAY_CORES: f64 = 32.0;
    const CORES_USED: [(&str, f64); 3] = [("nginx", 3.4), ("kong", 7.3), ("envoy", 5.0)];
    const CLUSTER: Cluster = Cluster { cores: 2_000.0, rps_per_core: 1_500.0, utilisation: 0.3 };

    fn ceilings() -> [f64; 3] {
        CORES_USED.map(|(_, used)| ceiling(SATURATED, used, GATEWAY_CORES).unwrap())
    }

    fn to_tenth(value: f64) -> f64 {
        (value * 10.0).round() / 10.0
    }

    #[test]
    fn the_founding_ceilings() {
        assert_eq!(ceilings().map(|rps| to_tenth(rps / 1_000.0)), [338.8, 157.8, 230.4]);
    }

    #[test]
    fn the_founding_cluster_exactly() {
        let plans = ceilings().map(|rps| CLUSTER.plan(rps, GATEWAY_CORES).unwrap());
        assert_eq!(plans[0].rps, 3_000_000.0);
        assert_eq!(plans.map(|plan| to_tenth(plan.cores)), [283.3, 608.3, 416.7]);
        assert_eq!(plans.map(|plan| to_tenth(plan.cores_in_use)), [85.0, 182.5, 125.0]);
        assert_eq!(plans.map(|plan| to_tenth(plan.share * 100.0)), [4.3, 9.1, 6.3]);
    }

    #[test]
    fn the_founding_cluster_as_printed() {
        let plans = ceilings().map(|rps| CLUSTER.plan_as_printed(rps, GATEWAY_CORES).unwrap());
        assert_eq!(plans.map(|plan| plan.cores), [284.0, 611.0, 417.0]);
        assert_eq!(plans.map(|plan| plan.cores_in_use), [94.0, 203.0, 139.0]);
        assert_eq!(plans.map(|plan| (plan.share * 100.0).round()), [5.0, 10.0, 7.0]);
    }

    #[test]
    fn the_founding_price_of_statistics() {
        // Envoy with statistics used 5.2 cores: printed as 221k, and 144 cores instead of 139.
        let with_statistics = ceiling(SATURATED, 5.2, GATEWAY_CORES).unwrap();
        assert_eq!((with_statistics / 1_000.0).floor(), 221.0);
        assert_eq!(CLUSTER.plan_as_printed(with_statistics, GATEWAY_CORES).unwrap().cores_in_use, 144.0);
    }

    #[test]
    fn each_reason_for_the_difference_is_as_large_as_stated() {
        let exact = ceilings().map(|rps| CLUSTER.plan(rps, GATEWAY_CORES).unwrap());
        let printed = ceilings().map(|rps| CLUSTER.plan_as_printed(rps, GATEWAY_CORES).unwrap());
        for (exact, printed) in exact.iter().zip(&printed) {
            let from_cuts = printed.cores / exact.cores - 1.0;
            assert!(from_cuts > 0.0 && from_cuts < 0.005, "{from_cuts}");
            let from_thirds = printed.cores_in_use / exact.cores_in_use;
            assert!(from_thirds > 1.10 && from_thirds < 1.12, "{from_thirds}");
        }
        assert!(WHY_PRINTED_DIFFERS.contains("divided by 3"));
    }

    #[test]
    fn cores_from_cpu_time() {
        let cost = Interval { estimate: 20.0, low: 19.0, high: 22.0, level: 0.95, resamples: 2_047 };
        let cores = cores_needed(3e6, &cost, 0.6).unwrap();
        assert!(
            (cores.estimate - 100.0).abs() < 1e-9
                && (cores.low - 95.0).abs() < 1e-9
                && (cores.high - 110.0).abs() < 1e-9
        );
        assert_eq!(cores.level, 0.95);
    }

    #[test]
    fn both_forms_agree() {
        // 3.4 busy cores at 36k are 94.4 us per request; the cluster's 3000k need 283.3 cores at full use
        // with both methods.
        let us = 3.4 / SATURATED * 1e6;
        let cost = Interval { estimate: us, low: us, high: us, level: 0.0, resamples: 1 };
        assert_eq!(to_tenth(cores_needed(3e6, &cost, 1.0).unwrap().estimate), 283.3);
    }

    #[test]
    fn impossible_inputs_are_named() {
        let cost = Interval { estimate: 20.0, low: 19.0, high: 22.0, level: 0.95, resamples: 2_047 };
        let refused = cores_needed(3e6, &cost, 60.0).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "capacity: utilisation: expected a share above 0 and up to 1, found 60"
        );
        assert!(cores_needed(0.0, &cost, 0.6).is_err() && cores_needed(f64::INFINITY, &cost, 0.6).is_err());
        assert_eq!(ceiling(SATURATED, 0.0, 32.0).unwrap_err().what, "cores used");
        assert!(CLUSTER.plan_as_printed(900.0, 32.0).is_err());
        assert!(Cluster { utilisation: f64::NAN, ..CLUSTER }.plan(1e5, 32.0).is_err());
    }
}
