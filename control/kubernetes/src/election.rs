//! Elects the one gateway that writes statuses, by a Lease.
//!
//! All gateways of a class translate and serve alike; the leader also writes statuses. [`Election`] decides
//! without I/O, from the Lease as it was read and from the local clock alone: clocks of machines are not
//! compared. [`run`] is its task, which reports to the source. A gateway that cannot renew the Lease stops
//! writing before another one may begin.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::core::ObjectMeta;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tollgate_net::component;
use tracing::{info, warn};

use crate::rights;

/// A Lease that was not renewed for this long belongs to no gateway. A new leader is found after at most this
/// time and one interval.
const LEASE_SECONDS: i32 = 5;
const LEASE_DURATION: Duration = Duration::from_secs(LEASE_SECONDS as u64);
/// A leader that could not renew the Lease for this long stops writing.
const RENEW_TIMEOUT: Duration = Duration::from_secs(3);
/// How long the end of the process waits for the Lease to be given back.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);
/// How often the leader renews the Lease, and the others look at it.
const INTERVAL: Duration = Duration::from_secs(1);

/// The place of the Lease, and the gateway that asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// The namespace of the Lease. `None`: the namespace of the service account, or of the kubeconfig.
    pub namespace: Option<String>,
    /// The name of the Lease. All gateways with the same controller name have the same.
    pub name: String,
    /// The name of this gateway, different from all others.
    pub holder: String,
}

/// The next step of the election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Create it.
    Create,
    /// Write this gateway's name and the time into it.
    Hold,
    /// Nothing: it belongs to another gateway.
    Wait,
}

/// The decisions of one gateway.
#[derive(Debug)]
struct Election {
    holder: String,
    /// The holder and the time in the Lease that were read last, and when they were first seen.
    seen: Option<(Option<String>, Option<MicroTime>, Instant)>,
    /// When this gateway last wrote the Lease.
    renewed: Option<Instant>,
}

impl Election {
    fn new(holder: String) -> Self {
        Self { holder, seen: None, renewed: None }
    }

    /// Decides on the next step. `lease` is the Lease as it was read; `None` if it does not exist.
    fn step(&mut self, lease: Option<&LeaseSpec>, now: Instant) -> Step {
        let Some(lease) = lease else { return Step::Create };
        let holder = lease.holder_identity.clone().filter(|holder| !holder.is_empty());
        let is_new =
            self.seen.as_ref().is_none_or(|(known, time, _)| *known != holder || *time != lease.renew_time);
        if is_new {
            self.seen = Some((holder.clone(), lease.renew_time.clone(), now));
        }
        let age = self.seen.as_ref().map_or(Duration::ZERO, |(.., since)| now.duration_since(*since));
        match holder {
            None => Step::Hold,
            Some(holder) if holder == self.holder => Step::Hold,
            Some(_) if age >= lease_duration(lease) => Step::Hold,
            Some(_) => Step::Wait,
        }
    }

    /// Whether this gateway leads: the Lease that it wrote cannot belong to another one yet.
    fn leads(&self, now: Instant) -> bool {
        self.renewed.is_some_and(|renewed| now.duration_since(renewed) < RENEW_TIMEOUT)
    }
}

/// The time after which a Lease has no holder, as its holder says.
fn lease_duration(lease: &LeaseSpec) -> Duration {
    let seconds = lease.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    seconds.map_or(LEASE_DURATION, Duration::from_secs)
}

/// Takes part in the election until `leads` has no receiver. Sends whether this gateway leads.
pub(crate) async fn run(client: Client, settings: LeaseSettings, leads: watch::Sender<bool>) {
    let leases = leases(client, &settings);
    let mut election = Election::new(settings.holder.clone());
    let mut failure = None;
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // An answer that comes too late is no answer: the leader has stopped writing by then.
        let turn = tokio::time::timeout(RENEW_TIMEOUT, turn(&leases, &settings, &mut election));
        let why = match turn.await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(explain(&error)),
            Err(_) => Some("the API server does not answer".to_owned()),
        };
        if why.is_some() && why != failure {
            let name = &settings.name;
            warn!(target: component::KUBERNETES, "Lease {name}: {}", why.as_deref().unwrap_or_default());
        }
        failure = why;
        let is_leader = election.leads(Instant::now());
        let is_changed = leads.send_if_modified(|leads| std::mem::replace(leads, is_leader) != is_leader);
        if is_changed {
            let text = if is_leader { "writes" } else { "no longer writes" };
            info!(target: component::KUBERNETES, "this gateway {text} statuses (Lease {})", settings.name);
        }
        if leads.is_closed() {
            return;
        }
    }
}

/// Gives the Lease back, if this gateway holds it, so that another one need not wait until it expires.
pub(crate) async fn release(client: Client, settings: &LeaseSettings) {
    let leases = leases(client, settings);
    let why = match tokio::time::timeout(RELEASE_TIMEOUT, clear(&leases, settings)).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => explain(&error),
        Err(_) => "the API server does not answer".to_owned(),
    };
    warn!(target: component::KUBERNETES, "Lease {} was not given back: {why}", settings.name);
}

/// Describes why a request failed.
fn explain(error: &kube::Error) -> String {
    rights::explain(error, "get, create, update", &rights::Resource::leases())
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

/// Reads the Lease, and takes or renews it if that is due.
async fn turn(leases: &Api<Lease>, settings: &LeaseSettings, election: &mut Election) -> kube::Result<()> {
    let known = leases.get_opt(&settings.name).await?;
    let begun = Instant::now();
    let spec = known.as_ref().map(|lease| lease.spec.clone().unwrap_or_default());
    let step = election.step(spec.as_ref(), begun);
    let now = MicroTime(Timestamp::now());
    let spec = held(spec.unwrap_or_default(), &settings.holder, now);
    let written = match (step, known) {
        (Step::Wait, _) => {
            election.renewed = None;
            return Ok(());
        }
        (Step::Hold, Some(known)) => {
            // The version that was read makes the write fail if another gateway was first.
            let lease = Lease { spec: Some(spec), ..known };
            leases.replace(&settings.name, &PostParams::default(), &lease).await
        }
        _ => {
            let metadata = ObjectMeta { name: Some(settings.name.clone()), ..ObjectMeta::default() };
            leases.create(&PostParams::default(), &Lease { metadata, spec: Some(spec) }).await
        }
    };
    match written {
        Ok(_) => {
            election.renewed = Some(begun);
            Ok(())
        }
        // Another gateway was first.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns the Lease's new contents, held by this gateway.
fn held(before: LeaseSpec, holder: &str, now: MicroTime) -> LeaseSpec {
    let is_same = before.holder_identity.as_deref() == Some(holder);
    LeaseSpec {
        acquire_time: before.acquire_time.clone().filter(|_| is_same).or_else(|| Some(now.clone())),
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(LEASE_SECONDS),
        lease_transitions: Some(before.lease_transitions.unwrap_or_default() + i32::from(!is_same)),
        renew_time: Some(now),
        ..before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> MicroTime {
        MicroTime(Timestamp::from_second(second).expect("a time"))
    }

    fn lease(holder: &str, second: i64) -> LeaseSpec {
        held(LeaseSpec::default(), holder, at(second))
    }

    #[test]
    fn a_lease_is_taken_when_it_was_not_renewed_for_its_duration() {
        let (mut election, begin) = (Election::new("a".to_owned()), Instant::now());
        assert_eq!(election.step(None, begin), Step::Create);
        let other = lease("b", 100);
        // However old its time is: only the own clock counts.
        assert_eq!(election.step(Some(&other), begin), Step::Wait);
        assert_eq!(election.step(Some(&other), begin + LEASE_DURATION / 2), Step::Wait);
        let renewed = lease("b", 101);
        assert_eq!(election.step(Some(&renewed), begin + LEASE_DURATION), Step::Wait);
        assert_eq!(election.step(Some(&renewed), begin + LEASE_DURATION * 2), Step::Hold);
    }

    #[test]
    fn a_lease_that_was_given_back_and_the_own_one_are_held_at_once() {
        let (mut election, now) = (Election::new("a".to_owned()), Instant::now());
        assert_eq!(election.step(Some(&lease("", 1)), now), Step::Hold);
        assert_eq!(election.step(Some(&lease("a", 1)), now), Step::Hold);
        assert_eq!(election.step(Some(&LeaseSpec::default()), now), Step::Hold);
    }

    #[test]
    fn a_leader_stops_before_another_one_may_begin() {
        let (mut election, now) = (Election::new("a".to_owned()), Instant::now());
        assert!(!election.leads(now));
        election.renewed = Some(now);
        assert!(election.leads(now + RENEW_TIMEOUT / 2));
        assert!(!election.leads(now + RENEW_TIMEOUT));
        const { assert!(RENEW_TIMEOUT.as_millis() + INTERVAL.as_millis() < LEASE_DURATION.as_millis()) };
    }

    #[test]
    fn the_lease_tells_since_when_and_how_often_it_changed_hands() {
        let first = lease("a", 1);
        let renewed = held(first.clone(), "a", at(2));
        assert_eq!((renewed.acquire_time.clone(), renewed.renew_time.clone()), (Some(at(1)), Some(at(2))));
        assert_eq!(renewed.lease_transitions, first.lease_transitions);
        let taken = held(renewed, "b", at(9));
        assert_eq!((taken.acquire_time, taken.lease_transitions), (Some(at(9)), Some(2)));
    }
}
