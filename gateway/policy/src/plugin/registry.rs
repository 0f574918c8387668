//! The registry of the plugins in this binary.
//!
//! The binary installs its [`Plugins`] once; the plan then finds them by name and stage. A plugin that panics
//! cannot end the gateway: during planning the panic becomes a problem of the configuration, and at roll-out
//! a policy that refuses all requests replaces the plugin's.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use serde_json::Value;
use tollgate_observe::Reason;

use super::{Plugin, SettingsProblem, SettingsProblems, Stage};
use crate::{Planned, Policy, PolicyStates, Refusal, Request, Verdict};

/// The plugins of a binary in registration order. They are a property of the binary, like its own policies.
/// The list is set before any configuration is read and never changes, so the result of compiling depends on
/// the configuration only.
#[derive(Debug, Default)]
pub struct Plugins(Vec<Installed>);

/// A registered plugin.
#[derive(Debug)]
pub struct Installed {
    plugin: Box<dyn Plugin>,
    label: String,
}

static PLUGINS: OnceLock<Plugins> = OnceLock::new();

impl Plugins {
    /// Registers these plugins.
    ///
    /// # Errors
    /// When a name is invalid, or two plugins have the same name.
    pub fn new(plugins: Vec<Box<dyn Plugin>>) -> Result<Self, String> {
        let mut out = Self::default();
        for plugin in plugins {
            let name = plugin.name();
            if !is_name(name) {
                return Err(format!("`{name}` is no name of a plugin: a-z, 0-9 and _, a letter first"));
            }
            if out.find(name).is_some() {
                return Err(format!("two plugins are named `{name}`"));
            }
            out.0.push(Installed { plugin, label: format!("plugins/{name}") });
        }
        Ok(out)
    }

    /// Makes these the plugins of the process. Must be called before the first
    /// [`installed`](Self::installed).
    ///
    /// # Errors
    /// When the plugins of the process are already set.
    pub fn install(self) -> Result<(), String> {
        PLUGINS.set(self).map_err(|_| "the plugins of this process are set already".to_owned())
    }

    /// Returns the plugins of the process; empty if none were installed.
    pub fn installed() -> &'static Self {
        PLUGINS.get_or_init(Self::default)
    }

    /// Returns all plugins in registration order.
    #[must_use]
    pub fn all(&self) -> &[Installed] {
        &self.0
    }

    /// Returns the index of the plugin with this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|installed| installed.plugin.name() == name)
    }

    /// Returns the indices of the plugins of one stage, in registration order.
    pub fn at(&self, stage: Stage) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().filter(move |(_, one)| one.plugin.stage() == stage).map(|(index, _)| index)
    }
}

impl Installed {
    /// Returns the plugin.
    #[must_use]
    pub fn plugin(&self) -> &dyn Plugin {
        &*self.plugin
    }

    /// Returns the name in metrics, in `explain` and in the keys of its state: `plugins/NAME`.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Creates a policy from these settings under the plugin's label. A panic of the plugin becomes a problem
    /// of the settings, because a reload must not end the gateway.
    ///
    /// # Errors
    /// The problems of the settings.
    pub fn plan(&'static self, settings: &Value) -> Result<Arc<dyn Planned>, SettingsProblems> {
        let planned = catch_unwind(AssertUnwindSafe(|| self.plugin.plan(settings)));
        match planned {
            Ok(planned) => Ok(Arc::new(LabelledPolicy { label: &self.label, policy: planned? })),
            Err(_) => Err(SettingsProblem::at("", "the plugin panicked over these settings").into()),
        }
    }
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_lowercase())
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// A plugin's policy under the plugin's label.
#[derive(Debug)]
struct LabelledPolicy {
    label: &'static str,
    policy: Arc<dyn Planned>,
}

impl Planned for LabelledPolicy {
    fn kind(&self) -> &'static str {
        self.label
    }

    fn summary(&self) -> String {
        self.policy.summary()
    }

    fn activate(self: Arc<Self>, key: &str, shared: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        let activated = catch_unwind(AssertUnwindSafe(|| self.policy.clone().activate(key, shared)));
        activated.unwrap_or_else(|_| Arc::new(PanickedPolicy))
    }
}

/// Replaces a policy that panicked in [`Planned::activate`]. The roll-out cannot be stopped then, so all
/// requests are refused.
#[derive(Debug)]
struct PanickedPolicy;

impl Policy for PanickedPolicy {
    fn request(&self, _: &mut Request<'_>) -> Verdict {
        let detail = Some("a plugin panicked when it was to begin");
        Refusal { detail, ..Reason::ProxyInternalError.into() }.into()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Context;
    use crate::testing::Sent;

    #[derive(Debug)]
    struct LabelledPolicy(&'static str, Stage);

    impl Plugin for LabelledPolicy {
        fn name(&self) -> &'static str {
            self.0
        }

        fn about(&self) -> &'static str {
            "nothing"
        }

        fn stage(&self) -> Stage {
            self.1
        }

        fn plan(&self, settings: &Value) -> Result<Arc<dyn Planned>, SettingsProblems> {
            match settings.as_str() {
                Some("fine") => Ok(Arc::new(Falls)),
                Some("odd") => Err(SettingsProblem::at("/x", "odd").into()),
                _ => panic!("what is this?"),
            }
        }
    }

    #[derive(Debug)]
    struct Falls;

    impl Planned for Falls {
        fn summary(&self) -> String {
            "falls".to_owned()
        }

        fn activate(self: Arc<Self>, key: &str, _: &Arc<PolicyStates>) -> Arc<dyn Policy> {
            panic!("{key} falls")
        }
    }

    fn plugins(named: &[(&'static str, Stage)]) -> Result<Plugins, String> {
        Plugins::new(
            named.iter().map(|(name, stage)| Box::new(LabelledPolicy(name, *stage)) as Box<_>).collect(),
        )
    }

    #[test]
    fn names_are_names_and_no_two_the_same() {
        let stage = Stage::Request;
        assert!(plugins(&[("a", stage), ("a_1", stage)]).is_ok());
        for bad in ["", "1a", "A", "a-b", "a/b", "ä"] {
            assert!(plugins(&[(bad, stage)]).is_err(), "{bad}");
        }
        assert!(plugins(&[("a", stage), ("a", Stage::Early)]).is_err());
    }

    #[test]
    fn they_are_found_by_name_and_place() {
        let plugins = plugins(&[("b", Stage::Request), ("c", Stage::Early), ("a", Stage::Request)]);
        let plugins = plugins.expect("good names");
        assert_eq!((plugins.find("a"), plugins.find("x")), (Some(2), None));
        assert_eq!(plugins.at(Stage::Request).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(plugins.at(Stage::Response).count(), 0);
    }

    #[test]
    fn a_panic_is_a_problem_or_a_refusal() {
        let plugins = Box::leak(Box::new(plugins(&[("a", Stage::Request)]).expect("a good name")));
        let one = &plugins.all()[0];
        let message =
            |settings: Value| one.plan(&settings).expect_err("a problem").as_slice()[0].message.clone();
        assert_eq!(message(json!("odd")), "odd");
        assert!(message(json!({})).contains("panicked"));
        let planned = one.plan(&json!("fine")).expect("it is good");
        assert_eq!((planned.kind(), planned.summary().as_str()), ("plugins/a", "falls"));
        let activated = planned.activate("gateway/plugins/a", &Arc::default());
        let (mut sent, mut context) = (Sent::new(""), Context::default());
        let verdict = activated.request(&mut sent.request(&mut context));
        let Verdict::Refuse(refusal) = verdict else { panic!("{verdict:?}") };
        assert_eq!(refusal.reason, Reason::ProxyInternalError);
    }
}
