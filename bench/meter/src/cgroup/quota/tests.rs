use super::super::remove::remove_orphans_in;
use super::*;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A shell that burns CPU time, killed at the end of the test.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        let busy = Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn();
        Self(busy.unwrap())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Creates a quota on this machine. Returns `None` and reports a skipped test if this machine does not permit
/// it.
fn quota(name: &str, cores: f64, memory: Option<u64>) -> Option<Quota> {
    match Quota::create(name, cores, memory) {
        Ok(quota) => Some(quota),
        Err(error) => {
            assert!(!rustix::process::geteuid().is_root() || Hierarchy::find().is_none(), "{error}");
            crate::skipped(&format!("no CPU quota can be made here, so it is not tested: {error}"));
            None
        }
    }
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "after 60 s still not: {what}");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_busy_loop_is_held_to_a_quarter_of_a_core() {
    let Some(quota) = quota("quarter", 0.25, None) else { return };
    let busy = Busy::start();
    quota.add(busy.0.id()).unwrap();
    assert_eq!(quota.process_ids(), [busy.0.id()]);
    wait_until("throttled in one period", || quota.throttling().unwrap().throttled >= 1);
    let (from, cpu_from) = (quota.throttling().unwrap(), quota.cpu().unwrap());
    wait_until("twenty periods passed", || quota.throttling().unwrap().since(&from).periods >= 20);
    let (throttling, cpu) = (quota.throttling().unwrap().since(&from), quota.cpu().unwrap().since(&cpu_from));
    assert!(throttling.throttled > 0 && throttling.throttled_ns > 0, "{throttling:?}");
    // Compares CPU time with the group's own count of periods: a slow or busy machine can lower it, never
    // raise it.
    let granted = (throttling.periods + 2) as f64 * PERIOD_US as f64 * 1_000.0 * 0.25;
    let share = cpu.total_ns as f64 / granted;
    assert!(share > 0.02 && share < 1.3, "{share} of what the quota grants: {cpu:?} in {throttling:?}");
    assert!(cpu.user_ns > 0 && cpu.user_ns + cpu.system_ns == cpu.total_ns, "{cpu:?}");
}

#[test]
fn a_dropped_quota_is_gone_with_what_ran_in_it() {
    let Some(quota) = quota("dropped", 0.5, Some(64 << 20)) else { return };
    let mut busy = Busy::start();
    quota.add(busy.0.id()).unwrap();
    assert!(quota.memory_peak().is_some());
    let folders: Vec<PathBuf> = quota.groups.iter().map(|group| group.folder.clone()).collect();
    assert!(!folders.is_empty() && folders.iter().all(|folder| folder.is_dir()));
    drop(quota);
    assert!(folders.iter().all(|folder| !folder.exists()), "{folders:?}");
    assert!(!busy.0.wait().unwrap().success());
}

#[test]
fn a_group_of_a_dead_run_is_removed_with_what_runs_in_it() {
    let Some(outer) = quota("outer", 0.5, None) else { return };
    let name = outer.cpu.file_name().unwrap().to_str().unwrap();
    // Within a group of this test, so that a quota that another test creates does not remove it first.
    let orphan = outer.cpu.join(name.replace(&format!(".{}.", std::process::id()), ".99999999."));
    fs::create_dir(&orphan).unwrap();
    let mut busy = Busy::start();
    fs::write(orphan.join("cgroup.procs"), busy.0.id().to_string()).unwrap();
    assert_eq!(remove_orphans_in(&outer.cpu), 1);
    assert!(!orphan.exists() && outer.cpu.exists());
    assert!(!busy.0.wait().unwrap().success());
}

#[test]
fn a_number_of_cores_that_is_none_is_refused() {
    let (_mount, hierarchy) = tree_two();
    for cores in [0.0, -1.0, 0.009, f64::NAN, f64::INFINITY] {
        let error = Quota::create_in(&hierarchy, "x", cores, None).unwrap_err();
        assert!(error.to_string().contains("0.01 to 100000 cores"), "{error}");
    }
}

#[test]
fn a_memory_limit_without_its_controller_is_refused() {
    let (_mount, mut hierarchy) = tree_two();
    hierarchy.memory = None;
    let error = Quota::create_in(&hierarchy, "x", 1.0, Some(1)).unwrap_err();
    assert!(error.to_string().contains("memory controller"), "{error}");
}

/// Creates a folder that looks like a version 2 tree with this process in `outer/inner`. Only the kernel
/// fills new group folders.
fn tree_two() -> (tempfile::TempDir, Hierarchy) {
    let mount = tempfile::tempdir().unwrap();
    let own = mount.path().join("outer/inner");
    fs::create_dir_all(&own).unwrap();
    let place = Place { mount: mount.path().to_owned(), own };
    let hierarchy = Hierarchy {
        version: Version::Two,
        cpu: place.clone(),
        cpuacct: Some(place.clone()),
        memory: Some(place),
    };
    (mount, hierarchy)
}

#[test]
fn version_two_takes_the_nearest_group_that_can_give_the_controllers() {
    let (mount, hierarchy) = tree_two();
    let error = Quota::create_in(&hierarchy, "x", 0.25, None).unwrap_err();
    assert!(error.to_string().contains("has no cpu controller"), "{error}");
    fs::write(mount.path().join("cgroup.subtree_control"), "cpu memory\n").unwrap();
    fs::write(mount.path().join("outer/cgroup.controllers"), "cpu memory pids\n").unwrap();
    let quota = Quota::create_in(&hierarchy, "limited", 0.25, Some(4_096)).unwrap();
    assert_eq!(quota.cpu.parent().unwrap(), mount.path().join("outer"));
    let read = |path: PathBuf| fs::read_to_string(path).unwrap();
    // A plain file keeps the last value written; the kernel's file accumulates them.
    assert_eq!(read(mount.path().join("outer/cgroup.subtree_control")), "+memory");
    assert_eq!(read(quota.cpu.join("cpu.max")), "25000 100000");
    assert_eq!(read(quota.cpu.join("memory.max")), "4096");
    fs::write(quota.cpu.join("cpu.stat"), "usage_usec 7\nnr_periods 3\nnr_throttled 2\nthrottled_usec 1\n")
        .unwrap();
    assert_eq!(quota.throttling().unwrap(), Throttling { periods: 3, throttled: 2, throttled_ns: 1_000 });
    assert_eq!(quota.cpu().unwrap().total_ns, 7_000);
    // Process ids end at 2^22 (`proc(5)`, pid_max), so no process has this one.
    quota.add(99_999_999).unwrap();
    assert_eq!((quota.process_ids(), quota.cores()), (vec![99_999_999], 0.25));
    // A plain folder with files cannot be removed; a group can.
    for file in ["cpu.max", "memory.max", "cpu.stat", "cgroup.procs"] {
        fs::remove_file(quota.cpu.join(file)).unwrap();
    }
    let folder = quota.cpu.clone();
    drop(quota);
    assert!(!folder.exists());
}

#[test]
fn missing_rights_are_explained() {
    let error = denied(Path::new("/sys/fs/cgroup/x"), io::ErrorKind::PermissionDenied.into()).to_string();
    assert!(error.contains("/sys/fs/cgroup/x") && error.contains("run as root"), "{error}");
}
