//! The evidence for a verdict, in words: the checks add sentences, and the report shows them with the verdict.

use tollgate_lab_record::Finding;

/// The sentences so far, in the order of the checks.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<Finding>);

impl Findings {
    /// Adds a sentence.
    pub fn add(&mut self, text: String) {
        self.0.push(Finding { text });
    }

    pub fn into_vec(self) -> Vec<Finding> {
        self.0
    }
}

/// Formats a share of 1 as a percentage.
pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}
