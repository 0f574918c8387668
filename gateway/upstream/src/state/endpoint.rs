//! State of one endpoint that all workers share.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_net::Address;

use super::limits::EndpointLimits;
use crate::health::ProbeRecord;
use crate::outlier::EndpointOutlier;
use crate::tls_failures::EndpointTlsFailure;

/// The health of an endpoint, according to probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ProbeHealth {
    /// No probe has decided yet. The endpoint is treated as healthy.
    Unknown = 0,
    /// Probes succeed.
    Healthy = 1,
    /// Probes fail. The endpoint gets no requests, except in a panic.
    Unhealthy = 2,
}

/// State of one endpoint that all workers share.
#[derive(Debug)]
pub struct EndpointState {
    /// The address to connect to. Unique among the endpoints of the upstream.
    pub address: Address,
    health: AtomicU8,
    /// The stamp at which its ejection ends; 0 if it is not ejected.
    ejected_until: AtomicU64,
    /// The stamp since which it takes requests, for slow start; 0 if it needs no slow start.
    ready_since: AtomicU64,
    /// Whether connections to it lead back to this process.
    leads_to_self: AtomicBool,
    /// The connections in use, under the limit that its upstream has for each endpoint.
    pub(crate) limits: EndpointLimits,
    /// Counts of the outcomes of its requests, for outlier detection.
    pub(crate) outlier: EndpointOutlier,
    /// The results of its health probes.
    probe_record: Mutex<ProbeRecord>,
    /// The last TLS failure.
    pub(crate) tls: EndpointTlsFailure,
}

impl EndpointState {
    pub(super) fn new(address: Address) -> Self {
        Self {
            address,
            health: AtomicU8::new(ProbeHealth::Unknown as u8),
            ejected_until: AtomicU64::new(0),
            ready_since: AtomicU64::new(0),
            leads_to_self: AtomicBool::new(false),
            limits: EndpointLimits::default(),
            outlier: EndpointOutlier::default(),
            probe_record: Mutex::default(),
            tls: EndpointTlsFailure::default(),
        }
    }

    /// Whether a connection to the endpoint has led back to this process.
    #[inline]
    pub(crate) fn leads_to_self(&self) -> bool {
        self.leads_to_self.load(Ordering::Relaxed)
    }

    /// Records that a connection to the endpoint led back to this process.
    pub(crate) fn mark_leads_to_self(&self) {
        self.leads_to_self.store(true, Ordering::Relaxed);
    }

    /// Returns the health of the endpoint, according to probes.
    pub fn health(&self) -> ProbeHealth {
        match self.health.load(Ordering::Relaxed) {
            1 => ProbeHealth::Healthy,
            2 => ProbeHealth::Unhealthy,
            _ => ProbeHealth::Unknown,
        }
    }

    /// Sets the health of the endpoint. Call [`mark_changed`](crate::UpstreamState::mark_changed) afterwards, so that workers see
    /// it.
    pub fn set_health(&self, health: ProbeHealth) {
        self.health.store(health as u8, Ordering::Relaxed);
    }

    /// Locks the results of the endpoint's probes.
    pub(crate) fn probe_record(&self) -> MutexGuard<'_, ProbeRecord> {
        // A panic under the lock cannot leave the record half changed.
        self.probe_record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the text of the last TLS failure, if TLS has not worked since.
    pub fn tls_failure(&self) -> Option<String> {
        self.tls.last().map(|(_, fault)| fault.text().to_owned())
    }

    /// Returns the stamp at which the ejection ends; 0 if the endpoint is not ejected.
    pub fn ejected_until(&self) -> u64 {
        self.ejected_until.load(Ordering::Relaxed)
    }

    /// Ejects the endpoint until a stamp, or ends its ejection (0). Call [`mark_changed`](crate::UpstreamState::mark_changed)
    /// afterwards, so that workers see it.
    pub fn set_ejected_until(&self, stamp: u64) {
        self.ejected_until.store(stamp, Ordering::Relaxed);
    }

    /// Returns the stamp since which the endpoint takes requests; 0 if it needs no slow start.
    pub fn ready_since(&self) -> u64 {
        self.ready_since.load(Ordering::Relaxed)
    }

    /// Sets the stamp at which slow start begins.
    pub fn set_ready_since(&self, stamp: u64) {
        self.ready_since.store(stamp, Ordering::Relaxed);
    }

    /// Whether the endpoint may take requests: it is neither unhealthy nor ejected.
    pub fn is_available(&self) -> bool {
        self.health() != ProbeHealth::Unhealthy && self.ejected_until() == 0
    }
}
