//! Plugins: third-party policies that are compiled into a custom binary.
//!
//! A plugin is a kind of policy that the gateway does not know. It has a name and its own settings, from
//! which it creates a [`Planned`]. At run time that is a policy like the gateway's own, so the request path
//! has no special case for plugins.

mod keys;
mod registry;
mod settings;

use std::fmt::Debug;
use std::sync::Arc;

use serde_json::Value;

use crate::Planned;

pub(crate) use keys::PluginsKey;
pub use keys::{PluginPolicies, PluginPolicy, PluginSettings};
pub use registry::{Installed, Plugins};
pub use settings::{SettingsProblem, SettingsProblems, settings};

/// A kind of policy that a binary adds to the gateway's own. It is configured under `policies.plugins` by its
/// name.
pub trait Plugin: Debug + Send + Sync {
    /// Returns the name: the key under `plugins`, and part of the label in metrics and in `explain`. It
    /// consists of lower-case letters, digits and `_`, starts with a letter, and is unique in the binary.
    fn name(&self) -> &'static str;

    /// Returns the purpose in one line, for lists of plugins.
    fn about(&self) -> &'static str;

    /// Returns the stage of the evaluation in which the plugin runs. Plugins of the same stage run in
    /// registration order.
    fn stage(&self) -> Stage {
        Stage::Request
    }

    /// Creates a policy from its settings `plugins: {NAME: SETTINGS}`, at any place of the configuration. The
    /// value `on` becomes an empty mapping; a plugin that is `off` is not called.
    ///
    /// The gateway calls this each time it compiles a configuration, also for `check`, dry runs and
    /// configurations that it then rejects, and once for each place that names the plugin. The function must
    /// be quick, keep no resources open, and return the same policy for the same settings. Expensive work and
    /// resources belong in [`Planned::activate`].
    ///
    /// # Errors
    /// All problems of the settings; the user sees each with its position.
    fn plan(&self, settings: &Value) -> Result<Arc<dyn Planned>, SettingsProblems>;

    /// Returns the keys of the settings, at any depth, whose values the admin API must not show.
    fn secrets(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns a JSON Schema of the settings (draft 2020-12) for `tollgate schema`; `None`: editors accept
    /// any settings.
    fn schema(&self) -> Option<Value> {
        None
    }
}

/// A stage of the evaluation in which a plugin runs. Actions on the response run in the opposite order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// After `trace`, `ip` and `cors`, before authentication: for plugins that refuse requests regardless of
    /// the consumer.
    Early,
    /// After all authentication policies, before `authorize`: for plugins that identify consumers in their
    /// own way. `authorize` and limits by consumer use the value that the plugin sets in
    /// [`Context::consumer`](crate::Context::consumer).
    Authentication,
    /// After limits and faults, before `canary`, `mirror`, `headers` and other policies that change a
    /// forwarded request.
    Request,
    /// Between `compression` and `decompression`: for plugins that transform the response's body. With
    /// `decompression` they receive the decoded body; with `compression` their output is compressed.
    Response,
}

impl Stage {
    /// All stages in evaluation order.
    pub const ALL: [Self; 4] = [Self::Early, Self::Authentication, Self::Request, Self::Response];

    /// Returns the name of the stage.
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
