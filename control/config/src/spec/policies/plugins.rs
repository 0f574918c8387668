use super::Shape;

/// Valid values of a plugin, for messages.
pub(crate) const PLUGIN_SETTINGS: &str = "the settings of the plugin, `on` for its defaults, or `off`";

/// A plugin's own settings, in any form.
pub(crate) static PLUGIN_SHAPE: Shape = Shape::Anything;
