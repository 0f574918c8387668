//! Compiles `plugins`: each plugin named there is a policy of its own.

use std::any::Any;
use std::sync::Arc;

use tollgate_config::{PolicySettings, Problem, Spanned, nearest};
use tollgate_policy::{
    Planned, PluginPolicies, PluginPolicy, PluginSettings, Plugins, REGISTRY, RegistryEntry, SettingsProblem,
};

use super::policy_unit::PolicyUnit;

/// Returns the order in which a request passes the built-in kinds, with each plugin inserted at its stage.
pub(super) fn order(plugins: &Plugins) -> Vec<PolicyUnit> {
    let one = |entry: &RegistryEntry| -> Vec<PolicyUnit> {
        match entry {
            RegistryEntry::Plugins(stage) => plugins.at(*stage).map(PolicyUnit::Plugin).collect(),
            // `plugins` itself is not a kind: its entries are.
            other => other
                .kind()
                .map(|kind| kind.key().name)
                .filter(|key| *key != "plugins")
                .map(PolicyUnit::BuiltIn)
                .into_iter()
                .collect(),
        }
    };
    REGISTRY.iter().flat_map(one).collect()
}

/// Compiles what is written under `plugins` at one place: for each plugin mentioned its number, and its
/// policy or `None` if it is off.
pub(super) fn planned(
    spec: Option<&dyn PolicySettings>,
    plugins: &'static Plugins,
    problems: &mut Vec<Problem>,
) -> Vec<(usize, Option<Arc<dyn Planned>>)> {
    let Some(spec) = spec else {
        // `plugins: off`.
        return (0..plugins.all().len()).map(|index| (index, None)).collect();
    };
    let Some(written) = (spec as &dyn Any).downcast_ref::<PluginPolicies>() else {
        return Vec::new();
    };
    written.list.iter().filter_map(|one| plugin(one, plugins, problems)).collect()
}

fn plugin(
    written: &PluginPolicy,
    plugins: &'static Plugins,
    problems: &mut Vec<Problem>,
) -> Option<(usize, Option<Arc<dyn Planned>>)> {
    let Some(index) = plugins.find(&written.name.value) else {
        problems.push(unknown(&written.name, plugins));
        return None;
    };
    let Some(settings) = &written.settings else { return Some((index, None)) };
    match plugins.all()[index].plan(&settings.value) {
        Ok(policy) => Some((index, Some(policy))),
        Err(found) => {
            let located = |problem| locate(problem, &written.name, settings);
            problems.extend(found.as_slice().iter().map(located));
            // A plugin may have failed to say what is wrong.
            if found.as_slice().is_empty() {
                let message = format!("the plugin `{}` does not take its settings", written.name.value);
                problems.push(Problem::error(written.name.at, message));
            }
            None
        }
    }
}

/// Reports a name that no plugin has.
fn unknown(name: &Spanned<String>, plugins: &Plugins) -> Problem {
    let names = || plugins.all().iter().map(|one| one.plugin().name());
    let problem = Problem::error(name.at, format!("there is no plugin `{}`", name.value));
    if names().next().is_none() {
        let help = "a plugin is a crate that a program of your own is built with: see docs/plugins.md";
        return problem.help("this tollgate was built without plugins").help(help);
    }
    let list = names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let problem = problem.expected(format!("a plugin that this program was built with: {list}"));
    match nearest(&name.value, names()) {
        Some(near) => problem.help(format!("did you mean `{near}`?")),
        None => problem,
    }
}

/// Returns a problem that a plugin reports in its settings, with the position of the faulty part. The text never
/// shows the value of an environment variable.
fn locate(found: &SettingsProblem, plugin: &Spanned<String>, settings: &PluginSettings) -> Problem {
    let SettingsProblem { pointer, message, expected, help, words, key } = found;
    let at = if *key && pointer.is_empty() { plugin.at } else { settings.at(pointer, *key) };
    let variable = settings.variable(pointer).filter(|_| !key);
    let message = match variable {
        Some(variable) => format!("what `{variable}` holds is not good here"),
        None => settings.shown(message),
    };
    let mut problem = Problem::error(at, format!("plugin `{}`: {message}", plugin.value));
    if let Some(expected) = expected {
        problem = problem.expected(settings.shown(expected));
    }
    if let Some(help) = help {
        problem = problem.help(settings.shown(help));
    }
    let last = || pointer.rsplit('/').next().map(|key| key.replace("~1", "/").replace("~0", "~"));
    let text = || settings.value.pointer(pointer).and_then(|value| value.as_str()).map(str::to_owned);
    let written = if *key { last() } else { text().filter(|_| variable.is_none()) };
    match written.as_deref().and_then(|text| nearest(text, words.iter().map(String::as_str))) {
        Some(near) => problem.help(format!("did you mean `{near}`?")),
        None => problem,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use tollgate_config as config;
    use tollgate_policy::{Plugin, Policy, PolicyStates, SettingsProblems, Stage};

    use super::super::chains::{Chains, PlacePolicies};
    use super::super::sets::Sets;
    use super::*;

    #[derive(Debug)]
    struct Known(&'static str, Stage);

    #[derive(Debug)]
    struct Nothing;

    impl Plugin for Known {
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
            let mut problems = SettingsProblems::default();
            if settings["secret"].is_string() {
                problems.push(SettingsProblem::at("/secret", format!("{} is weak", settings["secret"])));
                problems.push(SettingsProblem::at("/other", format!("unlike {}", settings["secret"])));
            }
            if settings["colour"] == "gren" {
                let problem = SettingsProblem::at("/colour", "this is no colour").expected("a colour");
                problems.push(SettingsProblem { words: vec!["red".into(), "green".into()], ..problem });
            }
            problems.or(Arc::new(Nothing))
        }
    }

    impl Planned for Nothing {
        fn summary(&self) -> String {
            String::new()
        }

        fn activate(self: Arc<Self>, _: &str, _: &Arc<PolicyStates>) -> Arc<dyn Policy> {
            unreachable!("it is only planned")
        }
    }

    fn plugins(named: &[(&'static str, Stage)]) -> &'static Plugins {
        let plugins = named.iter().map(|(name, stage)| Box::new(Known(name, *stage)) as Box<_>).collect();
        Box::leak(Box::new(Plugins::new(plugins).expect("good names")))
    }

    fn chains(plugins: &'static Plugins) -> Chains {
        Chains { order: order(plugins), plugins, ..Chains::default() }
    }

    fn policies(text: &str) -> config::Policies {
        let text = format!("listen: 127.0.0.1:0\nroutes: []\npolicies:\n  {text}\n");
        tollgate_policy::register();
        let variable = |name: &str| (name == "KEY").then(|| "hunter2".to_owned());
        let loaded = config::from_text("t", &text, &variable);
        loaded.config.unwrap_or_else(|| panic!("{}", loaded.problems.render(false))).policies
    }

    /// Returns the policies that a request passes if these places are nested.
    fn chain_keys(plugins: &'static Plugins, places: &[&str]) -> Vec<String> {
        let mut chains = chains(plugins);
        let name = |number: usize| format!("place{number}");
        let placed: Vec<PlacePolicies> = places
            .iter()
            .enumerate()
            .map(|(number, text)| chains.place(&name(number), &policies(text)))
            .collect();
        let chain = chains.chain(&placed.iter().collect::<Vec<_>>());
        assert!(chains.problems.is_empty(), "{:?}", chains.problems);
        let chain = chain.map(|index| chains.chains[index as usize].clone()).unwrap_or_default();
        chain.iter().map(|index| chains.policies[*index as usize].key.clone()).collect()
    }

    #[test]
    fn each_policy_has_its_place_in_the_order() {
        let stages = [("d", Stage::Response), ("c", Stage::Request), ("b", Stage::Authentication)];
        let known = plugins(&[&stages[..], &[("a", Stage::Early), ("c2", Stage::Request)]].concat());
        let text = "plugins: {d: on, c2: on, c: on, b: on, a: on}\n  decompression: on\n  compression: on\n  \
            cors: {origins: \"*\"}\n  ip: {deny: 10.0.0.1}\n  fault: {abort: {status: 500}}\n  \
            authorize: {allow: {groups: x}}\n  api_key: on\n  headers: {request: {remove: A}}";
        let kinds: Vec<_> = chain_keys(known, &[text]).iter().map(|key| key.replace("place0/", "")).collect();
        assert_eq!(
            kinds,
            [
                "ip",
                "cors",
                "plugins/a",
                "api_key",
                "plugins/b",
                "authorize",
                "fault",
                "plugins/c",
                "plugins/c2",
                "headers",
                "compression",
                "plugins/d",
                "decompression"
            ]
        );
    }

    #[test]
    fn for_each_plugin_the_innermost_place_decides() {
        let known = plugins(&[("a", Stage::Request), ("b", Stage::Request)]);
        let outer = "plugins: {a: on, b: {x: 1}}";
        assert_eq!(chain_keys(known, &[outer, "plugins: {b: on}"]), ["place0/plugins/a", "place1/plugins/b"]);
        assert_eq!(chain_keys(known, &[outer, "plugins: {a: off}"]), ["place0/plugins/b"]);
        assert_eq!(chain_keys(known, &[outer, "plugins: {}"]), ["place0/plugins/a", "place0/plugins/b"]);
        assert!(chain_keys(known, &[outer, "plugins: off"]).is_empty());
        assert_eq!(chain_keys(known, &[outer, "plugins: off", "plugins: {b: on}"]), ["place2/plugins/b"]);
    }

    #[test]
    fn each_plugin_of_a_set_counts_separately() {
        let known = plugins(&[("a", Stage::Request), ("b", Stage::Request)]);
        let text = "listen: 127.0.0.1:0\nroutes: []\n\
            policy_sets: {one: {plugins: {a: on, b: {x: 1}}}, two: {plugins: {b: off}}, no: {plugins: off}}\n";
        tollgate_policy::register();
        let config = config::from_text("t", text, &|_| None).config.expect("a good config");
        let chain_keys = |text: &str| {
            let mut chains = chains(known);
            chains.sets =
                Sets::new(&config::CombinedResources::of(&config), |policies| chains.compile(policies));
            let placed = chains.place("gateway", &policies(text));
            let chain = chains.chain(&[&placed]).map(|index| chains.chains[index as usize].clone());
            let attached =
                chain.unwrap_or_default().into_iter().map(|index| &chains.policies[index as usize]);
            attached.map(|one| (one.key.clone(), one.set.is_some())).collect::<Vec<_>>()
        };
        let (a, b) = (("gateway/plugins/a".to_owned(), true), ("gateway/plugins/b".to_owned(), true));
        assert_eq!(chain_keys("use: one"), [a.clone(), b.clone()]);
        assert_eq!(chain_keys("use: [one, two]").as_slice(), std::slice::from_ref(&a));
        assert_eq!(chain_keys("use: [two, one]"), [a.clone(), b.clone()]);
        assert!(chain_keys("use: [one, no]").is_empty());
        assert_eq!(chain_keys("use: one\n  plugins: {b: on}"), [a.clone(), (b.0.clone(), false)]);
        assert!(chain_keys("use: one\n  plugins: off").is_empty());
    }

    fn problems(known: &'static Plugins, text: &str) -> Vec<Problem> {
        let mut chains = chains(known);
        chains.place("gateway", &policies(text));
        chains.problems
    }

    #[test]
    fn an_unknown_plugin_is_reported_with_the_nearest_name() {
        let known = plugins(&[("maintenance", Stage::Request)]);
        let found = problems(known, "plugins: {maintenence: off}");
        assert_eq!(found[0].message, "there is no plugin `maintenence`");
        assert_eq!((found[0].at.line, found[0].at.column), (4, 13));
        assert_eq!(found[0].help, ["did you mean `maintenance`?"]);
        assert!(found[0].expected.as_ref().is_some_and(|text| text.ends_with(": `maintenance`")));
        let found = problems(plugins(&[]), "plugins: {maintenence: on}");
        assert_eq!(found[0].help[0], "this tollgate was built without plugins");
    }

    #[test]
    fn problems_of_a_plugin_have_a_position_and_show_no_secret() {
        let known = plugins(&[("a", Stage::Request)]);
        let found = problems(known, "plugins: {a: {colour: gren, secret: \"${KEY}\"}}");
        let found: Vec<_> =
            found.iter().map(|problem| (problem.at.column, problem.message.as_str())).collect();
        assert_eq!(
            found,
            [
                (39, "plugin `a`: what `${KEY}` holds is not good here"),
                (16, "plugin `a`: unlike \"${KEY}\""),
                (25, "plugin `a`: this is no colour"),
            ]
        );
        let found = problems(known, "plugins: {a: {colour: gren}}");
        assert_eq!(found[0].help, ["did you mean `green`?"]);
    }
}
