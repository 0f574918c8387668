//! Reads the CPU time of a gateway that the laboratory did not start: of a process, a control group, a unit of
//! systemd or a pod, here or over `ssh`, at an agent, or from Prometheus. A source may be the sum of others.
//!
//! Processes are read by a shell that stays open for the whole run (`sh`, or `ssh HOST sh`), so that a reading
//! takes one round trip instead of a login. The reading of a remote host is about half a round trip late at
//! both ends of a measurement; load precedes the first end, so the figure is too low by at most that span.

use crate::agent::{Agent, Ask, Identity};
use crate::failure::Failure;
use crate::http::get;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;
use tollgate_lab_record::Tree;
use tollgate_lab_study::{CpuSource, CpuSubject, PodGroup, Url};

/// The line that ends the output of a script.
const END: &str = "tollgate-lab-end";

/// Microseconds of a tick in `/proc/PID/stat`: Linux reports 100 ticks a second to programs everywhere.
const TICK_US: f64 = 10_000.0;

/// The folder of the control groups of a host.
pub(crate) const CGROUPS: &str = "/sys/fs/cgroup";

/// The longest wait for Prometheus.
const LIMIT: Duration = Duration::from_secs(5);

/// The longest answer of Prometheus, in bytes.
const LONGEST: u64 = 1 << 20;

/// CPU time of a set of processes since their start, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuTime {
    /// In user mode.
    pub user_us: f64,
    /// In the kernel.
    pub system_us: f64,
}

impl CpuTime {
    /// Returns the use since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Tree {
        Tree {
            user_us: (self.user_us - earlier.user_us).max(0.0),
            system_us: (self.system_us - earlier.system_us).max(0.0),
            ..Tree::default()
        }
    }
}

/// An open source of CPU time.
#[derive(Debug)]
pub(crate) struct Counter(How);

#[derive(Debug)]
enum How {
    /// The script is fixed, so that the shell can keep in a variable what it searched for.
    Shell {
        shell: Shell,
        subject: CpuSubject,
        script: String,
    },
    Sum(Vec<Counter>),
    Agent(Rc<Agent>, CpuSubject),
    Prometheus(Url, String),
}

impl Counter {
    /// Opens a source and reads it once. `groups` is the folder of the control groups for pods on this host.
    ///
    /// # Errors
    /// If it cannot be reached, or has no such processes.
    pub(crate) fn open(
        source: &CpuSource,
        identity: Option<&Identity>,
        groups: &Path,
    ) -> Result<Self, Failure> {
        // An agent gets the subject from the network.
        if let CpuSource::Local(subject) | CpuSource::Ssh(_, subject) = source {
            subject.check().map_err(Failure)?;
        }
        let how = match source {
            CpuSource::Local(subject) => How::Shell {
                shell: Shell::start("sh", &[])?,
                subject: subject.clone(),
                script: script(subject, groups)?,
            },
            CpuSource::Ssh(host, subject) => {
                let options = ["BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5"];
                let mut arguments: Vec<&str> = options.iter().flat_map(|option| ["-o", option]).collect();
                arguments.extend([host.as_str(), "sh"]);
                How::Shell {
                    shell: Shell::start("ssh", &arguments)?,
                    subject: subject.clone(),
                    script: script(subject, Path::new(CGROUPS))?,
                }
            }
            CpuSource::Agent(address, subject) => {
                let identity = identity.ok_or_else(|| {
                    Failure(format!("the agent {address} needs the shared key: run with --key FILE"))
                })?;
                How::Agent(Agent::connect(address, identity, None)?, subject.clone())
            }
            CpuSource::Prometheus(url, query) => How::Prometheus(url.clone(), query.clone()),
            CpuSource::Sum(sources) => {
                let all = sources.iter().map(|source| Self::open(source, identity, groups));
                How::Sum(all.collect::<Result<_, _>>()?)
            }
        };
        let mut counter = Self(how);
        counter.read().map_err(|failure| Failure::of(format!("the CPU time of {source}"), failure))?;
        Ok(counter)
    }

    /// Reads the source.
    ///
    /// # Errors
    /// If it can no longer be reached, or the processes have exited.
    pub(crate) fn read(&mut self) -> Result<CpuTime, Failure> {
        match &mut self.0 {
            How::Shell { shell, subject, script } => {
                let text = shell.run(script)?;
                parse(subject, &text)
            }
            How::Sum(counters) => {
                let mut sum = CpuTime::default();
                for counter in counters {
                    let time = counter.read()?;
                    sum.user_us += time.user_us;
                    sum.system_us += time.system_us;
                }
                Ok(sum)
            }
            How::Agent(agent, subject) => agent.ask(&Ask::Cpu(subject.clone())),
            How::Prometheus(url, query) => prometheus(url, query),
        }
    }
}

/// A shell that executes scripts from its standard input until it is dropped.
#[derive(Debug)]
struct Shell {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    program: String,
}

impl Shell {
    fn start(program: &str, arguments: &[&str]) -> Result<Self, Failure> {
        let started = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn();
        let mut child = started.map_err(|error| Failure::of(program, error))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure(format!("{program} has no standard input or output")));
        };
        Ok(Self { child, input, output: BufReader::new(output), program: program.to_owned() })
    }

    fn run(&mut self, script: &str) -> Result<String, Failure> {
        let ended = |program: &str| Failure(format!("{program} ended"));
        writeln!(self.input, "{script}\necho; echo {END}")
            .and_then(|()| self.input.flush())
            .map_err(|_| ended(&self.program))?;
        let mut text = String::new();
        loop {
            let from = text.len();
            let got = self
                .output
                .read_line(&mut text)
                .map_err(|error| Failure::of(format!("reading from {}", self.program), error))?;
            if got == 0 {
                return Err(ended(&self.program));
            }
            if text[from..].trim_end() == END {
                text.truncate(from);
                return Ok(text);
            }
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // Only fails if it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the script that prints the counters. [`Counter::open`] has checked the names, so they need no
/// escapes within quotes.
///
/// # Errors
/// If the folder of the control groups cannot stand within quotes.
fn script(subject: &CpuSubject, groups: &Path) -> Result<String, Failure> {
    let group = "if [ -f \"/sys/fs/cgroup/cpuacct$g/cpuacct.usage\" ]; then \
                 cd \"/sys/fs/cgroup/cpuacct$g\" && echo usage_ns $(cat cpuacct.usage) && \
                 echo user_ns $(cat cpuacct.usage_user) && echo system_ns \
                 $(cat cpuacct.usage_sys); else cat \"/sys/fs/cgroup$g/cpu.stat\"; fi 2>/dev/null";
    Ok(match subject {
        CpuSubject::Pid(_) => "cat /proc/[0-9]*/stat 2>/dev/null".to_owned(),
        CpuSubject::Cgroup(name) => format!("g='/{}'; {group}", name.trim_start_matches('/')),
        CpuSubject::Unit(name) => {
            format!("g=$(systemctl show -p ControlGroup --value '{name}'); [ -n \"$g\" ] && {{ {group}; }}")
        }
        CpuSubject::Pod(pod) => {
            let root = groups.to_str().filter(|root| !root.contains(['\'', '\n']));
            let root =
                root.ok_or_else(|| Failure(format!("{}: no folder for a script", groups.display())))?;
            pod_script(pod, root)
        }
    })
}

/// Returns the script for the control groups of a pod. The kubelet names the folder of a pod `podUID`, or with
/// systemd `kubepods-burstable-podUID.slice` with underscores in the id. Runtimes name the folder of
/// a container by its id, or with systemd `RUNTIME-ID.scope`. The shell searches once and keeps the folders in a variable.
fn pod_script(pod: &PodGroup, root: &str) -> String {
    let PodGroup { uid, containers } = pod;
    let slice = uid.replace('-', "_");
    let folders = match containers.as_slice() {
        [] => "d=$p".to_owned(),
        ids => format!(
            "d=; for c in {}; do d=\"$d $(find \"$p\" -mindepth 1 -maxdepth 1 -type d \\( -name \"*$c\" -o -name \"*$c.scope\" \\) | head -n 1)\"; done",
            ids.join(" ")
        ),
    };
    format!(
        "if [ -z \"$d\" ]; then for b in '{root}/cpuacct' '{root}/cpu,cpuacct' '{root}'; do [ -d \"$b\" ] && break; done; \
         p=$(find \"$b\" -maxdepth 4 -type d \\( -name 'pod{uid}' -o -name '*-pod{slice}.slice' \\) 2>/dev/null | \
         head -n 1); [ -n \"$p\" ] && {{ {folders}; }}; fi; \
         for g in $d; do if [ -f \"$g/cpuacct.usage_user\" ]; then echo usage_ns $(cat \"$g/cpuacct.usage\") && \
         echo user_ns $(cat \"$g/cpuacct.usage_user\") && \
         echo system_ns $(cat \"$g/cpuacct.usage_sys\"); else cat \"$g/cpu.stat\"; fi 2>/dev/null; done"
    )
}

fn parse(subject: &CpuSubject, text: &str) -> Result<CpuTime, Failure> {
    let found = match subject {
        CpuSubject::Pid(pid) => parse_tree(*pid, text),
        CpuSubject::Cgroup(_) | CpuSubject::Unit(_) => parse_groups(text, 1),
        CpuSubject::Pod(pod) => parse_groups(text, pod.containers.len().max(1)),
    };
    found.ok_or_else(|| Failure(format!("there is no {subject} with a count of CPU time")))
}

/// Adds up the counters of `count` groups in sequence. The kernel counts `usage` exactly. In version 1, user
/// and system time are estimates by timer interrupts. For a gateway that runs in short bursts, their sum was a fifth
/// too low. So they only divide the exact time, as in [`tollgate_lab_meter::cgroup::GroupCpu`].
fn parse_groups(text: &str, count: usize) -> Option<CpuTime> {
    let sum = |us: &str, ns: &str| {
        let mut found = 0;
        let mut sum_us = 0.0;
        for (key, value) in text.lines().filter_map(|line| line.split_once(' ')) {
            let factor = if key == us { 1.0 } else { 1e-3 };
            if key == us || key == ns {
                found += 1;
                sum_us += value.trim().parse::<f64>().ok()? * factor;
            }
        }
        (found == count).then_some(sum_us)
    };
    let usage = sum("usage_usec", "usage_ns")?;
    let (user, system) = (sum("user_usec", "user_ns")?, sum("system_usec", "system_ns")?);
    let user_us = if user + system > 0.0 { usage * user / (user + system) } else { usage };
    Some(CpuTime { user_us, system_us: usage - user_us })
}

/// Adds up a process and its descendants, with the children that they have waited for.
fn parse_tree(root: u32, text: &str) -> Option<CpuTime> {
    let mut parents: BTreeMap<u32, (u32, CpuTime)> = BTreeMap::new();
    for line in text.lines() {
        // The name is in parentheses and may itself contain some.
        let Some((front, back)) = line.rsplit_once(')') else { continue };
        let fields: Vec<&str> = back.split_ascii_whitespace().collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
        let pid = front.split(' ').next().and_then(|pid| pid.parse().ok());
        let parent = fields.get(1).and_then(|parent| parent.parse().ok());
        // Fields 14 to 17 of `proc(5)`, of which the third follows the name.
        if let (Some(pid), Some(parent), Some(user), Some(system), Some(reaped_user), Some(reaped_system)) =
            (pid, parent, number(11), number(12), number(13), number(14))
        {
            let time = CpuTime {
                user_us: (user + reaped_user) * TICK_US,
                system_us: (system + reaped_system) * TICK_US,
            };
            parents.insert(pid, (parent, time));
        }
    }
    parents.contains_key(&root).then(|| {
        let belongs = |mut pid: u32| {
            // At most one step per process: the processes are not read at one instant, so the parents could form a
            // cycle.
            for _ in 0..=parents.len() {
                if pid == root {
                    return true;
                }
                match parents.get(&pid) {
                    Some((parent, _)) => pid = *parent,
                    None => return false,
                }
            }
            false
        };
        parents.iter().filter(|(pid, _)| belongs(**pid)).fold(CpuTime::default(), |sum, (_, (_, time))| {
            CpuTime { user_us: sum.user_us + time.user_us, system_us: sum.system_us + time.system_us }
        })
    })
}

/// Asks Prometheus for the value of a query, a counter of CPU seconds.
fn prometheus(url: &Url, query: &str) -> Result<CpuTime, Failure> {
    let page = format!("http://{}{}/api/v1/query", url.authority(), url.path.trim_end_matches('/'));
    let answer = get(&page, &[("query", query)], LIMIT, LONGEST).map_err(|error| Failure::of(url, error))?;
    let seconds = prometheus_value(&answer.body).ok_or_else(|| {
        let text = String::from_utf8_lossy(&answer.body);
        let last = text.lines().last().unwrap_or_default();
        Failure(format!("{url}: the query `{query}` has no single number: {last}"))
    })?;
    // The split is not known; the sum is what a cost needs.
    Ok(CpuTime { user_us: seconds * 1e6, system_us: 0.0 })
}

/// Returns the number of an answer that is a scalar or a vector of one element.
fn prometheus_value(body: &[u8]) -> Option<f64> {
    let value: serde_json::Value = serde_json::from_slice(body).ok()?;
    let result = value.get("data")?.get("result")?.as_array()?;
    let number = match result.as_slice() {
        [one] => one.get("value")?.get(1)?,
        [_, number] if number.is_string() => number,
        _ => return None,
    };
    number.as_str()?.parse().ok().filter(|seconds: &f64| seconds.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_tree_is_added_up_with_its_reaped_children() {
        let text = "10 (a b) S) S 1 0 0 0 0 0 0 0 0 0 5 3 2 1 0\n\
                    11 (w) S 10 0 0 0 0 0 0 0 0 0 7 0 0 0 0\n\
                    12 (w) S 11 0 0 0 0 0 0 0 0 0 1 1 0 0 0\n\
                    13 (other) S 1 0 0 0 0 0 0 0 0 0 99 99 0 0 0\n";
        assert_eq!(parse_tree(10, text), Some(CpuTime { user_us: 150_000.0, system_us: 50_000.0 }));
        assert_eq!(parse_tree(14, text), None);
        assert_eq!(parse_tree(10, "10 (a)"), None);
    }

    #[test]
    fn groups_of_both_versions() {
        let expected = Some(CpuTime { user_us: 6.0, system_us: 3.0 });
        assert_eq!(parse_groups("usage_usec 9\nuser_usec 6\nsystem_usec 3\n", 1), expected);
        assert_eq!(
            parse_groups("usage_ns 9000\nuser_ns 4000\nsystem_ns 2000\n", 1),
            expected,
            "a third is missing"
        );
        let no_tick = Some(CpuTime { user_us: 9.0, system_us: 0.0 });
        assert_eq!(parse_groups("usage_ns 9000\nuser_ns 0\nsystem_ns 0\n", 1), no_tick);
        assert_eq!(parse_groups("", 1), None);
        let two = "usage_usec 9\nuser_usec 6\nsystem_usec 3\nusage_usec 3\nuser_usec 1\nsystem_usec 2\n";
        assert_eq!(parse_groups(two, 2), Some(CpuTime { user_us: 7.0, system_us: 5.0 }));
        assert_eq!(parse_groups(two, 3), None, "one container is not there");
    }

    #[test]
    fn the_groups_of_a_pod_are_found_under_both_drivers_and_versions() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let file = folder.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        let read = |root: &str, uid: &str, containers: &[&str]| {
            let containers = containers.iter().map(|id| (*id).to_owned()).collect();
            let subject = CpuSubject::Pod(PodGroup { uid: uid.to_owned(), containers });
            let root = folder.path().join(root);
            let mut counter = Counter::open(&CpuSource::Local(subject), None, &root)
                .map_err(|failure| failure.to_string())?;
            counter.read().map_err(|failure| failure.to_string())
        };
        let slice = "two/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod7_f.slice";
        write(&format!("{slice}/cpu.stat"), "usage_usec 9\nuser_usec 6\nsystem_usec 3\n");
        let stat = "usage_usec 3\nuser_usec 2\nsystem_usec 1\n";
        write(&format!("{slice}/cri-containerd-c1.scope/cpu.stat"), stat);
        assert_eq!(read("two", "7-f", &[]), Ok(CpuTime { user_us: 6.0, system_us: 3.0 }));
        assert_eq!(read("two", "7-f", &["c1"]), Ok(CpuTime { user_us: 2.0, system_us: 1.0 }));
        assert!(read("two", "7-f", &["c2"]).unwrap_err().contains("pod 7-f"));
        assert!(read("two", "8-f", &[]).unwrap_err().contains("there is no pod 8-f"));
        for (name, ns) in [("usage", "9000"), ("usage_user", "6000"), ("usage_sys", "3000")] {
            write(&format!("one/cpuacct/kubepods/besteffort/pod7-f/cpuacct.{name}"), ns);
        }
        assert_eq!(read("one", "7-f", &[]), Ok(CpuTime { user_us: 6.0, system_us: 3.0 }));
        // The id of one container may be the start of another's.
        for (id, ns) in [("c1-init", "7000"), ("c1", "2000"), ("c1-next", "9000")] {
            for name in ["usage", "usage_user", "usage_sys"] {
                write(&format!("one/cpuacct/kubepods/besteffort/pod7-f/{id}/cpuacct.{name}"), ns);
            }
        }
        assert_eq!(read("one", "7-f", &["c1"]), Ok(CpuTime { user_us: 1.0, system_us: 1.0 }));
    }

    #[test]
    fn prometheus_answers() {
        let vector = br#"{"data":{"result":[{"metric":{},"value":[1,"12.5"]}]}}"#;
        assert_eq!(prometheus_value(vector), Some(12.5));
        let scalar = br#"{"data":{"resultType":"scalar","result":[1,"2"]}}"#;
        assert_eq!(prometheus_value(scalar), Some(2.0));
        assert_eq!(prometheus_value(br#"{"data":{"result":[]}}"#), None);
        assert_eq!(prometheus_value(b"nothing"), None);
    }

    #[test]
    fn this_process_has_a_count_and_a_process_that_ended_has_none() {
        let open = |pid| Counter::open(&CpuSource::Local(CpuSubject::Pid(pid)), None, Path::new(CGROUPS));
        assert!(open(std::process::id()).is_ok());
        let error = open(99_999_999).unwrap_err().to_string();
        assert!(error.contains("there is no process 99999999"), "{error}");
    }
}
