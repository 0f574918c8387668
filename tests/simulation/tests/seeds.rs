//! A few hundred seeds, and a check that only the seed decides.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_simulation::{Scenario, run};

/// Plays seeds on all cores, and asserts that none is wrong.
fn play(seeds: std::ops::Range<u64>, judge: impl Fn(u64) -> Vec<String> + Sync) {
    let next = AtomicU64::new(seeds.start);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let threads = (0..threads).map(|_| {
            scope.spawn(|| {
                let mut wrong = Vec::new();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return wrong;
                    }
                    wrong.extend(judge(seed).into_iter().map(|what| format!("seed {seed}: {what}")));
                }
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic outside of a world")).collect()
    });
    assert!(wrong.is_empty(), "`make simulate SEED=n` plays a seed again:\n{}", wrong.join("\n"));
}

#[test]
fn what_must_be_true_is_true() {
    play(0..250, |seed| run(&Scenario::new(seed), false).expect("it runs").wrong);
}

/// Compares the whole text of both traces, not only the hash.
#[test]
fn a_seed_plays_the_same_twice() {
    play(1000..1040, |seed| {
        let [one, two] = [(); 2].map(|()| run(&Scenario::new(seed), true).expect("it runs"));
        assert!(one.events > 100);
        match one.text == two.text && one.hash == two.hash {
            true => Vec::new(),
            false => vec!["two runs differ".to_owned()],
        }
    });
}
