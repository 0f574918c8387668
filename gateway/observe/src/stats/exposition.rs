//! Renders the metrics as text, in the Prometheus format and in OpenMetrics.
//!
//! The registry calls [`render`] for each scrape, on the control thread. [`Scrape`] writes the families in a fixed order:
//! the modules below have those of its parts, and a group with counters of its own (`grpc`, `streams`, `policies` and
//! others) has an `encode` next to them.

mod clients;
mod configuration;
mod gateway;
mod requests;
mod upstreams;

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};

use super::handshakes;
use super::page::{Exporter, Exposition};
use super::policies;
use super::process::Process;
use super::queueing;
use super::resilience;
use super::shedding;
use super::snapshot::{Snapshot, UpstreamSnapshot};
use super::streams;

pub(super) fn render(snapshot: Snapshot, format: Exposition) -> String {
    let mut registry = prometheus_client::registry::Registry::default();
    registry.register_collector(Box::new(Scrape { snapshot, process: Process::read(), format }));
    let mut text = String::with_capacity(16 * 1024);
    let written = match format {
        Exposition::Text => text::encode_registry(&mut text, &registry),
        Exposition::OpenMetrics => text::encode(&mut text, &registry),
    };
    debug_assert!(written.is_ok(), "writing to a String does not fail");
    text
}

/// The figures of one scrape.
#[derive(Debug)]
struct Scrape {
    snapshot: Snapshot,
    process: Process,
    format: Exposition,
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Exporter::new(encoder, self.format);
        self.requests(&mut page)?;
        self.clients(&mut page)?;
        handshakes::encode(&self.snapshot.handshakes, &self.snapshot.status.certificates, &mut page)?;
        self.upstreams(&mut page)?;
        queueing::encode(&self.of_upstreams(|upstream| &upstream.queueing), &mut page)?;
        self.endpoints(&mut page)?;
        resilience::encode(&self.of_upstreams(|upstream| &upstream.resilience), &mut page)?;
        shedding::encode_adaptive(&self.snapshot.endpoints, &mut page)?;
        shedding::encode_upstreams(
            &self.of_upstreams(|upstream| &upstream.shed),
            &self.snapshot.endpoints,
            &mut page,
        )?;
        shedding::encode_process(&self.snapshot.shed, &self.snapshot.status.resources, &mut page)?;
        streams::encode(&self.snapshot.streams, &mut page)?;
        policies::encode(&self.snapshot.policies, &mut page)?;
        self.log_and_cost(&mut page)?;
        self.admin(&mut page)?;
        self.traces(&mut page)?;
        self.config(&mut page)?;
        self.cache(&mut page)?;
        self.process(&mut page)
    }
}

impl Scrape {
    /// Returns one part of the counts of each upstream, with its name.
    fn of_upstreams<T>(&self, part: impl Fn(&UpstreamSnapshot) -> &T) -> Vec<(&str, &T)> {
        self.snapshot.upstreams.iter().map(|upstream| (&*upstream.name, part(upstream))).collect()
    }
}

#[cfg(test)]
mod tests;
