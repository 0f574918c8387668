use super::Shape;

/// What may stand for a plugin, for messages.
pub(crate) const PLUGIN_SETTINGS: &str =
    "the settings of the plugin, `on` for those it has by itself, or `off`";

/// A plugin's own settings, whatever they are.
pub(crate) static PLUGIN_SHAPE: Shape = Shape::Anything;
