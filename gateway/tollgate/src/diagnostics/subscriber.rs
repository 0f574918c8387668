//! Receives the events of `tracing`, and decides which of them are written.
//!
//! `tracing` asks once for each place in the code that reports events, and again whenever the levels change.
//! The answer is kept at that place, so an event that is off costs a load and a comparison. There are no
//! spans: the events name the connection or the upstream themselves.

use tollgate_config::LogLevel;
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

use super::levels::level_of;
use super::{LEVELS, destination, line};

/// Writes events to the log's destination.
#[derive(Debug)]
pub struct DiagnosticSubscriber;

impl Subscriber for DiagnosticSubscriber {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && LEVELS.allows(metadata.target(), level_of(*metadata.level()))
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(match LEVELS.most_verbose() {
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
            LogLevel::Trace => LevelFilter::TRACE,
        })
    }

    fn event(&self, event: &Event<'_>) {
        let destination = destination();
        destination.write(line::line(event, destination.format, destination.is_timed));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        // No span is enabled. `tracing` asks for an id all the same if a library forces one.
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
