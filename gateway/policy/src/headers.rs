//! `headers`: fields that requests and responses gain and lose.

use std::sync::Arc;

use crate::{Planned, Policy, Request, Response, Shared, Verdict};

/// What changes in the fields of a message: first some go, then others come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Fields that go.
    pub remove: Vec<String>,
    /// Fields that take the place of those of their name.
    pub set: Vec<(String, String)>,
    /// Fields that come beside those of their name.
    pub add: Vec<(String, String)>,
}

impl Change {
    fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.set.is_empty() && self.add.is_empty()
    }

    fn count(&self) -> usize {
        self.remove.len() + self.set.len() + self.add.len()
    }
}

/// Fields that requests gain and lose on their way upstream, and responses on their way back.
#[derive(Clone, Debug, Default)]
pub struct HeaderRules {
    /// Of requests.
    pub request: Change,
    /// Of responses, the gateway's own too.
    pub response: Arc<Change>,
}

impl Planned for HeaderRules {
    fn kind(&self) -> &'static str {
        "headers"
    }

    fn summary(&self) -> String {
        format!("{} of the request, {} of the response", self.request.count(), self.response.count())
    }

    fn live(self: Arc<Self>, _: &str, _: &Arc<Shared>) -> Arc<dyn Policy> {
        self
    }
}

impl Policy for HeaderRules {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        let Change { remove, set, add } = &self.request;
        remove.iter().for_each(|name| request.remove(name));
        set.iter().for_each(|(name, value)| request.set(name, value.as_bytes()));
        add.iter().for_each(|(name, value)| request.append(name, value.as_bytes()));
        if !self.response.is_empty() {
            let change = self.response.clone();
            request.context.on_response(move |response| apply(&change, response));
        }
        Verdict::Continue
    }
}

fn apply(change: &Change, response: &mut Response<'_>) {
    let Change { remove, set, add } = change;
    remove.iter().for_each(|name| response.remove(name));
    set.iter().for_each(|(name, value)| response.set(name, value.as_bytes()));
    add.iter().for_each(|(name, value)| response.append(name, value.as_bytes()));
}
