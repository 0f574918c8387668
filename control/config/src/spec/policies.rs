//! The key `policies`. The program registers the kinds of policies: see [`policy_kinds`](crate::policy_kinds).

use super::{KeySpec, Shape, Text};
use crate::policy_kinds::policies_section;

static SET_NAME: Text =
    Text { expected: "the name of a set under `policy_sets`", pattern: Some("."), loose: false };
static SET_NAME_SHAPE: Shape = Shape::Text(&SET_NAME);
pub(crate) static POLICY_SET_VALUE: Shape = POLICIES_SHAPE;
/// The section `policies`, which the registered kinds make.
pub(crate) const POLICIES_SHAPE: Shape = Shape::Registered(policies_section);

/// The key `use`.
pub(crate) const USE_KEY: KeySpec = KeySpec::new(
    "use",
    "Policy sets, under `policy_sets`, that also apply here. Policies next to `use` override the \
    sets, and a later set overrides an earlier one. Not allowed inside a set.",
    Shape::OneOrMany(&SET_NAME_SHAPE),
)
.aliases(&["uses", "set", "sets", "policy_set", "policy_sets", "plugin_config_id", "middlewares_from"]);
