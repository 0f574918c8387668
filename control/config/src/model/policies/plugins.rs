//! `plugins`: policies that this program may not know.

use serde_json::Value;

use crate::model::{At, Spanned};

/// `plugins`: policies of plugins, each by its name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PluginPolicies {
    /// In the order in which they are written.
    pub list: Vec<PluginPolicy>,
}

/// A plugin that is attached to something, or kept from it.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginPolicy {
    /// Its name.
    pub name: Spanned<String>,
    /// What it is to do; `None`: `off`, what is attached further out does not hold here.
    pub settings: Option<PluginSettings>,
}

/// A plugin's settings, as they are written, and where each part of them is. What they mean only the plugin knows.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginSettings {
    /// The settings.
    pub value: Value,
    /// The settings as a whole first.
    pub(crate) places: Vec<SettingPlace>,
    /// Texts that hold what variables of the environment do, and how those are written.
    pub(crate) variables: Vec<(String, String)>,
}

/// Where a part of a plugin's settings is written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SettingPlace {
    /// Which part: a JSON pointer (RFC 6901).
    pub pointer: String,
    /// Where its key is, if it has one.
    pub key: Option<At>,
    /// Where its value is.
    pub at: At,
    /// How the variable of the environment is written that it holds.
    pub variable: Option<String>,
}

impl PluginSettings {
    /// Where the value at a JSON pointer is written, or its `key`; of what is not there, where what should hold it is.
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

    /// How the variable of the environment is written that the value at a JSON pointer holds. Nothing of such a value may be
    /// shown: it may be secret.
    #[must_use]
    pub fn variable(&self, pointer: &str) -> Option<&str> {
        self.place(pointer)?.variable.as_deref()
    }

    /// A text to be shown: what variables of the environment hold is told by their names.
    #[must_use]
    pub fn shown(&self, text: &str) -> String {
        self.variables.iter().fold(text.to_owned(), |text, (held, written)| text.replace(held, written))
    }
}
