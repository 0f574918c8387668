//! Servers that already run and that a study only names: a gateway (`target:` of an arm), the user's own
//! origin, and the source of the gateway's CPU time (`cpu:` of an arm).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The address of a server that already runs: `https://gateway.example:8443/path`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Url {
    /// Whether clients use TLS.
    pub tls: bool,
    /// The name or numeric address, without the brackets of IPv6.
    pub host: String,
    /// The port; by default 80, and 443 with TLS.
    pub port: u16,
    /// The path and query, from `/`.
    pub path: String,
}

impl Url {
    /// Returns the value of the `Host` field: the host, with its port unless it is the scheme's default.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == default_port(self.tls) { host } else { format!("{host}:{}", self.port) }
    }
}

fn default_port(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            |what: &str| format!("`{text}`: {what}; expected a URL such as https://gateway.example/path");
        let (tls, rest) = match text.split_once("://") {
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            Some((scheme, _)) => return Err(wrong(&format!("the scheme `{scheme}` is not supported"))),
            None => return Err(wrong("the scheme is missing")),
        };
        let cut = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(cut);
        if authority.contains('@') || path.contains('#') {
            return Err(wrong("user names and fragments are not supported"));
        }
        let after = authority.rfind(']').unwrap_or(0);
        let (host, port) = match authority[after..].rfind(':') {
            Some(at) => (&authority[..after + at], Some(&authority[after + at + 1..])),
            None => (authority, None),
        };
        let port = match port {
            None => default_port(tls),
            Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or_else(|| wrong("no such port"))?,
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let allowed = |c: char| c.is_ascii_alphanumeric() || ".-_:".contains(c);
        if host.is_empty() || !host.chars().all(allowed) {
            return Err(wrong("the host is missing or is no name"));
        }
        if path.chars().any(|c| c.is_ascii_control() || c == ' ') {
            return Err(wrong("a path has no spaces"));
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { tls, host: host.to_owned(), port, path })
    }
}

impl TryFrom<String> for Url {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Url> for String {
    fn from(url: Url) -> Self {
        url.to_string()
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", if self.tls { "https" } else { "http" }, self.authority(), self.path)
    }
}

/// A gateway that already runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct External {
    /// Its address; the path is requested unless the settings name another.
    pub url: Url,
    /// PEM file of the only certificate that it may present; `None` expects the certificate of the first
    /// handshake.
    pub certificate: Option<PathBuf>,
    /// The source of its CPU time; `None` means that no toll is shown.
    pub cpu: Option<CpuSource>,
    /// Its version; empty if it is not known.
    pub version: String,
}

/// The processes of a gateway on its host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CpuSubject {
    /// A process with all its descendants.
    Pid(u32),
    /// A control group, as `/proc/PID/cgroup` names it.
    Cgroup(String),
    /// A unit of systemd.
    Unit(String),
    /// A pod of Kubernetes.
    Pod(PodGroup),
}

/// The control groups of a pod on its node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodGroup {
    /// The pod's unique id.
    pub uid: String,
    /// The ids of the containers that count, as the pod's status has them after `://`; empty: all.
    pub containers: Vec<String>,
}

impl CpuSubject {
    /// Checks that a name may become part of a shell command, maybe on another host.
    ///
    /// # Errors
    /// A sentence about the name.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Cgroup(name) | Self::Unit(name) => {
                let allowed = |c: char| c.is_ascii_alphanumeric() || "/._:@-".contains(c);
                if name.is_empty() || name.starts_with('-') || !name.chars().all(allowed) {
                    return Err(format!("`{name}` is no name of a control group or a unit"));
                }
                Ok(())
            }
            Self::Pod(pod) => {
                let allowed = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
                let wrong = |id: &&String| id.is_empty() || id.starts_with('-') || !id.chars().all(allowed);
                match std::iter::once(&pod.uid).chain(&pod.containers).find(wrong) {
                    Some(id) => Err(format!("`{id}` is no id of a pod or a container")),
                    None => Ok(()),
                }
            }
            Self::Pid(_) => Ok(()),
        }
    }
}

/// The source of a gateway's CPU time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "CpuKeys", into = "CpuKeys")]
pub enum CpuSource {
    /// Processes on this host.
    Local(CpuSubject),
    /// Processes on a host that `ssh` reaches without a password.
    Ssh(String, CpuSubject),
    /// Processes on the host of an agent, by its address and port.
    Agent(String, CpuSubject),
    /// A query whose value is a counter of CPU seconds, and the server of Prometheus.
    Prometheus(Url, String),
    /// All of these together, such as the pods of a gateway on several nodes.
    Sum(Vec<CpuSource>),
}

/// The keys of a [`CpuSource`] as written.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct CpuKeys {
    pid: Option<u32>,
    cgroup: Option<String>,
    unit: Option<String>,
    pod: Option<String>,
    containers: Vec<String>,
    sum: Vec<CpuSource>,
    ssh: Option<String>,
    agent: Option<String>,
    prometheus: Option<Url>,
    query: Option<String>,
}

impl TryFrom<CpuKeys> for CpuSource {
    type Error = String;

    fn try_from(keys: CpuKeys) -> Result<Self, String> {
        let CpuKeys { pid, cgroup, unit, pod, containers, sum, ssh, agent, prometheus, query } = keys;
        if pod.is_none() && !containers.is_empty() {
            return Err("`containers` needs `pod: UID`, whose containers they are".into());
        }
        let subjects: Vec<CpuSubject> = pid
            .map(CpuSubject::Pid)
            .into_iter()
            .chain(cgroup.map(CpuSubject::Cgroup))
            .chain(unit.map(CpuSubject::Unit))
            .chain(pod.map(|uid| CpuSubject::Pod(PodGroup { uid, containers })))
            .collect();
        subjects.iter().try_for_each(CpuSubject::check)?;
        if let Some(host) = ssh.as_ref().filter(|host| host.is_empty() || host.starts_with('-')) {
            return Err(format!("`{host}` is no host for ssh"));
        }
        if !sum.is_empty() {
            let alone = prometheus.is_none() && query.is_none() && ssh.is_none() && agent.is_none();
            return match alone && subjects.is_empty() {
                true => Ok(Self::Sum(sum)),
                false => Err("`sum` stands alone: each of its sources has its own keys".into()),
            };
        }
        match (prometheus, query, ssh, agent, subjects.as_slice()) {
            (Some(url), Some(query), None, None, []) if !url.tls => Ok(Self::Prometheus(url, query)),
            (Some(url), Some(_), None, None, []) => Err(format!("`{url}`: Prometheus is read over http only")),
            (None, None, None, None, [one]) => Ok(Self::Local(one.clone())),
            (None, None, Some(host), None, [one]) => Ok(Self::Ssh(host, one.clone())),
            (None, None, None, Some(agent), [one]) => Ok(Self::Agent(agent, one.clone())),
            _ => Err("expected one of `pid`, `cgroup`, `unit` and `pod`, with `ssh: host` or `agent: address` if it \
                      runs on another host, or `prometheus: url` and `query`, or `sum` with a list of these"
                .into()),
        }
    }
}

impl From<CpuSource> for CpuKeys {
    fn from(source: CpuSource) -> Self {
        let mut keys = Self::default();
        let subject = match source {
            CpuSource::Local(subject) => Some(subject),
            CpuSource::Ssh(host, subject) => {
                keys.ssh = Some(host);
                Some(subject)
            }
            CpuSource::Agent(agent, subject) => {
                keys.agent = Some(agent);
                Some(subject)
            }
            CpuSource::Prometheus(url, query) => {
                (keys.prometheus, keys.query) = (Some(url), Some(query));
                None
            }
            CpuSource::Sum(sum) => {
                keys.sum = sum;
                None
            }
        };
        match subject {
            Some(CpuSubject::Pid(pid)) => keys.pid = Some(pid),
            Some(CpuSubject::Cgroup(name)) => keys.cgroup = Some(name),
            Some(CpuSubject::Unit(name)) => keys.unit = Some(name),
            Some(CpuSubject::Pod(pod)) => (keys.pod, keys.containers) = (Some(pod.uid), pod.containers),
            None => {}
        }
        keys
    }
}

impl fmt::Display for CpuSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pid(pid) => write!(f, "process {pid}"),
            Self::Cgroup(name) => write!(f, "control group {name}"),
            Self::Unit(name) => write!(f, "unit {name}"),
            Self::Pod(pod) if pod.containers.is_empty() => write!(f, "pod {}", pod.uid),
            Self::Pod(pod) => write!(f, "{} of the containers of pod {}", pod.containers.len(), pod.uid),
        }
    }
}

impl fmt::Display for CpuSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(subject) => write!(f, "{subject}"),
            Self::Ssh(host, subject) => write!(f, "{subject} on {host}, over ssh"),
            Self::Agent(agent, subject) => write!(f, "{subject} at the agent {agent}"),
            Self::Prometheus(url, query) => write!(f, "the query `{query}` at {url}"),
            Self::Sum(sources) => {
                let all: Vec<String> = sources.iter().map(ToString::to_string).collect();
                f.write_str(&all.join(" and "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let url: Url = "https://gateway.example".parse().unwrap();
        assert_eq!((url.port, url.path.as_str(), url.authority().as_str()), (443, "/", "gateway.example"));
        let url: Url = "http://[::1]:8080/a?b=c".parse().unwrap();
        assert_eq!((url.host.as_str(), url.port, url.path.as_str()), ("::1", 8080, "/a?b=c"));
        assert_eq!(url.to_string(), "http://[::1]:8080/a?b=c");
        assert_eq!("http://[::1]".parse::<Url>().unwrap().port, 80);
        for (text, what) in [
            ("gateway.example", "the scheme is missing"),
            ("ftp://a", "`ftp` is not supported"),
            ("http://a:0", "no such port"),
            ("http://a:x/", "no such port"),
            ("http:///x", "the host is missing"),
            ("http://u@a", "user names"),
            ("http://a/ b", "no spaces"),
        ] {
            let error = text.parse::<Url>().unwrap_err();
            assert!(error.contains(what) && error.contains("https://gateway.example/path"), "{error}");
        }
    }

    #[test]
    fn sources_of_cpu_time() {
        let read = |text: &str| serde_saphyr::from_str::<CpuSource>(text).map_err(|error| error.to_string());
        let unit = CpuSubject::Unit("nginx.service".into());
        assert_eq!(read("{pid: 7}"), Ok(CpuSource::Local(CpuSubject::Pid(7))));
        assert_eq!(read("{ssh: a, unit: nginx.service}"), Ok(CpuSource::Ssh("a".into(), unit.clone())));
        assert_eq!(read("{agent: 'a:1', unit: nginx.service}"), Ok(CpuSource::Agent("a:1".into(), unit)));
        let sum = "{prometheus: 'http://p:9090', query: sum(x)}";
        assert!(matches!(read(sum), Ok(CpuSource::Prometheus(url, _)) if url.port == 9090));
        let pods = "{sum: [{agent: a, pod: 7-f, containers: [c1]}, {pod: 8-f}]}";
        let Ok(CpuSource::Sum(sum)) = read(pods) else { panic!("{:?}", read(pods)) };
        let pod = |uid: &str, containers: &[&str]| {
            let containers = containers.iter().map(|id| (*id).to_owned()).collect();
            CpuSubject::Pod(PodGroup { uid: uid.to_owned(), containers })
        };
        let expected =
            vec![CpuSource::Agent("a".into(), pod("7-f", &["c1"])), CpuSource::Local(pod("8-f", &[]))];
        assert_eq!(sum, expected);
        assert!(read("{sum: [{pid: 1}], pid: 2}").unwrap_err().contains("stands alone"));
        assert!(read("{pid: 1, containers: [a]}").unwrap_err().contains("needs `pod: UID`"));
        assert!(read("{pod: 'a*'}").unwrap_err().contains("is no id"));
        for wrong in ["{}", "{pid: 1, unit: a}", "{ssh: a}", "{query: x}", "{prometheus: 'http://p'}"] {
            assert!(read(wrong).unwrap_err().contains("expected one of `pid`"), "{wrong}");
        }
        assert!(read("{unit: \"a'; reboot\"}").unwrap_err().contains("is no name"));
        assert!(read("{ssh: -oProxyCommand=x, pid: 1}").unwrap_err().contains("no host for ssh"));
    }
}
