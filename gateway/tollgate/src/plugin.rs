//! What a plugin is written with: the one crate that its author depends on.
//!
//! A plugin is a [`Plugin`], which makes a [`Planned`] of its settings, which becomes a [`Policy`] when a plan that has it is
//! rolled out. `docs/plugins.md` tells how, with an example.

pub use serde;
pub use serde_json;
pub use tollgate_http::RequestHead;
pub use tollgate_observe::{PolicyEvents, Reason};
pub use tollgate_policy::{
    After, Answer, Asked, Block, BodyKind, Consumer, Context, Edit, Ended, Heard, Marks, Origin, Planned,
    Plugin, Policy, Question, Read, Refusal, Request, Reserved, Response, Said, SettingsProblem,
    SettingsProblems, Shadow, ShadowEnd, Shared, Side, Stage, Transform, Verdict, Waiting, Watch,
    plugin_settings as settings, testing,
};

/// A block of addresses as it is written in the configuration's own keys: `10.0.0.0/8`, or an address alone.
///
/// # Errors
/// What is wrong with the text.
pub fn block(text: &str) -> Result<Block, String> {
    tollgate_config::block(text).map(|block| Block { address: block.address, prefix: block.prefix })
}
