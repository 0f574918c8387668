//! `redis` of policies that count for several gateways.

use std::time::Duration;

use crate::model::{At, Secret};

/// The Redis or Valkey that counts for several gateways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redis {
    /// Where it is; with a password perhaps, so it is shown nowhere.
    pub url: Secret,
    /// Where that is written.
    pub at: At,
    /// The password, if it is not in the URL.
    pub password: Option<Secret>,
    /// How long a request waits for an answer. Default 50 ms.
    pub timeout: Duration,
    /// What becomes of requests without one.
    pub on_failure: OnFailure,
    /// What its keys begin with. Default `tollgate`.
    pub prefix: String,
}

/// What becomes of requests that a shared count cannot be asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Each gateway counts by itself (`local`).
    #[default]
    Local,
    /// They pass (`open`).
    Open,
    /// They are refused (`closed`).
    Closed,
}
