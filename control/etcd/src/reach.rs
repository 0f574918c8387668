//! Finds a member that answers.

use std::time::Duration;

use tokio::task::JoinSet;

use crate::client::{Client, PATIENCE, Standing};
use crate::{Error, News};

/// Pause after the first failed attempt.
const FIRST: Duration = Duration::from_millis(50);
/// Longest pause. It bounds how late a restored connection is noticed, so it is short; an attempt is one
/// small request.
const LONGEST: Duration = Duration::from_millis(400);
/// Bound of concurrent attempts: a stalled attempt does not delay the next.
const AT_ONCE: usize = 8;

/// Returns a random pause between half of this length and all of it, so that gateways that lost etcd together
/// do not return together.
pub(crate) fn jittered(most: Duration) -> Duration {
    most.mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// Tries the members in turn, from `first`, until one answers. Returns its number and the state of its
/// cluster. Calls `tell` after the first round in which every member failed.
pub(crate) async fn reach(
    client: &Client,
    first: usize,
    mut tell: impl AsyncFnMut(News),
) -> (usize, Standing) {
    let mut attempts: JoinSet<(usize, Result<Standing, Error>)> = JoinSet::new();
    let (mut member, mut pause, mut failed) = (first, FIRST, 0);
    loop {
        if attempts.len() < AT_ONCE {
            let (client, member) = (client.clone(), member);
            attempts.spawn(async move { (member, client.probe(member, PATIENCE).await) });
        }
        member += 1;
        let until = tokio::time::sleep(jittered(pause));
        tokio::pin!(until);
        loop {
            tokio::select! {
                Some(Ok((member, answer))) = attempts.join_next() => match answer {
                    Ok(standing) => {
                        let member = member % client.members().max(1);
                        client.prefer(member);
                        return (member, standing);
                    }
                    Err(error) => {
                        failed += 1;
                        if failed == client.members() {
                            tell(News::Lost { why: error.to_string() }).await;
                        }
                    }
                },
                () = &mut until => break,
            }
        }
        pause = (pause * 2).min(LONGEST);
    }
}
