//! The differences between the two roles of a connection, which `receive` and [`Core`] ask for.

use std::fmt::Debug;

use crate::shared::core::{Core, HeaderBlock};
use crate::shared::error_code::ErrorCode;
use crate::shared::fields::FieldSection;
use crate::shared::settings::PeerSettings;
use crate::shared::streams::StreamKey;

/// A role of a connection, server or client: the state that only this role has, and its reaction to the
/// frames whose meaning depends on the role.
pub(crate) trait Role: Debug + Sized {
    /// The state of a stream that only this role has.
    type Stream: Debug + Default;

    /// Clears the state of a stream that ended, for reuse by another one.
    fn clear(stream: &mut Self::Stream);

    /// Called when the preface was received, which only a server receives.
    fn on_preface(core: &mut Core<Self>);

    /// The largest size of a field block on the wire, in bytes.
    fn block_max_bytes(core: &Core<Self>) -> usize;

    /// The last stream that a GOAWAY names: the last one of the peer that may have been processed.
    fn last_peer_stream(core: &Core<Self>) -> u32;

    /// Whether frames for a stream that does not exist are ignored although it was never opened.
    fn ignores(core: &Core<Self>, id: u32) -> bool;

    /// Handles a decoded head or trailer section.
    ///
    /// # Errors
    /// An error that ends the connection.
    fn on_section(core: &mut Core<Self>, block: &HeaderBlock, fields: FieldSection) -> Result<(), ErrorCode>;

    /// Called before the connection ends because the field block of stream `id` is too large.
    fn on_oversized_block(core: &mut Core<Self>, id: u32, ends_stream: bool);

    /// Called for a frame that carries no data.
    ///
    /// # Errors
    /// An error that ends the connection.
    fn on_overhead(core: &mut Core<Self>, cost: u32) -> Result<(), ErrorCode>;

    /// Called when DATA arrives for a stream. Returns whether the stream may receive it now.
    fn accepts_data(stream: &Self::Stream) -> bool;

    /// Called when DATA of `count` bytes was sent.
    fn on_data_sent(core: &mut Core<Self>, count: usize);

    /// Whether a stream stays readable although its peer reset it.
    fn survives_reset(has_received_end: bool) -> bool;

    /// Handles the payload of a valid GOAWAY.
    ///
    /// # Errors
    /// An error that ends the connection.
    fn on_goaway(core: &mut Core<Self>, last: u32) -> Result<(), ErrorCode>;

    /// Checks SETTINGS before they apply.
    ///
    /// # Errors
    /// An error that ends the connection.
    fn on_settings(core: &mut Core<Self>, settings: &PeerSettings) -> Result<(), ErrorCode>;

    /// Handles the acknowledgement of a PING.
    fn on_ping_ack(core: &mut Core<Self>, payload: [u8; 8]);

    /// Called when what a reset stream has received is discarded.
    fn on_discard(core: &mut Core<Self>, key: StreamKey);

    /// The code with which an incomplete stream is reset when its handle is dropped.
    fn drop_code(has_sent_end: bool) -> ErrorCode;

    /// Whether a dropped stream may complete the end of the connection.
    fn may_be_finished(core: &Core<Self>) -> bool;

    /// Called when the connection ends, after its streams were marked.
    fn on_abort(core: &mut Core<Self>);
}
