//! `plugins`: policies that this program may not know.

use serde_json::Value;

use crate::model::{At, Spanned};

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
    pub(crate) places: Vec<SettingPlace>,
    /// Texts that contain the value of an environment variable, each with the text as written.
    pub(crate) variables: Vec<(String, String)>,
}

/// Source position of one part of a plugin's settings.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SettingPlace {
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
