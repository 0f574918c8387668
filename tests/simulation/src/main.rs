//! The program behind `make simulate`: plays many seeds, or one with its trace.
#![allow(clippy::print_stdout)]

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tollgate_simulation::{Scenario, run};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let number = |text: Option<String>| text.and_then(|text| text.parse::<u64>().ok());
    match (arguments.next().as_deref(), number(arguments.next()), number(arguments.next())) {
        (Some("seed"), Some(seed), _) => one(seed),
        (Some("seeds"), Some(count), first) => many(first.unwrap_or(0), count),
        _ => {
            println!("usage: tollgate-simulation seed N | seeds COUNT [FIRST]");
            ExitCode::FAILURE
        }
    }
}

fn one(seed: u64) -> ExitCode {
    let scenario = Scenario::new(seed);
    println!("{scenario:#?}");
    scenario.plans.iter().for_each(|plan| println!("{plan}"));
    match run(&scenario, true) {
        Err(error) => println!("{error}"),
        Ok(verdict) => {
            println!("{}", verdict.text.unwrap_or_default());
            println!("hash {:016x}, {} events, {:?}", verdict.hash, verdict.events, verdict.time);
            verdict.wrong.iter().for_each(|wrong| println!("WRONG: {wrong}"));
            if verdict.wrong.is_empty() {
                return ExitCode::SUCCESS;
            }
        }
    }
    ExitCode::FAILURE
}

/// One seed in 50 is played twice, to check that both runs are the same.
const AGAIN: u64 = 50;

fn many(first: u64, count: u64) -> ExitCode {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, begin) = (AtomicU64::new(first), Instant::now());
    let totals = Mutex::new((0u64, 0u64, 0u64));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    let scenario = Scenario::new(seed);
                    let mut verdict = run(&scenario, false);
                    if seed % AGAIN == 0
                        && let (Ok(one), Ok(two)) = (&mut verdict, run(&scenario, false))
                        && one.hash != two.hash
                    {
                        one.wrong.push("played again, it went another way".to_owned());
                    }
                    let mut totals = totals.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    let wrong = match verdict {
                        Ok(verdict) => {
                            totals.0 += verdict.requests as u64;
                            totals.1 += verdict.events;
                            verdict.wrong
                        }
                        Err(error) => vec![error.to_string()],
                    };
                    if !wrong.is_empty() {
                        totals.2 += 1;
                        println!("seed {seed} fails; `make simulate SEED={seed}` plays it again:");
                        wrong.iter().take(5).for_each(|wrong| println!("  {wrong}"));
                    }
                }
            });
        }
    });
    let (requests, events, failed) = totals.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let took = begin.elapsed().as_secs_f64();
    println!(
        "{count} seeds from {first}: {failed} failed; {requests} requests, {events} events, {took:.1} s, {:.1} seeds/s",
        count as f64 / took
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
