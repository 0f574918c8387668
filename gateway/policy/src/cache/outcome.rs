//! The outcome of a request at the cache: the value of the field `cache_status` in the access log, and the event in the metrics.

macro_rules! outcomes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal, $from_store:literal;)+) => {
        /// The outcome of a request at the cache.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum CacheOutcome {
            $($(#[$doc])* $variant,)+
        }

        impl CacheOutcome {
            /// Every outcome.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

            /// Returns its spelling in the log and the metrics.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// Returns whether the body came from the store.
            #[must_use]
            pub const fn is_from_store(self) -> bool {
                match self { $(Self::$variant => $from_store,)+ }
            }
        }
    };
}

outcomes! {
    /// A fresh response was stored.
    Hit = "hit", true;
    /// A fresh response was stored on disk, and not in memory.
    HitDisk = "hit_disk", true;
    /// A stale response was served: while it is fetched again, in place of an error, or because the client takes it.
    Stale = "stale", true;
    /// The upstream has confirmed the stored response.
    Revalidated = "revalidated", true;
    /// Another request was fetching the response.
    Coalesced = "coalesced", true;
    /// Nothing was stored.
    Miss = "miss", false;
    /// The stored response had expired.
    Expired = "expired", false;
    /// The request did not concern the cache.
    Bypass = "bypass", false;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_numbered_in_order() {
        for (number, outcome) in CacheOutcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, number, "{}", outcome.as_str());
        }
    }
}
