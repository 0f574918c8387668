use super::super::tree::Subject;
use super::*;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn ticks(user: u64, system: u64) -> Ticks {
    Ticks { user, system }
}

fn process(own: Ticks, reaped: Ticks, threads: &[(u32, u64)]) -> Process {
    let thread = |&(tid, nanos): &(u32, u64)| {
        let thread =
            Thread { name: format!("t{tid}"), nanos: Some(nanos), voluntary: nanos, ..Thread::default() };
        (tid, thread)
    };
    Process { start: 1, own, reaped, threads: threads.iter().map(thread).collect() }
}

fn two(earlier: &[(u32, Process)], later: &[(u32, Process)]) -> Used {
    let at = Instant::now();
    let snapshot =
        |at, processes: &[(u32, Process)]| Snapshot { at, processes: processes.iter().cloned().collect() };
    snapshot(at + Duration::from_nanos(8_000), later).since(&snapshot(at, earlier))
}

#[test]
fn nanoseconds_are_used_while_the_threads_stay_the_same() {
    let used = two(
        &[(1, process(ticks(100, 60), ticks(5, 5), &[(1, 400), (2, 1_600)]))],
        &[(1, process(ticks(130, 70), ticks(5, 5), &[(1, 900), (2, 5_100)]))],
    );
    assert_eq!((used.total_ns, used.user_ns, used.system_ns), (4_000, 3_000, 1_000));
    assert_eq!(
        (used.clock, used.wall_ns, used.ended_ns, used.ended_processes),
        (Clock::Schedstat, 8_000, 0, 0)
    );
    let (thread, share) = used.hottest().unwrap();
    assert_eq!((thread.tid, thread.ns, thread.name.as_str()), (2, 3_500, "t2"));
    assert_eq!(used.voluntary_switches, 4_000);
    assert!((share - 0.4375).abs() < 1e-9 && (used.cores() - 0.5).abs() < 1e-9);
}

#[test]
fn ticks_are_used_when_a_thread_came_or_went_and_the_rest_is_named_ended() {
    let used = two(
        &[(1, process(ticks(100, 60), ticks(0, 0), &[(1, 400), (2, 1_600)]))],
        &[(1, process(ticks(130, 70), ticks(0, 0), &[(1, 900), (3, 50)]))],
    );
    assert_eq!((used.clock, used.total_ns, used.user_ns), (Clock::Ticks, 400_000_000, 300_000_000));
    assert_eq!(
        used.threads.iter().map(|thread| (thread.tid, thread.ns)).collect::<Vec<_>>(),
        [(1, 500), (3, 50)]
    );
    assert_eq!(used.ended_ns, 400_000_000 - 550);
}

#[test]
fn a_thread_id_used_again_is_another_thread() {
    let mut again = process(ticks(20, 0), ticks(0, 0), &[(1, 700)]);
    again.threads.get_mut(&1).unwrap().start = 9;
    let used = two(&[(1, process(ticks(10, 0), ticks(0, 0), &[(1, 500)]))], &[(1, again)]);
    assert_eq!((used.clock, used.total_ns, used.threads[0].ns), (Clock::Ticks, 100_000_000, 700));
}

#[test]
fn a_child_that_died_and_was_reaped_counts_from_the_first_snapshot_on() {
    // One child had used 40 ticks, used 50 more and was reaped; another started, used 7 and was reaped.
    let used = two(
        &[
            (1, process(ticks(0, 0), ticks(3, 0), &[(1, 0)])),
            (2, process(ticks(30, 10), ticks(0, 0), &[(2, 400_000_000)])),
        ],
        &[(1, process(ticks(0, 0), ticks(3 + 30 + 35 + 7, 10 + 15), &[(1, 0)]))],
    );
    assert_eq!((used.user_ns, used.system_ns), (420_000_000, 150_000_000));
    assert_eq!((used.total_ns, used.ended_ns, used.ended_processes), (570_000_000, 570_000_000, 1));
    assert_eq!(used.clock, Clock::Mixed);
}

#[test]
fn a_child_that_nobody_reaped_never_makes_the_rest_negative() {
    let used = two(
        &[
            (1, process(ticks(10, 0), ticks(0, 0), &[(1, 100)])),
            (2, process(ticks(30, 10), ticks(0, 0), &[(2, 400)])),
        ],
        &[(1, process(ticks(10, 0), ticks(0, 0), &[(1, 350)]))],
    );
    assert_eq!((used.total_ns, used.ended_processes, used.clock), (250, 1, Clock::Schedstat));
}

#[test]
fn without_ticks_the_split_is_that_of_the_whole_life() {
    let used = two(
        &[(1, process(ticks(30, 10), ticks(0, 0), &[(1, 0)]))],
        &[(1, process(ticks(30, 10), ticks(0, 0), &[(1, 4_000)]))],
    );
    assert_eq!((used.user_ns, used.system_ns), (3_000, 1_000));
    assert_eq!(ticks(0, 0).split(ticks(0, 0), 9), (0, 9));
}

#[test]
fn nothing_at_both_ends_is_nothing_used() {
    let used = two(&[], &[]);
    assert_eq!((used.total_ns, used.threads.len(), used.hottest()), (0, 0, None));
}

/// A shell loop that works until its process has used CPU time that shows in ticks.
const WORK: &str = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";

#[test]
fn children_that_came_and_died_between_two_snapshots_are_counted() {
    // The outer shell waits for the inner one; `read` keeps the outer one alive at both snapshots.
    let script = format!("read a; sh -c '{WORK}'; echo done; read b");
    let mut shell = Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let before = Snapshot::take(shell.id());
    let mut stdin = shell.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, b"go\n").unwrap();
    let mut answer = String::new();
    let mut stdout = std::io::BufReader::new(shell.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut answer).unwrap();
    let used = Snapshot::take(shell.id()).since(&before);
    drop(stdin);
    shell.wait().unwrap();
    assert_eq!(answer, "done\n");
    assert!(used.ended_ns >= 3 * NANOS_PER_TICK, "{used:?}");
    assert_eq!(used.total_ns, used.user_ns + used.system_ns);
}

#[test]
fn a_busy_thread_is_found_by_its_name() {
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let worker = std::thread::Builder::new()
        .name("hot-worker".into())
        .spawn(move || {
            let mut x = 1u64;
            while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                for i in 0..10_000u64 {
                    x = std::hint::black_box(x.wrapping_mul(i | 1));
                }
            }
        })
        .unwrap();
    let find =
        |used: &Used| used.threads.iter().find(|thread| thread.name == "hot-worker").map(|thread| thread.ns);
    let before = Snapshot::take(Subject::Process(std::process::id()));
    // The bound is on CPU time, however long the machine takes to grant it.
    let deadline = Instant::now() + Duration::from_secs(60);
    let used = loop {
        let used = Snapshot::take(Subject::Process(std::process::id())).since(&before);
        if find(&used).unwrap_or(0) > 50_000_000 || Instant::now() > deadline {
            break used;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    drop(stop);
    worker.join().unwrap();
    assert!(find(&used).unwrap() > 50_000_000, "{used:?}");
}
