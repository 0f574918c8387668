//! The hash tables of a router.

use std::collections::HashMap;

/// Keys come from the configuration, so a client cannot fill a bucket. It can only look up existing keys, and
/// a table's longest probe is short. A keyed hash against flooding (SipHash) would gain nothing, for some 20
/// ns per look-up; foldhash, the default of `hashbrown`, is randomly seeded anyway.
pub(super) type Map<V> = HashMap<Box<[u8]>, V, foldhash::fast::RandomState>;
