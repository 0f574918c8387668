//! The page of a scrape: declares families of metrics and writes their samples.
//!
//! [`exposition`](super::exposition) and the files that count write their families through [`Exporter`], so
//! that both text formats have the same families.

use std::fmt;

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;

use super::histogram::HistogramSnapshot;

/// The two formats of a scrape. They differ in the declaration of counters, and in the end mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposition {
    /// Prometheus' text format, version 0.0.4.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Exposition {
    /// Returns the `Content-Type` of the format.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Exposition::Text => "text/plain; version=0.0.4; charset=utf-8",
            Exposition::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Declares families in the way that the format requires.
pub(super) struct Exporter<'a> {
    encoder: DescriptorEncoder<'a>,
    format: Exposition,
}

impl<'a> Exporter<'a> {
    pub(super) fn new(encoder: DescriptorEncoder<'a>, format: Exposition) -> Self {
        Exporter { encoder, format }
    }

    /// Declares a counter. `name` ends in `_total`. OpenMetrics omits the suffix from the declaration and adds it
    /// to each sample. The older format declares the counter by its whole name, which the encoder writes only
    /// for a gauge.
    pub(super) fn counter(&mut self, name: &'static str, help: &str) -> Result<Family<'_>, fmt::Error> {
        debug_assert!(name.ends_with("_total"), "{name}");
        let (name, suffixed) = match self.format {
            Exposition::OpenMetrics => (name.trim_end_matches("_total"), true),
            Exposition::Text => (name, false),
        };
        let encoder = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        Ok(Family { encoder, suffixed })
    }

    pub(super) fn gauge(&mut self, name: &'static str, help: &str) -> Result<Family<'_>, fmt::Error> {
        let encoder = self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        Ok(Family { encoder, suffixed: false })
    }

    pub(super) fn histogram(&mut self, name: &'static str, help: &str) -> Result<Histograms<'_>, fmt::Error> {
        Ok(Histograms(self.encoder.encode_descriptor(name, help, None, MetricType::Histogram)?))
    }
}

/// The samples of a counter or gauge.
pub(super) struct Family<'a> {
    encoder: MetricEncoder<'a>,
    suffixed: bool,
}

impl Family<'_> {
    /// Writes the only sample, without labels.
    pub(super) fn set<V: EncodeCounterValue + EncodeGaugeValue>(&mut self, value: V) -> fmt::Result {
        write(&mut self.encoder, self.suffixed, &value)
    }

    pub(super) fn add<const N: usize, V: EncodeCounterValue + EncodeGaugeValue>(
        &mut self,
        labels: &[(&str, &str); N],
        value: V,
    ) -> fmt::Result {
        write(&mut self.encoder.encode_family(labels)?, self.suffixed, &value)
    }
}

fn write<V: EncodeCounterValue + EncodeGaugeValue>(
    encoder: &mut MetricEncoder<'_>,
    suffixed: bool,
    value: &V,
) -> fmt::Result {
    match suffixed {
        true => encoder.encode_counter::<NoLabelSet, V, f64>(value, None),
        false => encoder.encode_gauge(value),
    }
}

/// The samples of a histogram.
pub(super) struct Histograms<'a>(MetricEncoder<'a>);

impl Histograms<'_> {
    pub(super) fn add(&mut self, labels: &[(&str, &str); 1], histogram: &HistogramSnapshot) -> fmt::Result {
        self.0.encode_family(labels)?.encode_histogram::<NoLabelSet>(
            histogram.seconds(),
            histogram.count(),
            &histogram.buckets(),
            None,
        )
    }
}
