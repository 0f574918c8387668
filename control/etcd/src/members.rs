//! Finds a member that answers.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::client::{ClusterState, EtcdClient, REQUEST_TIMEOUT};
use crate::{Error, EtcdEvent};

/// Pause after the first failed attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Longest pause. It bounds how late a restored connection is noticed, so it is short; an attempt is one
/// small request.
const PAUSE_MAX: Duration = Duration::from_millis(400);
/// Bound of concurrent attempts: a stalled attempt does not delay the next.
const ATTEMPTS_MAX: usize = 8;

/// Returns a random pause between half of this length and all of it, so that gateways that lost etcd together
/// do not return together.
pub(crate) fn with_jitter(pause_max: Duration) -> Duration {
    pause_max.mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// Tries the members in turn, from `first`, until one answers. Returns its number and the state of its
/// cluster. Sends an event after the first round in which every member failed.
pub(crate) async fn find_member(
    client: &EtcdClient,
    first: usize,
    events: &mpsc::Sender<EtcdEvent>,
) -> (usize, ClusterState) {
    let mut attempts: JoinSet<(usize, Result<ClusterState, Error>)> = JoinSet::new();
    let (mut member, mut pause, mut failed) = (first, FIRST_PAUSE, 0);
    loop {
        if attempts.len() < ATTEMPTS_MAX {
            let (client, member) = (client.clone(), member);
            attempts.spawn(async move { (member, client.probe(member, REQUEST_TIMEOUT).await) });
        }
        member += 1;
        let deadline = tokio::time::sleep(with_jitter(pause));
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                Some(Ok((member, answer))) = attempts.join_next() => match answer {
                    Ok(cluster) => {
                        let member = member % client.member_count().max(1);
                        client.set_current_member(member);
                        return (member, cluster);
                    }
                    Err(error) => {
                        failed += 1;
                        if failed == client.member_count() {
                            // If no one receives it, the caller finds out by its next event.
                            let _ = events.send(EtcdEvent::Disconnected { why: error.to_string() }).await;
                        }
                    }
                },
                () = &mut deadline => break,
            }
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}
