//! What differs between two plans in their upstreams, found once, so that no worker has to look at all of them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::{Plan, Upstream};

/// What a plan changes of the upstreams of the plan before.
#[derive(Debug, Default)]
pub struct UpstreamChange {
    /// Those that it does not name any longer.
    pub gone: Vec<Arc<Upstream>>,
    /// Those whose name was there and stood for something else, as they are now.
    pub changed: Vec<Arc<Upstream>>,
    /// Those whose name was not there.
    pub added: Vec<Arc<Upstream>>,
}

impl Plan {
    /// Takes over the upstreams of the plan before that are still the same: whoever keeps something for one sees by its
    /// pointer that nothing has changed. Says what else has.
    pub fn follow(&mut self, before: &Plan) -> UpstreamChange {
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
        // In their order: what is done for each must not depend on a hash's seed, or no simulation could replay it.
        let gone = before.upstreams.iter().filter(|upstream| known.contains_key(upstream.name.as_str()));
        change.gone = gone.cloned().collect();
        change
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(upstreams: &str) -> Plan {
        let text = format!("listen: 127.0.0.1:0\nroutes: []\nupstreams: {{{upstreams}}}\n");
        let config = tollgate_config::from_text("", &text, &|_| None).config.expect("a good config");
        crate::compile(&config).expect("it compiles").plan
    }

    fn names(upstreams: &[Arc<Upstream>]) -> Vec<&str> {
        upstreams.iter().map(|upstream| upstream.name.as_str()).collect()
    }

    #[test]
    fn what_is_the_same_is_the_same_object_wherever_it_stands() {
        let before = plan("a: [\"h:1\"], b: [\"h:2\"], c: [\"h:3\"]");
        let mut next = plan("new: [\"h:9\"], c: [\"h:3\"], b: [\"h:22\"]");
        let change = next.follow(&before);
        assert!(Arc::ptr_eq(&next.upstreams[1], &before.upstreams[2]));
        assert_eq!(names(&change.gone), ["a"]);
        assert_eq!(names(&change.changed), ["b"]);
        assert_eq!(names(&change.added), ["new"]);
        assert!(Arc::ptr_eq(&change.changed[0], &next.upstreams[2]), "as they are now");
        assert_eq!(next.upstreams[2].endpoints[0].address.to_string(), "h:22");
    }

    #[test]
    fn what_is_gone_is_told_in_its_order() {
        let upstreams: Vec<String> = (0..100).map(|number| format!("u{number}: [\"h:1\"]")).collect();
        let before = plan(&upstreams.join(", "));
        let gone = plan("other: [\"h:1\"]").follow(&before).gone;
        assert_eq!(names(&gone), names(&before.upstreams));
    }

    #[test]
    fn what_does_not_change_is_no_change() {
        let before = plan("a: [\"h:1\"]");
        let change = plan("a: [\"h:1\"]").follow(&before);
        assert!(change.gone.is_empty() && change.changed.is_empty() && change.added.is_empty());
    }
}
