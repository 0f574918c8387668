//! Real etcd processes that a test starts, kills, stops and starts again.

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal};

use crate::address::free_address;
use crate::eventually;
use crate::process::send_signal;

/// A cluster of `etcd` processes, with their data in a directory of its own.
#[derive(Debug)]
pub struct Etcd {
    directory: PathBuf,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    client: SocketAddr,
    peer: SocketAddr,
    child: Option<Child>,
}

impl Etcd {
    /// Starts a cluster of `count` members, and waits until it accepts writes.
    ///
    /// # Panics
    /// Panics if there is no `etcd`, or it does not start: `scripts/install-test-tools` installs it.
    #[must_use]
    pub fn start(count: usize) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("tollgate-etcd-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a temporary directory");
        let member = |_| Member { client: free_address(), peer: free_address(), child: None };
        let mut etcd = Self { directory, members: (0..count).map(member).collect() };
        (0..count).for_each(|number| etcd.spawn(number));
        eventually("etcd to take writes", || etcd.try_ctl(&["put", "/ready", "yes"]).is_some());
        etcd
    }

    fn spawn(&mut self, number: usize) {
        let url = |address: SocketAddr| format!("http://{address}");
        let cluster: Vec<String> =
            self.members.iter().enumerate().map(|(n, it)| format!("m{n}={}", url(it.peer))).collect();
        let member = &mut self.members[number];
        assert!(member.child.is_none(), "it runs");
        let mut command = Command::new("etcd");
        command
            .args(["--name", &format!("m{number}"), "--data-dir"])
            .arg(self.directory.join(format!("m{number}")));
        for (option, address) in [
            ("--listen-client-urls", member.client),
            ("--advertise-client-urls", member.client),
            ("--listen-peer-urls", member.peer),
            ("--initial-advertise-peer-urls", member.peer),
        ] {
            command.args([option, &url(address)]);
        }
        command.args(["--initial-cluster", &cluster.join(",")]);
        command.args(["--heartbeat-interval", "50", "--election-timeout", "500"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        member.child = Some(command.spawn().expect("etcd: see scripts/install-test-tools"));
    }

    /// Returns the address on which a member serves clients.
    #[must_use]
    pub fn address(&self, member: usize) -> SocketAddr {
        self.members[member].client
    }

    /// Returns the addresses of all members as a YAML list for the gateway's configuration.
    #[must_use]
    pub fn endpoints(&self) -> String {
        let all: Vec<String> = self.members.iter().map(|member| format!("\"{}\"", member.client)).collect();
        format!("[{}]", all.join(", "))
    }

    /// Runs `etcdctl` against all running members and returns its standard output.
    ///
    /// # Panics
    /// Panics if the command fails.
    pub fn ctl(&self, arguments: &[&str]) -> String {
        self.try_ctl(arguments).unwrap_or_else(|| panic!("etcdctl {arguments:?}"))
    }

    /// Runs `etcdctl` as [`Etcd::ctl`] does, and returns `None` if it fails.
    pub fn try_ctl(&self, arguments: &[&str]) -> Option<String> {
        let running = self.members.iter().filter(|member| member.child.is_some());
        let endpoints: Vec<String> = running.map(|member| member.client.to_string()).collect();
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args([
            "--endpoints",
            &endpoints.join(","),
            "--command-timeout",
            "5s",
        ]);
        let ran = command
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .expect("etcdctl: see scripts/install-test-tools");
        ran.status.success().then(|| String::from_utf8_lossy(&ran.stdout).into_owned())
    }

    /// Writes a key below `/tollgate/config/`.
    pub fn put(&self, key: &str, value: &str) {
        self.ctl(&["put", &format!("/tollgate/config/{key}"), "--", value]);
    }

    /// Deletes a key below `/tollgate/config/`.
    pub fn delete(&self, key: &str) {
        self.ctl(&["del", &format!("/tollgate/config/{key}")]);
    }

    /// Compacts the history before the current revision.
    ///
    /// # Panics
    /// Panics if etcd does not report its revision.
    pub fn compact(&self) {
        let reported = self.ctl(&["get", "/ready", "-w", "json"]);
        let reported: serde_json::Value = serde_json::from_str(&reported).expect("JSON");
        let revision = reported["header"]["revision"].as_u64().expect("a revision");
        self.ctl(&["compact", &revision.to_string()]);
    }

    /// Kills a member.
    ///
    /// # Panics
    /// Panics if the member does not run.
    pub fn kill(&mut self, member: usize) {
        let mut child = self.members[member].child.take().expect("it runs");
        child.kill().and_then(|()| child.wait()).expect("the child is ours");
    }

    /// Starts a killed member again with its data, and waits until it listens.
    pub fn restart(&mut self, member: usize) {
        self.spawn(member);
        let address = self.address(member);
        eventually("etcd to listen", || TcpStream::connect(address).is_ok());
    }

    /// Stops a member with SIGSTOP: the kernel still accepts bytes for it, but no answer comes.
    pub fn hang(&self, member: usize) {
        self.signal(member, Signal::STOP);
    }

    /// Resumes a member after [`hang`](Self::hang).
    pub fn go_on(&self, member: usize) {
        self.signal(member, Signal::CONT);
    }

    fn signal(&self, member: usize, signal: Signal) {
        let child = self.members[member].child.as_ref().expect("it runs");
        send_signal(Pid::from_child(child), signal);
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for number in 0..self.members.len() {
            if self.members[number].child.is_some() {
                self.kill(number);
            }
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
