//! The key `plugins`: plugins by name, each with settings that only it understands.

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use tollgate_config::section::{
    Field, KeySpec, MappingEntry, Node, NodeKind, Problem, Reader, Scalar, Shape, json, shown,
};
use tollgate_config::{At, PemFile, PolicyKind, PolicySettings, Spanned};

use super::settings::escaped;

/// Valid values of a plugin, for messages.
const SETTINGS: &str = "the settings of the plugin, `on` for its defaults, or `off`";
/// A plugin's own settings, in any form.
static ANYTHING: Shape = Shape::Anything;
static FORMS: [Shape; 2] = [Shape::Off, Shape::MapOf(&ANYTHING)];

/// The key `plugins`. Each plugin that it names is a policy of its own, at the place of its stage.
#[derive(Debug)]
pub(crate) struct PluginsKey;

impl PolicyKind for PluginsKey {
    fn key(&self) -> KeySpec {
        KeySpec::new(
            "plugins",
            "Plugins that are built into this program: each name with its settings, `on` or `off`.",
            Shape::AnyOf(&FORMS),
        )
        .aliases(&["plugin", "extensions", "wasm", "filters", "middlewares", "http_filters"])
    }

    fn is_guard(&self) -> bool {
        false
    }

    fn read(&self, reader: &mut Reader, field: Field<'_>) -> Option<Arc<dyn PolicySettings>> {
        plugins(reader, field).map(|plugins| Arc::new(plugins) as _)
    }
}

impl PolicySettings for PluginPolicies {
    fn equals(&self, other: &dyn PolicySettings) -> bool {
        (other as &dyn Any).downcast_ref() == Some(self)
    }

    fn copy(&self) -> Arc<dyn PolicySettings> {
        Arc::new(self.clone())
    }

    fn names_files(&self) -> bool {
        false
    }

    fn files(&mut self) -> Vec<&mut PemFile> {
        Vec::new()
    }

    fn sockets(&self) -> Vec<(At, PathBuf)> {
        Vec::new()
    }

    fn upstreams(&self) -> Vec<&Spanned<String>> {
        Vec::new()
    }
}

/// `plugins`: policies of plugins, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PluginPolicies {
    /// The plugins, in the order written.
    pub list: Vec<PluginPolicy>,
}

/// A plugin that is attached or switched off.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginPolicy {
    /// Name of the plugin.
    pub name: Spanned<String>,
    /// Its settings. `None` is `off`: a plugin inherited from an outer level does not apply here.
    pub settings: Option<PluginSettings>,
}

/// A plugin's settings as written, with the source position of each part. Only the plugin knows what they
/// mean.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginSettings {
    /// The settings as JSON.
    pub value: Value,
    /// Source positions; the settings as a whole come first.
    places: Vec<SettingPlace>,
    /// Texts that contain the value of an environment variable, each with the text as written.
    variables: Vec<(String, String)>,
}

/// Source position of one part of a plugin's settings.
#[derive(Clone, Debug, PartialEq)]
struct SettingPlace {
    /// The part, as a JSON pointer (RFC 6901).
    pub pointer: String,
    /// Source position of its key, if it has one.
    pub key: Option<At>,
    /// Source position of its value.
    pub at: At,
    /// The original text, if the value contains an environment variable.
    pub variable: Option<String>,
}

impl PluginSettings {
    /// Returns the source position of the value at a JSON pointer, or of its key if `key` is set. For a value
    /// that does not exist, returns the position of the closest existing parent.
    #[must_use]
    pub fn at(&self, pointer: &str, key: bool) -> At {
        self.place(pointer).map(|place| place.key.filter(|_| key).unwrap_or(place.at)).unwrap_or_default()
    }

    fn place(&self, pointer: &str) -> Option<&SettingPlace> {
        let mut pointer = pointer;
        loop {
            if let Some(found) = self.places.iter().find(|place| place.pointer == pointer) {
                return Some(found);
            }
            pointer = &pointer[..pointer.rfind('/')?];
        }
    }

    /// Returns the original text of the value at a JSON pointer, if it contains an environment variable. The
    /// value itself must not be shown: it may be secret.
    #[must_use]
    pub fn variable(&self, pointer: &str) -> Option<&str> {
        self.place(pointer)?.variable.as_deref()
    }

    /// Returns `text` in a form that may be shown: values of environment variables are replaced by the
    /// original text.
    #[must_use]
    pub fn shown(&self, text: &str) -> String {
        self.variables.iter().fold(text.to_owned(), |text, (held, written)| text.replace(held, written))
    }
}

fn plugins(reader: &mut Reader, field: Field<'_>) -> Option<PluginPolicies> {
    let NodeKind::Map(entries) = &field.node.kind else {
        reader.mismatch(field.node, "`plugins`", field.key.shape.expected());
        return None;
    };
    Some(PluginPolicies { list: entries.iter().filter_map(|entry| plugin(reader, entry)).collect() })
}

fn plugin(reader: &mut Reader, entry: &MappingEntry) -> Option<PluginPolicy> {
    if entry.value.is_invalid() {
        return None;
    }
    if entry.value.is_null() {
        if reader.complete {
            let problem = Problem::error(entry.at, format!("{} has no value", shown(&entry.key)));
            reader.problems.push(problem.expected(SETTINGS));
        }
        return None;
    }
    let name = Spanned { value: entry.key.clone(), at: entry.at };
    let switch = entry.value.scalar().and_then(Scalar::switch);
    let settings = (switch != Some(false)).then(|| settings(&entry.value, switch == Some(true)));
    Some(PluginPolicy { name, settings })
}

/// Returns the settings with their source positions. `bare` means `on`, which is the same as no settings.
fn settings(node: &Node, bare: bool) -> PluginSettings {
    let value = if bare { serde_json::json!({}) } else { json(node) };
    let mut out = PluginSettings { value, places: Vec::new(), variables: Vec::new() };
    walk(&mut out, node, &mut String::new(), None);
    // The longest values come first, because one may contain another.
    out.variables.sort_by_key(|(held, _)| std::cmp::Reverse(held.len()));
    out.variables.dedup();
    out
}

fn walk(out: &mut PluginSettings, node: &Node, pointer: &mut String, key: Option<At>) {
    let variable = node.scalar().and_then(|scalar| scalar.written.clone());
    if let (Some(scalar), Some(written)) = (node.scalar(), &variable)
        && !scalar.text.is_empty()
    {
        out.variables.push((scalar.text.clone(), written.clone()));
        // Messages may also show the text in quoted form, with escapes.
        let escaped = format!("{:?}", scalar.text);
        let escaped = escaped[1..escaped.len() - 1].to_owned();
        if escaped != scalar.text {
            out.variables.push((escaped, written.clone()));
        }
    }
    out.places.push(SettingPlace { pointer: pointer.clone(), key, at: node.at, variable });
    let length = pointer.len();
    match &node.kind {
        NodeKind::Map(entries) => {
            for entry in entries {
                pointer.push_str(&format!("/{}", escaped(&entry.key)));
                walk(out, &entry.value, pointer, Some(entry.at));
                pointer.truncate(length);
            }
        }
        NodeKind::List(items) => {
            for (index, item) in items.iter().enumerate() {
                pointer.push_str(&format!("/{index}"));
                walk(out, item, pointer, None);
                pointer.truncate(length);
            }
        }
        NodeKind::Scalar(_) | NodeKind::Invalid => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settings(text: &str) -> PluginSettings {
        crate::register();
        let text = format!("listen: 127.0.0.1:0\nroutes: []\npolicies:\n  plugins:\n    a:\n{text}");
        let loaded =
            tollgate_config::from_text("t", &text, &|name| (name == "KEY").then(|| "a \"word\"".to_owned()));
        let config = loaded.config.unwrap_or_else(|| panic!("{}", loaded.problems.render(false)));
        let spec: &dyn std::any::Any = &**config.policies.list[0].spec.as_ref().expect("it is on");
        let Some(plugins) = spec.downcast_ref::<PluginPolicies>() else { panic!("{config:?}") };
        plugins.list[0].settings.clone().expect("it is on")
    }

    #[test]
    fn values_and_their_positions() {
        let settings = settings("      one: [x, {a/b: 010}]\n      two: off\n      half: 0.50\n");
        assert_eq!(settings.value, json!({"one": ["x", {"a/b": "010"}], "two": "off", "half": 0.5}));
        let place = |pointer: &str, key| {
            let at = settings.at(pointer, key);
            (at.line, at.column)
        };
        assert_eq!(place("/one/0", false), (6, 13));
        assert_eq!((place("/one/1/a~1b", false), place("/one/1/a~1b", true)), ((6, 22), (6, 17)));
        assert_eq!((place("/two", true), place("", false)), ((7, 7), (6, 7)));
        assert_eq!(place("/one/0/missing/more", false), (6, 13), "what should hold it");
    }

    #[test]
    fn values_of_variables_are_not_shown() {
        let settings = settings("      key: ${KEY}\n      other: word\n");
        assert_eq!(settings.value["key"], "a \"word\"");
        assert_eq!((settings.variable("/key"), settings.variable("/other")), (Some("${KEY}"), None));
        assert_eq!(settings.shown("`a \"word\"` and \"a \\\"word\\\"\""), "`${KEY}` and \"${KEY}\"");
    }
}
