//! Finds a member that answers.

use std::time::Duration;

use tokio::task::JoinSet;

use crate::client::{Client, PATIENCE, Standing};
use crate::{Error, News};

/// The pause after the first attempt that brings nothing.
const FIRST: Duration = Duration::from_millis(50);
/// The longest one. What was cut off is found again within it, so it is short; an attempt is one small question.
const LONGEST: Duration = Duration::from_millis(400);
/// Attempts under way at once: one that hangs does not keep the next one from beginning.
const AT_ONCE: usize = 8;

/// A pause of this length at most, and of half of it at least: gateways that lost etcd together do not come back together.
pub(crate) fn jittered(most: Duration) -> Duration {
    most.mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// Asks one member after the other, beginning with `first`, until one answers; gives its number, and where it is. `tell` hears of the first
/// round that brings nothing.
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
