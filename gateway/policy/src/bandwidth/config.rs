//! The settings of `bandwidth`.

use std::num::NonZeroU64;
use std::sync::Arc;

use tollgate_config::section::{
    Field, Fields, KeySpec, Problem, Reader, Section, Shape, Value, from_one_key,
};

use super::BandwidthRules;
use super::limits::TransferRate;
use crate::counting::{BY, by};
use crate::policy_config::{Compilation, PolicyConfig, policy_key};
use crate::{CountKey, Planned};

/// Limits how fast the bodies of one request move.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "bandwidth_policy", noun = "`bandwidth`", own_forms, check = check)]
pub(crate) struct BandwidthSettings {
    /// Maximum bytes per second of a response body.
    #[key(
        size = "1KiB"..="1TiB",
        also = ["limit_rate", "limit-rate", "download", "response", "limit", "response_rate", "limit_kbps"],
    )]
    rate: Option<u64>,
    /// Bytes of a response body that are sent at full speed first.
    #[key(size = 0..="1TiB", default = 0, also = ["limit_rate_after", "limit-rate-after", "burst", "first"])]
    after: u64,
    /// Maximum bytes per second of a request body.
    #[key(size = "1KiB"..="1TiB", also = ["request", "request_rate", "upload_rate"])]
    upload: Option<u64>,
    /// The requests that share the rates equally: those with the same key, such as `address`. Default: each request
    /// has the rates by itself.
    #[key(also = ["key", "share", "shared_by", "limit_by", "per"])]
    by: Option<ShareKey>,
}

/// The key by which requests share rates.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ShareKey(CountKey);

impl Value for ShareKey {
    const SHAPE: Shape = BY;

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        by(reader, field).map(Self)
    }
}

const RATE: Shape = BandwidthSettings::KEYS[0].shape;

/// The rate of responses, or a mapping.
impl Value for BandwidthSettings {
    const SHAPE: Shape = Shape::AnyOf(&[Shape::Off, RATE, Shape::Section(Self::SPEC)]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        match field.is_mapping() {
            true => reader.section(field),
            false => from_one_key(reader, "rate", field.node),
        }
    }
}

impl PolicyConfig for BandwidthSettings {
    const KEY: KeySpec = policy_key::<Self>("bandwidth", "Limits how fast the bodies of one request move.")
        .aliases(&["limit_rate", "limit-rate", "bandwidth_limit", "bwlim", "speed"]);

    fn compile(&self, _: &mut Compilation<'_>) -> Arc<dyn Planned> {
        let rate = |bytes_per_second: Option<u64>, free_bytes| {
            let bytes_per_second = NonZeroU64::new(bytes_per_second?)?;
            Some(TransferRate { bytes_per_second, free_bytes })
        };
        Arc::new(BandwidthRules {
            response: rate(self.rate, self.after),
            request: rate(self.upload, 0),
            by: self.by.as_ref().map(|by| by.0.clone()),
        })
    }
}

fn check(reader: &mut Reader, fields: &Fields<'_>, _: &mut BandwidthSettings) {
    let has = |key| fields.get(key).is_some();
    if let (Some(after), false) = (fields.get("after"), has("rate")) {
        let problem = Problem::error(after.at, "`after` has no effect without `rate`");
        reader.problems.push(problem.help("`rate` limits what follows these bytes of a response"));
    } else if !has("rate") && !has("upload") {
        let problem =
            Problem::error(fields.at, "`bandwidth` has neither `rate` nor `upload`: it limits nothing");
        reader.problems.push(problem.expected("one of them, or both"));
    }
}
