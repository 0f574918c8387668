use crate::cgroup::Quota;
use crate::child::Launch;
use crate::error::Error;
use crate::machine::allowed_cores;
use crate::process::start_time;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(60);

fn shell(script: &str) -> Launch<'static> {
    Launch::new("/bin/sh").arguments(["-c", script])
}

/// Waits for a complete line in a file.
fn line(path: &Path) -> String {
    let deadline = Instant::now() + SOON;
    loop {
        match fs::read_to_string(path).unwrap_or_default().split_once('\n') {
            Some((line, _)) => return line.to_owned(),
            None if Instant::now() < deadline => sleep(Duration::from_millis(5)),
            None => panic!("nothing was written to {}", path.display()),
        }
    }
}

/// Returns whether a process has exited; a zombie counts as exited.
fn is_dead(pid: u32) -> bool {
    let deadline = Instant::now() + SOON;
    loop {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if stat.is_empty() || stat.contains(") Z") || Instant::now() > deadline {
            return stat.is_empty() || stat.contains(") Z");
        }
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_dropped_group_ends_with_its_grandchildren_even_those_that_left_it() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    // The second one ignores SIGTERM; the third, in its own session, has left the group.
    let script = "sleep 60 & a=$!; sh -c 'trap \"\" TERM; sleep 60' & b=$!; setsid sleep 60 & sleep 0.3; echo $a $b $!; wait";
    let group = shell(script).output(&log, &log).start().unwrap();
    let pids: Vec<u32> = line(&log).split(' ').map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(pids.len(), 3);
    assert!(pids.iter().all(|pid| start_time(*pid).is_some()));
    let leader = group.id();
    drop(group);
    assert!(pids.iter().all(|pid| is_dead(*pid)), "{pids:?}");
    assert_eq!(start_time(leader), None);
}

#[test]
fn a_tool_that_ran_once_is_counted_with_its_short_lived_children() {
    let work = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let mut group = shell(&format!("sh -c '{work}'; exit 3")).start().unwrap();
    let ended = group.wait(SOON).unwrap().unwrap();
    assert_eq!(ended.status.code(), Some(3));
    assert!(ended.user_us + ended.system_us > 10_000, "{ended:?}");
    assert_eq!(group.ended().unwrap(), Some(ended));
    assert_eq!(group.stop().unwrap(), ended);
}

#[test]
fn waiting_has_a_limit_and_a_stopped_program_tells_its_signal() {
    let mut group = Launch::new("sleep").arguments(["60"]).start().unwrap();
    assert_eq!(group.wait(Duration::from_millis(20)).unwrap(), None);
    let ended = group.stop().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended.status), Some(15));
}

#[test]
fn output_goes_to_files_and_variables_folder_and_cores_hold() {
    let folder = tempfile::tempdir().unwrap();
    let folder_path = fs::canonicalize(folder.path()).unwrap();
    let (out, err) = (folder_path.join("out"), folder_path.join("err"));
    let core = *allowed_cores().unwrap().last().unwrap();
    let before = allowed_cores().unwrap();
    let mut group = shell("echo $NAME; pwd; grep Cpus_allowed_list /proc/self/status; echo bad >&2")
        .variable("NAME", "value")
        .folder(&folder_path)
        .cores(&[core])
        .output(&out, &err)
        .start()
        .unwrap();
    assert!(group.wait(SOON).unwrap().unwrap().status.success());
    let expected = format!("value\n{}\nCpus_allowed_list:\t{core}\n", folder_path.display());
    assert_eq!(fs::read_to_string(&out).unwrap(), expected);
    assert_eq!(fs::read_to_string(&err).unwrap(), "bad\n");
    // That pins neither this thread nor the next child.
    assert_eq!(allowed_cores().unwrap(), before);
    fs::remove_file(&out).unwrap();
    let mut free = shell("grep Cpus_allowed_list /proc/self/status").output(&out, &err).start().unwrap();
    free.wait(SOON).unwrap().unwrap();
    let own = fs::read_to_string("/proc/thread-self/status").unwrap();
    assert!(own.contains(line(&out).as_str()), "{}", line(&out));
}

#[test]
fn what_cannot_be_started_is_explained() {
    let error = Launch::new("no-such-program-here").start().unwrap_err();
    assert!(error.to_string().contains("no-such-program-here is not installed"), "{error}");
    let error = shell("true").cores(&[100_000]).start().unwrap_err();
    assert!(error.to_string().contains("no core 100000"), "{error}");
    let error = shell("true").output("/no/such/folder/out", "/no/such/folder/err").start().unwrap_err();
    assert!(matches!(error, Error::System(ref what, _) if what == "/no/such/folder/out"), "{error}");
}

#[test]
fn a_program_is_under_its_quota_from_the_start() {
    let quota = match Quota::create("launch", 0.5, None) {
        Ok(quota) => quota,
        Err(error) => {
            assert!(!rustix::process::geteuid().is_root(), "{error}");
            crate::skipped(&format!(
                "no CPU quota can be made here, so starting under one is not tested: {error}"
            ));
            return;
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let (log, groups) = (folder.path().join("log"), folder.path().join("groups"));
    let script = format!("cat /proc/self/cgroup > {}; echo $0 $$; sleep 60", groups.display());
    let mut group = shell(&script).quota(&quota).output(&log, &log).start().unwrap();
    assert_eq!(line(&log), format!("/bin/sh {}", group.id()));
    assert!(quota.process_ids().contains(&group.id()));
    assert!(quota.cpu().unwrap().total_ns > 0);
    let groups = fs::read_to_string(&groups).unwrap();
    assert!(groups.contains("tollgate-lab.") && groups.contains(".launch"), "{groups}");
    group.stop().unwrap();
    // A killed process leaves its group a moment later.
    let deadline = Instant::now() + SOON;
    while !quota.process_ids().is_empty() && Instant::now() < deadline {
        sleep(Duration::from_millis(5));
    }
    assert!(quota.process_ids().is_empty());
}
