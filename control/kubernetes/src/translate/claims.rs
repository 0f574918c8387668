//! Claims of routes on listeners. A claim is a match, or a server name, at one listener. Among the routes with the same
//! claim, the oldest gets it, then the first by name.
//!
//! The table has the routes of each claim, so a change of one route affects only the routes with the same claims.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::object::{Kind, Meta, ObjectName, Reference};

/// The order of routes with the same claim: the oldest first, then by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// The time of its creation in RFC 3339.
    created: String,
    name: ObjectName,
    kind: Kind,
}

impl Rank {
    /// Returns the rank of a route.
    pub fn of(kind: Kind, meta: &Meta) -> Self {
        Self { created: meta.creation_timestamp.clone(), name: meta.object_name(), kind }
    }

    fn route(&self) -> Reference {
        Reference { kind: self.kind, name: self.name.clone() }
    }
}

/// The claims of all routes.
#[derive(Debug, Default)]
pub struct Claims(HashMap<Arc<str>, Vec<Arc<Rank>>>);

impl Claims {
    /// Adds the claims of a route. The other routes with these claims may lose them, and are added to `concerned`.
    /// Returns the keys, for the removal.
    pub fn add(
        &mut self,
        rank: &Arc<Rank>,
        wanted: Vec<String>,
        concerned: &mut BTreeSet<Reference>,
    ) -> Box<[Arc<str>]> {
        let add = |claim: String| {
            let known = self.0.get_key_value(claim.as_str()).map(|(key, _)| key.clone());
            let key = known.unwrap_or_else(|| claim.into());
            // Nearly every claim has one route.
            let ranks = self.0.entry(key.clone()).or_insert_with(|| Vec::with_capacity(1));
            concerned.extend(ranks.iter().map(|other| other.route()));
            let place = ranks.partition_point(|other| *other < *rank);
            ranks.insert(place, rank.clone());
            key
        };
        wanted.into_iter().map(add).collect()
    }

    /// Removes the claims of a route. The other routes with these claims may get them, and are added to `concerned`.
    pub fn remove(&mut self, rank: &Rank, keys: &[Arc<str>], concerned: &mut BTreeSet<Reference>) {
        for key in keys {
            let Some(ranks) = self.0.get_mut(key) else { continue };
            ranks.retain(|other| **other != *rank);
            concerned.extend(ranks.iter().map(|other| other.route()));
            if ranks.is_empty() {
                self.0.remove(key);
            }
        }
    }
}

/// The claims of one route that no route of a higher rank has. Each is taken once.
pub struct Taken<'c> {
    claims: &'c Claims,
    rank: &'c Rank,
    own: HashSet<String>,
}

impl<'c> Taken<'c> {
    /// Makes the view of a route whose claims are in the table.
    pub fn new(claims: &'c Claims, rank: &'c Rank) -> Self {
        Self { claims, rank, own: HashSet::new() }
    }

    /// Returns whether the route gets a claim, and has not taken it before.
    pub fn take(&mut self, claim: String) -> bool {
        let first = self.claims.0.get(claim.as_str()).and_then(|ranks| ranks.first());
        first.is_some_and(|first| **first == *self.rank) && self.own.insert(claim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(created: &str, name: &str) -> Arc<Rank> {
        let meta = Meta { creation_timestamp: created.to_owned(), name: name.into(), ..Meta::default() };
        Arc::new(Rank::of(Kind::HttpRoute, &meta))
    }

    fn takes(claims: &Claims, rank: &Rank) -> bool {
        Taken::new(claims, rank).take("a".to_owned())
    }

    #[test]
    fn the_oldest_route_has_what_several_want() {
        let (mut claims, mut concerned) = (Claims::default(), BTreeSet::new());
        let (young, old, twin) = (rank("2", "a"), rank("1", "b"), rank("1", "c"));
        let wanted = || vec!["a".to_owned()];
        let young_keys = claims.add(&young, wanted(), &mut concerned);
        assert!(concerned.is_empty() && takes(&claims, &young));
        let old_keys = claims.add(&old, wanted(), &mut concerned);
        claims.add(&twin, wanted(), &mut concerned);
        assert_eq!(concerned.len(), 2, "{concerned:?}");
        assert!(takes(&claims, &old) && !takes(&claims, &young) && !takes(&claims, &twin));
        concerned.clear();
        claims.remove(&old, &old_keys, &mut concerned);
        assert_eq!(concerned.len(), 2, "{concerned:?}");
        assert!(takes(&claims, &twin) && !takes(&claims, &young));
        claims.remove(&young, &young_keys, &mut concerned);
        assert_eq!(claims.0.len(), 1);
    }

    #[test]
    fn a_route_takes_a_match_once() {
        let (mut claims, rank) = (Claims::default(), rank("1", "a"));
        claims.add(&rank, vec!["a".to_owned()], &mut BTreeSet::new());
        let mut taken = Taken::new(&claims, &rank);
        assert!(taken.take("a".to_owned()) && !taken.take("a".to_owned()) && !taken.take("b".to_owned()));
    }
}
