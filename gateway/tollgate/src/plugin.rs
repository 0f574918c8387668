//! The types and functions with which a plugin is written. Its author depends on this crate alone.
//!
//! A [`Plugin`] parses its settings into a [`Planned`], which becomes a [`Policy`] when a plan that uses it
//! is rolled out. `docs/plugins.md` explains this with an example.

pub use serde;
pub use serde_json;
pub use tollgate_http::RequestHead;
pub use tollgate_observe::{PolicyEvents, Reason};
pub use tollgate_policy::{
    BackgroundIo, BackgroundTask, Block, BodyKind, Consumer, Context, Continuation, CopyMarks, CopyResult,
    CopyWatch, ExchangeOutcome, HeadEdit, OnBody, OnResponses, Origin, PendingVerdict, Planned, Plugin,
    Policy, PolicyResponse, PolicyStates, Refusal, Request, RequestCopy, Reserved, Response, SettingsProblem,
    SettingsProblems, Stage, Transform, UpstreamRequest, UpstreamResponse, Verdict,
    plugin_settings as settings, testing,
};

/// Parses a block of addresses as the configuration's own keys do: `10.0.0.0/8`, or a single address.
///
/// # Errors
/// Returns a readable description of the mistake.
pub fn block(text: &str) -> Result<Block, String> {
    tollgate_config::block(text).map(|block| Block { address: block.address, prefix: block.prefix })
}
