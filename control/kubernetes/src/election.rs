//! Elects the one gateway that writes statuses, by a Lease.
//!
//! All gateways of a class translate and serve alike; the leader also writes statuses. The leader renews the Lease
//! twice per duration, with one request each time. The others watch the Lease, and try to take it only when it has not
//! changed for its duration by their own clock, because the clocks of machines may differ. A write names the version
//! that it replaces, so one candidate wins, and the others read the Lease and wait again.
//!
//! [`Election`] decides without I/O. [`run`] is its task, which reports to the [source](crate::thread).
//!
//! Invariant: a gateway stops leading one duration after it started its last renewal, which is before another gateway
//! may take the Lease. Requests in flight may overlap briefly. This is harmless: statuses are applied whole, and every
//! gateway computes the same ones.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::core::ObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tollgate_net::component;
use tracing::{info, warn};

use crate::object::is_older;
use crate::rights;
use crate::watch::{Pauses, explain as explain_watch};

/// How long the process waits at its end until the Lease is released.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// The Lease, and the gateway that competes for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// The namespace of the Lease. `None`: the namespace of the service account, or of the kubeconfig.
    pub namespace: Option<String>,
    /// The name of the Lease. All gateways with the same controller name have the same.
    pub name: String,
    /// The name of this gateway, different from all others.
    pub holder: String,
    /// A Lease that was not renewed for this long is free.
    pub duration: Duration,
}

impl LeaseSettings {
    /// Returns how often the leader renews the Lease. Also the time limit of a request.
    fn interval(&self) -> Duration {
        self.duration / 2
    }

    /// Returns the duration in the Lease's own unit, rounded up.
    fn whole_seconds(&self) -> i32 {
        i32::try_from(self.duration.as_millis().div_ceil(1000)).unwrap_or(i32::MAX)
    }
}

/// The next step of the election.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// Nothing until this time.
    Wait(Instant),
    /// Read the Lease.
    Read,
    /// Write this Lease, held by this gateway: replace the version that it names, or create it.
    Write(Box<Lease>),
}

/// The Lease as it was seen last.
#[derive(Debug)]
struct Seen {
    lease: Lease,
    /// When this holder and this time of renewal were first seen.
    since: Instant,
}

/// The decisions of one gateway.
#[derive(Debug)]
struct Election {
    settings: LeaseSettings,
    /// `None`: there is no Lease.
    seen: Option<Seen>,
    /// Whether the Lease may have changed since it was seen.
    is_stale: bool,
    /// The earliest time of the next request.
    not_before: Instant,
    /// When this gateway's last successful write started, unless another gateway has taken the Lease since.
    renewed: Option<Instant>,
}

impl Election {
    fn new(settings: LeaseSettings, now: Instant) -> Self {
        Self { settings, seen: None, is_stale: true, not_before: now, renewed: None }
    }

    /// Decides on the next step.
    fn next(&self, now: Instant) -> Step {
        let free = self.seen.as_ref().filter(|_| !self.is_stale).map(|seen| self.free_at(seen));
        let due = free.map_or(self.not_before, |free| free.max(self.not_before));
        if now < due {
            return Step::Wait(due);
        }
        match self.is_stale {
            true => Step::Read,
            false => Step::Write(Box::new(self.held())),
        }
    }

    /// Returns when this gateway may write a Lease.
    fn free_at(&self, seen: &Seen) -> Instant {
        match holder(&seen.lease) {
            None => seen.since,
            Some(holder) if *holder == self.settings.holder => {
                self.renewed.map_or(seen.since, |renewed| renewed + self.settings.interval())
            }
            Some(_) => seen.since + self.duration_of(&seen.lease),
        }
    }

    /// Returns the time after which a Lease is free. The Lease states it in whole seconds. If they equal this gateway's
    /// own duration rounded up, the gateways have the same settings, and the exact duration applies.
    fn duration_of(&self, lease: &Lease) -> Duration {
        let seconds = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
        match seconds {
            Some(seconds) if seconds != self.settings.whole_seconds() => {
                Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
            }
            _ => self.settings.duration,
        }
    }

    /// Returns the Lease to write, held by this gateway.
    fn held(&self) -> Lease {
        let (metadata, before) = match &self.seen {
            Some(seen) => (seen.lease.metadata.clone(), seen.lease.spec.clone().unwrap_or_default()),
            None => {
                let name = Some(self.settings.name.clone());
                (ObjectMeta { name, ..ObjectMeta::default() }, LeaseSpec::default())
            }
        };
        let now = MicroTime(Timestamp::now());
        let is_same = before.holder_identity.as_ref() == Some(&self.settings.holder);
        let spec = LeaseSpec {
            acquire_time: before.acquire_time.clone().filter(|_| is_same).or_else(|| Some(now.clone())),
            holder_identity: Some(self.settings.holder.clone()),
            lease_duration_seconds: Some(self.settings.whole_seconds()),
            lease_transitions: Some(before.lease_transitions.unwrap_or_default() + i32::from(!is_same)),
            renew_time: Some(now),
            ..before
        };
        Lease { metadata, spec: Some(spec) }
    }

    /// Records the Lease as it was read, or reported by the watch; `None`: there is none.
    fn observe(&mut self, lease: Option<Lease>, now: Instant) {
        let Some(lease) = lease else {
            self.seen = None;
            self.is_stale = false;
            return;
        };
        if self.seen.as_ref().is_some_and(|seen| is_older(version(&lease), version(&seen.lease))) {
            return;
        }
        self.is_stale = false;
        if holder(&lease) != Some(&self.settings.holder) {
            self.renewed = None;
        }
        let known = self.seen.as_ref().filter(|seen| is_same_term(&seen.lease, &lease));
        let since = known.map_or(now, |seen| seen.since);
        self.seen = Some(Seen { lease, since });
    }

    /// Records the Lease that this gateway wrote with a request that started at `begun`.
    fn written(&mut self, lease: Lease, begun: Instant, now: Instant) {
        self.observe(Some(lease), now);
        if self.seen.as_ref().is_some_and(|seen| holder(&seen.lease) == Some(&self.settings.holder)) {
            self.renewed = Some(begun);
        }
    }

    /// Records that a request failed, or that another gateway wrote first. The Lease is read before the next write,
    /// unless the watch reports it earlier.
    fn failed(&mut self, now: Instant) {
        self.is_stale = true;
        // With jitter, so that the candidates do not retry at the same time.
        self.not_before = now + self.settings.interval().mul_f64(0.25 + fastrand::f64() / 4.0);
    }

    /// Returns when this gateway stops leading if it does not renew the Lease; `None`: it does not lead.
    fn leads_until(&self, now: Instant) -> Option<Instant> {
        self.renewed.map(|renewed| renewed + self.settings.duration).filter(|end| now < *end)
    }
}

/// Returns the holder of a Lease.
fn holder(lease: &Lease) -> Option<&String> {
    lease.spec.as_ref()?.holder_identity.as_ref().filter(|holder| !holder.is_empty())
}

/// Returns whether two versions of a Lease have the same holder and time of renewal.
fn is_same_term(one: &Lease, two: &Lease) -> bool {
    let renewed = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.renew_time.clone());
    holder(one) == holder(two) && renewed(one) == renewed(two)
}

fn version(lease: &Lease) -> &str {
    lease.metadata.resource_version.as_deref().unwrap_or_default()
}

/// The failure that was logged last, so that each is logged once.
#[derive(Default)]
struct Complaint(Option<String>);

impl Complaint {
    /// Logs a failure, unless it equals the last one. `None`: a success.
    fn report(&mut self, name: &str, why: Option<String>) {
        if let Some(why) = why.as_deref().filter(|_| why != self.0) {
            warn!(target: component::KUBERNETES, "Lease {name}: {why}");
        }
        self.0 = why;
    }
}

/// Takes part in the election until `leads` has no receiver, and sends to it whether this gateway leads.
pub(crate) async fn run(client: Client, settings: LeaseSettings, leads: watch::Sender<bool>) {
    let leases = leases(client, &settings);
    let name = settings.name.clone();
    let mut events = pin!(watch_object(leases.clone(), &name).backoff(Pauses::default()));
    let mut election = Election::new(settings, Instant::now());
    let (mut watching, mut requests) = (Complaint::default(), Complaint::default());
    loop {
        let end = election.leads_until(Instant::now());
        if leads.send_if_modified(|leads| std::mem::replace(leads, end.is_some()) != end.is_some()) {
            let text = if end.is_some() { "writes" } else { "no longer writes" };
            info!(target: component::KUBERNETES, "this gateway {text} statuses (Lease {name})");
        }
        let wait = match election.next(Instant::now()) {
            Step::Wait(until) => end.map_or(until, |end| end.min(until)),
            step => {
                requests.report(&name, attempt(&leases, &mut election, step).await.err());
                continue;
            }
        };
        tokio::select! {
            () = leads.closed() => return,
            () = sleep_until(wait) => {}
            Some(event) = events.next() => match event {
                Ok(lease) => {
                    watching.report(&name, None);
                    election.observe(lease, Instant::now());
                }
                Err(error) => {
                    watching.report(&name, Some(explain_watch(&error, &rights::Resource::leases())));
                }
            },
        }
    }
}

/// Makes a request, and records its result.
///
/// # Errors
/// The reason why the request failed. A write that lost to another gateway is not an error.
async fn attempt(leases: &Api<Lease>, election: &mut Election, step: Step) -> Result<(), String> {
    let begun = Instant::now();
    let name = election.settings.name.clone();
    // A leader without an answer in time stops leading.
    let interval = election.settings.interval();
    let limit = election.leads_until(begun).map_or(interval, |end| interval.min(end - begun));
    let request = async {
        match step {
            Step::Wait(_) => Ok::<_, kube::Error>(()),
            Step::Read => {
                let lease = leases.get_opt(&name).await?;
                election.observe(lease, Instant::now());
                Ok(())
            }
            Step::Write(lease) => {
                let parameters = PostParams::default();
                let written = match lease.metadata.resource_version {
                    Some(_) => leases.replace(&name, &parameters, &lease).await?,
                    None => leases.create(&parameters, &lease).await?,
                };
                election.written(written, begun, Instant::now());
                Ok(())
            }
        }
    };
    let why = match timeout(limit, request).await {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(kube::Error::Api(status))) if status.code == 409 => Ok(()),
        Ok(Err(error)) => Err(explain(&error)),
        Err(_) => Err("the API server does not answer".to_owned()),
    };
    election.failed(Instant::now());
    why
}

/// Releases the Lease, if this gateway holds it, so that another one need not wait until it expires.
pub(crate) async fn release(client: Client, settings: &LeaseSettings) {
    let leases = leases(client, settings);
    let why = match timeout(RELEASE_TIMEOUT, clear(&leases, settings)).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => explain(&error),
        Err(_) => "the API server does not answer".to_owned(),
    };
    warn!(target: component::KUBERNETES, "Lease {} was not given back: {why}", settings.name);
}

/// Describes why a request failed.
fn explain(error: &kube::Error) -> String {
    rights::explain(error, "get, list, watch, create, update", &rights::Resource::leases())
}

/// Removes this gateway's name from the Lease.
async fn clear(leases: &Api<Lease>, settings: &LeaseSettings) -> kube::Result<()> {
    let Some(mut lease) = leases.get_opt(&settings.name).await? else { return Ok(()) };
    let spec = lease.spec.get_or_insert_default();
    if spec.holder_identity.take_if(|holder| *holder == settings.holder).is_some() {
        leases.replace(&settings.name, &PostParams::default(), &lease).await?;
    }
    Ok(())
}

fn leases(client: Client, settings: &LeaseSettings) -> Api<Lease> {
    match &settings.namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::default_namespaced(client),
    }
}

#[cfg(test)]
mod tests;
