//! A Redis that a test starts, kills and starts again: a single server, one with a replica and a Sentinel, or
//! the nodes of a cluster.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::address::free_address;
use crate::eventually;
use crate::process::send_signal;

/// A Redis without persistence (`redis-server`, or `valkey-server` if only that is installed).
#[derive(Debug)]
pub struct Redis {
    address: SocketAddr,
    password: String,
    /// Further arguments.
    more: Vec<String>,
    /// The directory for its files.
    folder: Option<PathBuf>,
    child: Option<Child>,
}

impl Redis {
    /// Starts a server on an address of its own that requires this password; an empty one means none.
    ///
    /// # Panics
    /// Panics if no server is installed, or it does not start: `scripts/install-test-tools` installs it.
    #[must_use]
    pub fn start(password: &str) -> Self {
        Self::start_as(password, |_| Vec::new())
    }

    /// Starts a server with further arguments, which may depend on its address.
    fn start_as(password: &str, more: impl FnOnce(SocketAddr) -> Vec<String>) -> Self {
        let address = free_address();
        let (password, more) = (password.to_owned(), more(address));
        let mut redis = Self { address, password, more, folder: None, child: None };
        redis.restart();
        redis
    }

    /// Starts a replica of this server, and waits until it is in sync.
    ///
    /// # Panics
    /// Panics if the replica does not start.
    #[must_use]
    pub fn replica(&self) -> Self {
        let (ip, port, password) = (self.address.ip(), self.address.port(), self.password.clone());
        let replica = Self::start_as(&self.password, |own| {
            let mut more = vec!["--replicaof".to_owned(), ip.to_string(), port.to_string()];
            more.extend(["--replica-announce-ip".to_owned(), own.ip().to_string()]);
            if !password.is_empty() {
                more.extend(["--masterauth".to_owned(), password]);
            }
            more
        });
        eventually("the replica to follow", || {
            replica.says("INFO replication").contains("master_link_status:up")
        });
        replica
    }

    /// Starts a Sentinel that monitors this server as `mymaster` and promotes a replica within about two
    /// seconds.
    ///
    /// # Panics
    /// Panics if the Sentinel does not start, or does not find the replica.
    #[must_use]
    pub fn sentinel(&self, password: &str) -> Self {
        let (master, address) = (self.address, free_address());
        let folder = folder();
        let mut text = format!(
            "port {}\nbind {}\ndir {}\nsentinel monitor mymaster {} {} 1\nsentinel down-after-milliseconds mymaster 500\n\
             sentinel failover-timeout mymaster 2000\n",
            address.port(),
            address.ip(),
            folder.display(),
            master.ip(),
            master.port()
        );
        if !self.password.is_empty() {
            text += &format!("sentinel auth-pass mymaster {}\n", self.password);
        }
        if !password.is_empty() {
            text += &format!("requirepass {password}\n");
        }
        let file = folder.join("sentinel.conf");
        std::fs::write(&file, text).expect("written");
        let mut command = Command::new("redis-server");
        let child = spawn(command.arg(&file).arg("--sentinel"))
            .expect("redis-server: see scripts/install-test-tools");
        let password = password.to_owned();
        let sentinel = Self { address, password, more: Vec::new(), folder: Some(folder), child: Some(child) };
        eventually("the Sentinel to listen", || TcpStream::connect(address).is_ok());
        eventually("the Sentinel to know a replica", || {
            sentinel.says("SENTINEL MASTER mymaster").contains("num-slaves\r\n$1\r\n1")
        });
        sentinel
    }

    /// Starts a cluster of three masters. The fourth node is a replica of the first.
    ///
    /// # Panics
    /// Panics if the cluster does not form.
    #[must_use]
    pub fn cluster(password: &str) -> Vec<Self> {
        let nodes: Vec<_> = (0..4).map(|_| Self::node(password)).collect();
        let known = |node: &Self, what: &str| node.says("CLUSTER INFO").contains(what);
        for (index, node) in nodes.iter().enumerate() {
            if index < 3 {
                let (first, last) = (16_384 * index / 3, 16_384 * (index + 1) / 3 - 1);
                assert_eq!(node.says(&format!("CLUSTER ADDSLOTSRANGE {first} {last}")), "+OK\r\n");
            }
            let (ip, port, bus) = (node.address.ip(), node.address.port(), node.bus());
            for other in &nodes[..index] {
                assert_eq!(other.says(&format!("CLUSTER MEET {ip} {port} {bus}")), "+OK\r\n");
            }
        }
        for node in &nodes {
            eventually("the nodes to know each other", || known(node, "cluster_known_nodes:4"));
        }
        let id = nodes[0].says("CLUSTER MYID");
        let id = id.lines().nth(1).expect("an id").to_owned();
        eventually("the fourth to be a replica", || {
            nodes[3].says(&format!("CLUSTER REPLICATE {id}")) == "+OK\r\n"
        });
        for node in &nodes {
            eventually("the cluster", || known(node, "cluster_state:ok") && known(node, "cluster_size:3"));
        }
        eventually("the replica to follow", || {
            nodes[3].says("INFO replication").contains("master_link_status:up")
        });
        nodes
    }

    fn node(password: &str) -> Self {
        let folder = folder();
        let at = folder.clone();
        let mut node = Self::start_as(password, |address| {
            let bus =
                TcpListener::bind((address.ip(), 0)).and_then(|it| it.local_addr()).expect("a port").port();
            let (bus, at) = (bus.to_string(), at.join("nodes.conf").display().to_string());
            let mut more: Vec<_> =
                ["--cluster-enabled", "yes", "--cluster-config-file", &at, "--cluster-port", &bus]
                    .map(str::to_owned)
                    .into();
            // Without this, a node would announce another loopback address, which the kernel picks for its
            // outgoing connections.
            more.extend(["--cluster-announce-ip".to_owned(), address.ip().to_string()]);
            more.extend(
                ["--cluster-node-timeout", "1000", "--repl-diskless-sync-delay", "0"].map(str::to_owned),
            );
            if !password.is_empty() {
                more.extend(["--masterauth", password].map(str::to_owned));
            }
            more
        });
        node.folder = Some(folder);
        node
    }

    fn bus(&self) -> &str {
        let at = self.more.iter().position(|word| word == "--cluster-port").expect("a node of a cluster");
        &self.more[at + 1]
    }

    /// Sends a command of words without blanks and returns the answer; empty if the connection breaks.
    ///
    /// # Panics
    /// Panics if the server does not listen.
    #[must_use]
    pub fn says(&self, command: &str) -> String {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        let login =
            if self.password.is_empty() { String::new() } else { format!("AUTH {}\r\n", self.password) };
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        stream.write_all(format!("{login}{command}\r\n").as_bytes()).expect("it reads");
        // The server answers what it has received, and closes.
        stream.shutdown(Shutdown::Write).expect("connected");
        let mut said = String::new();
        // A server that becomes a replica resets all connections.
        let _ = stream.read_to_string(&mut said);
        let said =
            if self.password.is_empty() { &said[..] } else { said.strip_prefix("+OK\r\n").unwrap_or(&said) };
        said.to_owned()
    }

    /// Returns the address on which the server listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts the server again on the same address, empty, after [`kill`](Self::kill), and waits until it
    /// listens.
    ///
    /// # Panics
    /// Panics if the server does not start.
    pub fn restart(&mut self) {
        assert!(self.child.is_none(), "it runs");
        let (ip, port) = (self.address.ip().to_string(), self.address.port().to_string());
        let start = |program: &str| {
            let mut command = Command::new(program);
            command.args(["--bind", &ip, "--port", &port, "--save", "", "--appendonly", "no"]);
            command.args(["--dir", &std::env::temp_dir().display().to_string()]);
            if !self.password.is_empty() {
                command.args(["--requirepass", &self.password]);
            }
            command.args(&self.more);
            spawn(&mut command)
        };
        let child = start("redis-server").or_else(|_| start("valkey-server"));
        self.child = Some(child.expect("redis-server: see scripts/install-test-tools"));
        eventually("Redis to listen", || TcpStream::connect(self.address).is_ok());
    }

    /// Kills the server. Its connections are reset or closed.
    ///
    /// # Panics
    /// Panics if the server does not run.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().and_then(|()| child.wait()).expect("the child is ours");
    }

    /// Stops the server with SIGSTOP: the kernel still accepts bytes for it, but no answer comes.
    ///
    /// # Panics
    /// Panics if the server does not run.
    pub fn hang(&self) {
        let child = self.child.as_ref().expect("it runs");
        send_signal(Pid::from_child(child), Signal::STOP);
    }

    /// Resumes the server after [`hang`](Self::hang).
    ///
    /// # Panics
    /// Panics if the server does not run.
    pub fn go_on(&self) {
        let child = self.child.as_ref().expect("it runs");
        kill_process(Pid::from_child(child), Signal::CONT).expect("the process is there");
    }
}

fn spawn(command: &mut Command) -> std::io::Result<Child> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

/// Creates a directory of its own.
fn folder() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("tollgate-redis-{}-{n}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

impl Drop for Redis {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}
