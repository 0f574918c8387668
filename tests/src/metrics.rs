//! Parses Prometheus' text format, as far as the tests need it.

/// The samples of one scrape: each series as written (`name{label="value"}`), and its value.
#[derive(Clone, Debug)]
pub struct Metrics(pub Vec<(String, f64)>);

impl Metrics {
    /// Parses a scrape.
    ///
    /// # Panics
    /// Panics if a line is neither a comment nor a sample.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let samples = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("not a sample: {line:?}"));
            let value = value.parse().unwrap_or_else(|_| panic!("not a number: {line:?}"));
            (series.to_owned(), value)
        });
        Self(samples.collect())
    }

    /// Returns the sum over the series of `name` whose labels contain `labels` (`reason="no_route"`), or
    /// `None` if there is no such series.
    #[must_use]
    pub fn sum(&self, name: &str, labels: &str) -> Option<f64> {
        let matching = self.0.iter().filter(|(series, _)| {
            let (own, rest) = series.split_once('{').unwrap_or((series, ""));
            own == name && rest.contains(labels)
        });
        matching.map(|(_, value)| *value).reduce(|a, b| a + b)
    }
}
