//! Plugins: policies of others, built into a binary of their own.
//!
//! A plugin is a kind of policy that the gateway does not know: it has a name, settings of its own, and makes of them what
//! every policy is made of, a [`Planned`]. What runs then is the same as for the gateway's own policies, so nothing on a
//! request's way knows of plugins.

mod registry;
mod settings;

use std::fmt::Debug;
use std::sync::Arc;

use serde_json::Value;

use crate::Planned;

pub use registry::{Installed, Plugins};
pub use settings::{SettingsProblem, SettingsProblems, settings};

/// A kind of policy that a binary has beside the gateway's own, written under `policies.plugins` by its name.
pub trait Plugin: Debug + Send + Sync {
    /// Its name: its key under `plugins`, part of its label in metrics and in `explain`. Lower-case letters, digits and `_`,
    /// beginning with a letter; no other plugin of the binary may have it.
    fn name(&self) -> &'static str;

    /// What it is for, in one line, for lists of plugins.
    fn about(&self) -> &'static str;

    /// Where among the policies a request meets it. Of several plugins at one place, the one that was given first comes first.
    fn stage(&self) -> Stage {
        Stage::Request
    }

    /// Makes a policy of its settings, wherever they are written: `plugins: {NAME: SETTINGS}`. What is written `on` is an
    /// empty mapping here; what is `off` never gets here.
    ///
    /// Called each time a configuration is compiled, also by `check`, for dry runs and for what is refused in the end, and
    /// once for each place that names it. So it must be quick, open nothing that stays open, and give the same for the same
    /// settings: what costs or lives belongs into [`Planned::live`].
    ///
    /// # Errors
    /// Everything that is wrong with the settings; the user is shown each with its place.
    fn plan(&self, settings: &Value) -> Result<Arc<dyn Planned>, SettingsProblems>;

    /// The keys of its settings, at any depth, whose values the admin API must not show.
    fn secrets(&self) -> &'static [&'static str] {
        &[]
    }

    /// A JSON Schema of its settings (draft 2020-12), for `tollgate schema`; `None`: anything goes, as far as editors know.
    fn schema(&self) -> Option<Value> {
        None
    }
}

/// Where among the policies a request meets a plugin. What policies leave to be done with the response happens in the
/// opposite order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// After `trace`, `ip` and `cors`, and before anybody asks who it is: for those who turn requests away whoever sends
    /// them.
    Early,
    /// After all that finds out who sends it, and before `authorize`: for those who find that out in a way of their own.
    /// Limits by consumer and `authorize` go by what it puts into [`Context::consumer`](crate::Context::consumer).
    Authentication,
    /// After limits and faults, and before `canary`, `mirror`, `headers` and what else changes a request that goes on.
    Request,
    /// Between `compression` and `decompression`: for those who make another body of the response. It gets the body decoded,
    /// if `decompression` is on, and what it makes is compressed, if `compression` is on.
    Response,
}

impl Stage {
    /// All of them, in their order.
    pub const ALL: [Self; 4] = [Self::Early, Self::Authentication, Self::Request, Self::Response];

    /// In a word, for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Stage::Early => "early",
            Stage::Authentication => "authentication",
            Stage::Request => "request",
            Stage::Response => "response",
        }
    }
}
