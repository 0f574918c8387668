//! Reads `plugins`.

use super::super::respond::json;
use crate::documents::escape;
use crate::model::{PluginPolicies, PluginPolicy, PluginSettings, SettingPlace, Spanned};
use crate::problem::Problem;
use crate::reader::{Field, Reader};
use crate::spec::PLUGIN_SETTINGS;
use crate::tree::{MappingEntry, Node, NodeKind, Scalar, shown};

pub(super) fn plugins(reader: &mut Reader, field: Field<'_>) -> Option<PluginPolicies> {
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
            reader.problems.push(problem.expected(PLUGIN_SETTINGS));
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

fn walk(out: &mut PluginSettings, node: &Node, pointer: &mut String, key: Option<crate::model::At>) {
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
                pointer.push_str(&escape(&entry.key));
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

    use crate::model::{PluginSettings, PolicySpec};

    fn settings(text: &str) -> PluginSettings {
        let text = format!("listen: 127.0.0.1:0\nroutes: []\npolicies:\n  plugins:\n    a:\n{text}");
        let loaded = crate::from_text("t", &text, &|name| (name == "KEY").then(|| "a \"word\"".to_owned()));
        let config = loaded.config.unwrap_or_else(|| panic!("{}", loaded.problems.render(false)));
        let PolicySpec::Plugins(plugins) = &**config.policies.list[0].spec.as_ref().expect("it is on") else {
            panic!("{config:?}")
        };
        plugins.list[0].settings.clone().expect("it is on")
    }

    #[test]
    fn what_is_written_and_where() {
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
    fn what_variables_hold_is_not_shown() {
        let settings = settings("      key: ${KEY}\n      other: word\n");
        assert_eq!(settings.value["key"], "a \"word\"");
        assert_eq!((settings.variable("/key"), settings.variable("/other")), (Some("${KEY}"), None));
        assert_eq!(settings.shown("`a \"word\"` and \"a \\\"word\\\"\""), "`${KEY}` and \"${KEY}\"");
    }
}
