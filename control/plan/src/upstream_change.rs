//! Finds how the upstreams of two plans differ. The control thread does it once, so that no worker compares
//! them all.

use std::collections::HashMap;
use std::sync::Arc;

use crate::{Plan, Upstream};

/// The difference between the upstreams of a plan and of the plan before it.
#[derive(Debug, Default)]
pub struct UpstreamChange {
    /// Upstreams that the new plan no longer has.
    pub removed: Vec<Arc<Upstream>>,
    /// Upstreams whose name both plans have, but with other settings; as the new plan has them.
    pub changed: Vec<Arc<Upstream>>,
    /// Upstreams whose name only the new plan has.
    pub added: Vec<Arc<Upstream>>,
}

impl Plan {
    /// Replaces each upstream that has not changed by the object of the plan before, and returns the
    /// differences. Code that keeps state for an upstream then sees by the pointer alone that nothing has
    /// changed.
    pub fn reuse_upstreams(&mut self, before: &Plan) -> UpstreamChange {
        let mut known: HashMap<&str, &Arc<Upstream>> =
            before.upstreams.iter().map(|upstream| (upstream.name.as_str(), upstream)).collect();
        let mut change = UpstreamChange::default();
        for upstream in &mut self.upstreams {
            match known.remove(upstream.name.as_str()) {
                Some(same) if **same == **upstream => *upstream = same.clone(),
                Some(_) => change.changed.push(upstream.clone()),
                None => change.added.push(upstream.clone()),
            }
        }
        // In the order of the plan. Work done for each upstream must not depend on a hash seed, or a
        // simulation could not be replayed.
        let gone = before.upstreams.iter().filter(|upstream| known.contains_key(upstream.name.as_str()));
        change.removed = gone.cloned().collect();
        change
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(upstreams: &str) -> Plan {
        let text = format!("listen: 127.0.0.1:0\nroutes: []\nupstreams: {{{upstreams}}}\n");
        tollgate_policy::register();
        let config = tollgate_config::from_text("", &text, &|_| None).config.expect("a good config");
        crate::compile(&config).expect("it compiles").plan
    }

    fn names(upstreams: &[Arc<Upstream>]) -> Vec<&str> {
        upstreams.iter().map(|upstream| upstream.name.as_str()).collect()
    }

    #[test]
    fn equal_upstreams_are_the_same_object() {
        let before = plan("a: [\"h:1\"], b: [\"h:2\"], c: [\"h:3\"]");
        let mut next = plan("new: [\"h:9\"], c: [\"h:3\"], b: [\"h:22\"]");
        let change = next.reuse_upstreams(&before);
        assert!(Arc::ptr_eq(&next.upstreams[1], &before.upstreams[2]));
        assert_eq!(names(&change.removed), ["a"]);
        assert_eq!(names(&change.changed), ["b"]);
        assert_eq!(names(&change.added), ["new"]);
        assert!(Arc::ptr_eq(&change.changed[0], &next.upstreams[2]), "as they are now");
        assert_eq!(next.upstreams[2].endpoints[0].address.to_string(), "h:22");
    }

    #[test]
    fn removed_upstreams_are_listed_in_order() {
        let upstreams: Vec<String> = (0..100).map(|number| format!("u{number}: [\"h:1\"]")).collect();
        let before = plan(&upstreams.join(", "));
        let gone = plan("other: [\"h:1\"]").reuse_upstreams(&before).removed;
        assert_eq!(names(&gone), names(&before.upstreams));
    }

    #[test]
    fn equal_settings_are_no_change() {
        let before = plan("a: [\"h:1\"]");
        let change = plan("a: [\"h:1\"]").reuse_upstreams(&before);
        assert!(change.removed.is_empty() && change.changed.is_empty() && change.added.is_empty());
    }
}
