//! The proxy cache: the rules of RFC 9111, a store in memory that all workers share, and a [disk tier](DiskSettings) behind it.
//!
//! The rules and the store do no I/O. The disk tier writes on a thread of its own, and reads on the threads of its
//! callers, which are not workers. The path of a request through the crate:
//!
//! 1. The worker reads the request's [`RequestControl`] and asks [`Store::lookup`] for its key.
//! 2. For a [`Lookup::Hit`], [`reuse`] decides between serving, validating, and serving while another request
//!    validates. [`answer`] then chooses between 200, 206, 304 and 416. A hit takes no lock and allocates nothing.
//! 3. If memory has nothing and [`Store::may_be_on_disk`] returns true, a thread loads the [candidates](DiskCandidate),
//!    and [`Store::promote`] returns the valid ones.
//! 4. Otherwise [`Store::begin`] makes the request the leader of a new fetch, or a follower of a running one. The
//!    leader holds a [`Fill`], the follower a [`Follower`], possibly on another worker.
//! 5. When a response arrives, [`admit`] decides whether it is stored, and makes its [`StoredHead`]. The leader hands
//!    head and body to its [`Fill`] as they arrive; followers read them at once. A 304 refreshes the stored response by
//!    [`StoredHead::updated_by`] and [`Fill::freshen`].
//!    A long response may be stored in slices instead: [`admit_slice`].
//! 6. A response to an unsafe method makes [`invalidated`] list the targets to [remove](Store::purge).
//!
//! Times are [`Moment`]s that the caller reads from the clock. Invariant: a response is given only to a request with
//! the key and the varying fields that it was stored for; a hash alone never decides.

mod disk;
mod moment;
mod purge;
mod rules;
mod store;
mod stored_head;
#[cfg(test)]
mod test_messages;

pub use disk::{
    AnnouncedRecord, AnnouncedRemoval, DiskCandidate, DiskCounters, DiskRecord, DiskSettings, DiskState,
    DiskStatus, Loaded, LookupTurn, PURGE_GAP_MAX,
};
pub use moment::Moment;
pub use purge::{Purge, PurgeMode};
pub use rules::admit::{Admission, NotStored, admit};
pub use rules::age::Received;
pub use rules::answer::{answer, answer_for, is_of_content, not_modified_lines};
pub use rules::cache_status::{CacheStatus, Forward, write_cache_status};
pub use rules::directives::{Directive, directives};
pub use rules::freshness::Freshness;
pub use rules::invalidation::{Invalidated, invalidated};
pub use rules::request_control::RequestControl;
pub use rules::response_control::ResponseControl;
pub use rules::reuse::{Allowances, Reuse, may_serve_on_error, reuse};
pub use rules::slices::{PartRange, admit_slice};
pub use rules::validation::{Updated, select_validated, write_conditions};
pub use rules::vary::{Normal, Vary, VaryRules};
pub use store::body::DiskBody;
pub use store::counters::Counts;
pub use store::fill::{Fill, Pushed, Unsent};
pub use store::follower::{Chunk, Follower, Start};
pub use store::form_fill::FormFill;
pub use store::stored::Stored;
pub use store::{Begin, Lookup, Store, StoreSettings};
pub use stored_head::StoredHead;
