//! The origin behind the systems: nginx or the laboratory's own, with a body whose every byte is known. One
//! [`Origin`] may be several servers. It listens on all loopback addresses, and each system uses another one,
//! so that paused systems do not use up the client ports of the next. It also starts the services that
//! features call, see `partner`.

use crate::agent::{Agent, Ask, OriginUp};
use crate::environment::{Environment, tail};
use crate::external::{first_answer, resolve};
use crate::failure::Failure;
use crate::host::{Host, Remote};
use crate::http::get_raw;
use crate::partner::Partners;
use crate::server::Server;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tollgate_lab_meter::cgroup::Quota;
use tollgate_lab_meter::child::Launch;
use tollgate_lab_meter::ports::free_ports;
use tollgate_lab_origin::body;
use tollgate_lab_study::{OriginKind, Settings, Url};
use tollgate_lab_system::{Address, Partners as Ports, TlsFiles};

/// The path of the readiness check. It answers 200 whatever status the study sets.
pub const READY_PATH: &str = "/tollgate-lab-ready";

/// The body of the readiness check.
pub const READY_BODY: &[u8] = b"ready";

/// How long an origin may take to start.
const START_LIMIT: Duration = Duration::from_secs(10);

/// nginx reads a word of a directive into a buffer of 4 KiB (`NGX_CONF_BUFFER`), so a longer body is served
/// from a file.
const LONGEST_WORD: usize = 4_000;

/// Origins listen on every loopback address, so that each system can use an address of its own.
const EVERYWHERE: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

/// The last octet of 127.0.0.1, which the generator uses when it reaches the origin directly.
const STRAIGHT: u8 = 1;

/// The last octet of the highest address for a system, 127.0.0.254.
const LAST_HOST: u8 = 254;

/// How many of the last request heads the built-in origin keeps.
const RECORDED: usize = 16;

/// One origin, or several alike.
#[derive(Debug)]
pub struct Origin {
    /// The ports of the origins, on every loopback address.
    pub ports: Vec<u16>,
    /// The ports for HTTP/2 in plain text, or for TLS if systems pass it through, one for each origin; `None`
    /// if `ports` serve whatever the origin speaks.
    pub second_ports: Option<Vec<u16>>,
    /// The body of every answer.
    pub body: Vec<u8>,
    status_ports: Vec<u16>,
    /// The last octet of the address that the latest system got.
    last_host: u8,
    kind: OriginKind,
    servers: Vec<Server>,
    partners: Partners,
    /// The address of the host as systems reach it, if that is not loopback.
    at: Option<IpAddr>,
    /// The addresses as the generator reaches them, if these are not on loopback.
    at_for_client: Vec<SocketAddr>,
    /// The agent that started the servers, and their number there.
    remote: Option<Remote>,
    /// The user's own origin.
    url: Option<Url>,
}

/// The origins' counters since their start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Connections accepted.
    pub connections: u64,
    /// Requests read.
    pub requests: u64,
}

impl Origin {
    /// Starts the number of origins that the settings ask for.
    ///
    /// # Errors
    /// If a server is missing, does not start or does not answer.
    pub fn start(
        environment: &Environment,
        settings: &Settings,
        cores: &[usize],
        quota: Option<&Quota>,
    ) -> Result<Self, Failure> {
        let mut origin = Self {
            body: answer(settings),
            partners: Partners::start(environment, settings.features(), cores)?,
            ..Self::empty(settings.origin())
        };
        for _ in 0..settings.origins() {
            let ports = free_ports(3)?;
            let folder = environment.folder("origin")?;
            let launch = match origin.kind {
                OriginKind::Nginx => {
                    let tls = settings.passthrough().then(|| environment.certificate()).transpose()?;
                    let text = nginx(&folder, &ports, settings, tls.as_ref(), environment.facts.file_limit);
                    fs::write(folder.join("body"), &origin.body)
                        .and_then(|()| fs::write(folder.join("nginx.conf"), text))
                        .map_err(|error| Failure::of(folder.display(), error))?;
                    Launch::new("nginx").arguments([
                        "-e".as_ref(),
                        folder.join("error.log").as_os_str(),
                        "-c".as_ref(),
                        folder.join("nginx.conf").as_os_str(),
                    ])
                }
                OriginKind::Builtin | OriginKind::Grpc | OriginKind::GrpcStream => {
                    builtin(environment, &folder, &ports, settings)?
                }
            };
            let output = folder.join("output.log");
            let mut launch = launch.cores(cores).output(&output, &output);
            if let Some(quota) = quota {
                launch = launch.quota(quota);
            }
            origin.servers.push(Server::new(launch.start()?));
            origin.ports.push(ports[0]);
            origin.status_ports.push(ports[1]);
            if origin.kind == OriginKind::Nginx {
                origin.second_ports.get_or_insert_default().push(ports[2]);
            }
            origin.wait(&folder)?;
        }
        Ok(origin)
    }

    /// Describes an origin that a thread of this process runs on every address. It has no counters, and
    /// [`Origin::body`] is empty.
    pub fn of_this_process(port: u16) -> Self {
        Self { ports: vec![port], ..Self::empty(OriginKind::Builtin) }
    }

    /// Describes origins that another host of the run has started, for an agent. They have no counters here. The
    /// addresses serve the protocol that the system speaks to the origins.
    pub(crate) fn at(addresses: Vec<SocketAddr>) -> Self {
        let ports = addresses.iter().map(SocketAddr::port).collect();
        let at = addresses.first().map(SocketAddr::ip);
        Self { ports, at, ..Self::empty(OriginKind::Builtin) }
    }

    /// Describes no origin, for gateways that run with one of their own.
    pub(crate) fn none() -> Self {
        Self::empty(OriginKind::Builtin)
    }

    /// Describes the user's own origin, after it answered once.
    ///
    /// # Errors
    /// If its name has no address, or it does not answer with a 2xx status. An origin with TLS is not asked.
    pub(crate) fn of_user(url: &Url) -> Result<Self, Failure> {
        let address = resolve(url)?;
        let body = if url.tls { Vec::new() } else { first_answer(url)? };
        Ok(Self {
            ports: vec![address.port()],
            body,
            at: Some(address.ip()),
            at_for_client: vec![address],
            url: Some(url.clone()),
            ..Self::empty(OriginKind::Builtin)
        })
    }

    /// Starts the origins on the host that the run has for them.
    ///
    /// # Errors
    /// As [`Origin::start`]; also if a feature needs a service next to the origin, which only one host can have.
    pub(crate) fn start_on_its_host(
        environment: &Environment,
        settings: &Settings,
        quota: Option<&Quota>,
    ) -> Result<Self, Failure> {
        let hosts = &environment.hosts;
        if !hosts.are_local() && Partners::needed(settings.features()) {
            return Err(Failure("`ext_authz` and `shared_rate_limit` need all roles on one host".into()));
        }
        let mut origin = match &hosts.origin {
            Host::Local => Self::start(environment, settings, &environment.cores.origin, quota)?,
            Host::Agent(agent) => {
                let OriginUp { id, ports, second_ports } =
                    agent.ask(&Ask::StartOrigin(Box::new(settings.clone())))?;
                Self {
                    ports,
                    second_ports,
                    body: body(settings.response_body()),
                    remote: Some(Remote { agent: Rc::clone(agent), id }),
                    ..Self::empty(settings.origin())
                }
            }
        };
        let (system, client) = (hosts.origin_address(), hosts.origin_address_for_client());
        // On loopback each system has an address of its own.
        origin.at = (!system.is_loopback()).then_some(system);
        origin.at_for_client = if client.is_loopback() {
            Vec::new()
        } else {
            origin.ports.iter().map(|port| SocketAddr::new(client, *port)).collect()
        };
        Ok(origin)
    }

    fn empty(kind: OriginKind) -> Self {
        Self {
            ports: Vec::new(),
            second_ports: None,
            body: Vec::new(),
            status_ports: Vec::new(),
            last_host: STRAIGHT,
            kind,
            servers: Vec::new(),
            partners: Partners::default(),
            at: None,
            at_for_client: Vec::new(),
            remote: None,
            url: None,
        }
    }

    /// Returns the agent that started it, and its number there.
    pub(crate) fn remote(&self) -> Option<(Rc<Agent>, u64)> {
        self.remote.as_ref().map(|remote| (Rc::clone(&remote.agent), remote.id))
    }

    /// Returns the address of the user's own origin.
    pub(crate) fn url(&self) -> Option<&Url> {
        self.url.as_ref()
    }

    /// Returns the address at which the generator reaches the first origin; `None` without an origin.
    pub(crate) fn for_client(&self) -> Option<SocketAddr> {
        let loopback = || Some(SocketAddr::from((Ipv4Addr::LOCALHOST, *self.ports.first()?)));
        self.at_for_client.first().copied().or_else(loopback)
    }

    /// Returns the addresses for a generator that reaches the origins directly.
    pub fn straight(&self) -> Vec<Address> {
        if !self.at_for_client.is_empty() {
            return numeric(&self.at_for_client);
        }
        on(Ipv4Addr::new(127, 0, 0, STRAIGHT).into(), &self.ports)
    }

    /// Returns the addresses for the next system: on a host that no other system uses, from 127.0.0.2 up.
    ///
    /// Systems are paused between their turns with their connections open, and each connection takes a client
    /// port of its pair of addresses. If all systems shared one pair, a few systems with thousands of
    /// connections would leave no ports for the next one.
    ///
    /// `second`: the system, or its clients through it, speak HTTP/2 or TLS to the origins.
    pub fn for_next_system(&mut self, second: bool) -> Vec<Address> {
        let host = self.at.unwrap_or_else(|| {
            // Hosts may be reused: only cold systems use up all of them, and all but the last few have exited.
            self.last_host = if self.last_host >= LAST_HOST { STRAIGHT + 1 } else { self.last_host + 1 };
            Ipv4Addr::new(127, 0, 0, self.last_host).into()
        });
        on(host, self.second_ports.as_ref().filter(|_| second).unwrap_or(&self.ports))
    }

    /// Returns the ports of all protocols.
    pub fn all_ports(&self) -> Vec<u16> {
        self.ports.iter().chain(self.second_ports.iter().flatten()).copied().collect()
    }

    /// Returns the ports of the services that features call.
    pub fn partners(&self) -> Ports {
        self.partners.ports
    }

    fn wait(&mut self, folder: &Path) -> Result<(), Failure> {
        let port = self.ports[self.ports.len() - 1];
        let begun = Instant::now();
        loop {
            let ready = match self.kind {
                // It speaks no HTTP/1, but it listens before its control port answers.
                OriginKind::Grpc | OriginKind::GrpcStream => self.counted().is_some(),
                _ => get_raw(port, READY_PATH).is_ok_and(|answer| answer.ends_with(READY_BODY)),
            };
            if ready {
                return Ok(());
            }
            let ended = match self.servers.last_mut() {
                Some(server) => server.ended()?,
                None => None,
            };
            if ended.is_some() || begun.elapsed() > START_LIMIT {
                let log =
                    [tail(&folder.join("output.log"), 6), tail(&folder.join("error.log"), 6)].join("\n");
                let how = ended.unwrap_or_else(|| "it does not answer".into());
                return Err(Failure(format!("the origin did not start ({how}): {}", log.trim())));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns the process ids of the servers.
    pub fn ids(&self) -> Vec<u32> {
        self.servers.iter().map(Server::id).collect()
    }

    /// Returns the port on which the first built-in origin reports what it recorded.
    pub fn control_port(&self) -> u16 {
        self.status_ports.first().copied().unwrap_or_default()
    }

    /// Pauses all servers (SIGSTOP).
    pub fn pause(&mut self) {
        self.servers.iter_mut().for_each(Server::pause);
    }

    /// Resumes all servers.
    pub fn resume(&mut self) {
        self.servers.iter_mut().for_each(Server::resume);
    }

    /// Returns the sum of the counters, including this reading itself; `None` if an origin does not answer.
    pub fn counted(&self) -> Option<Counted> {
        if let Some(Remote { agent, id }) = &self.remote {
            return agent.ask(&Ask::Counted(*id)).ok().flatten();
        }
        if self.status_ports.is_empty() {
            return None;
        }
        let mut sum = Counted::default();
        for port in &self.status_ports {
            let one = match self.kind {
                OriginKind::Nginx => nginx_status(&get_raw(*port, "/").ok()?)?,
                OriginKind::Builtin | OriginKind::Grpc | OriginKind::GrpcStream => {
                    builtin_status(&get_raw(*port, "/counters").ok()?)?
                }
            };
            sum.connections += one.connections;
            sum.requests += one.requests;
        }
        Some(sum)
    }

    /// Returns what the system caused between two readings; `readings` is the number of readings since
    /// `before`, `after` included. Each reading of nginx's status is itself a connection and a request, which
    /// is subtracted.
    pub fn between(&self, before: Counted, after: Counted, readings: u64) -> Counted {
        let own = match self.kind {
            // Each origin has one status port, also at an agent.
            OriginKind::Nginx => readings * self.ports.len() as u64,
            OriginKind::Builtin | OriginKind::Grpc | OriginKind::GrpcStream => 0,
        };
        Counted {
            connections: after.connections.saturating_sub(before.connections + own),
            requests: after.requests.saturating_sub(before.requests + own),
        }
    }
}

/// Returns the body of every answer: on gRPC streams the message as the generator fills it.
fn answer(settings: &Settings) -> Vec<u8> {
    match settings.grpc_streams() {
        true => vec![b'p'; settings.response_body()],
        false => body(settings.response_body()),
    }
}

fn on(host: IpAddr, ports: &[u16]) -> Vec<Address> {
    ports.iter().map(|port| Address { host: host.to_string(), port: *port }).collect()
}

fn numeric(addresses: &[SocketAddr]) -> Vec<Address> {
    addresses.iter().map(|at| Address { host: at.ip().to_string(), port: at.port() }).collect()
}

/// Returns nginx's configuration. `tls`: the certificate of its second port, which otherwise speaks HTTP/2.
fn nginx(
    folder: &Path,
    ports: &[u16],
    settings: &Settings,
    tls: Option<&TlsFiles>,
    file_limit: u64,
) -> String {
    let path = folder.display();
    let user = if rustix::process::geteuid().is_root() { "user root;\n" } else { "" };
    let workers = settings.origin_workers();
    // Otherwise one worker accepts most connections while the others idle.
    let reuse = if workers > 1 { " reuseport" } else { "" };
    let connections = file_limit.saturating_sub(64).clamp(512, 65_536);
    let mut text = format!(
        "{user}daemon off;\nworker_processes {workers};\npid {path}/nginx.pid;\nerror_log {path}/error.log crit;\n\
         events {{ worker_connections {connections}; }}\nhttp {{\n  access_log off;\n  default_type text/plain;\n  \
         keepalive_requests 1000000000;\n  keepalive_timeout 3600s;\n  client_max_body_size 0;\n  tcp_nodelay on;\n  \
         open_file_cache max=16 inactive=1h;\n  sendfile on;\n"
    );
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        let _ = writeln!(text, "  {kind}_temp_path {path}/{kind};");
    }
    let answer = match (settings.response_body(), settings.origin_status()) {
        (bytes, status) if bytes <= LONGEST_WORD => {
            format!("return {status} \"{}\";", String::from_utf8_lossy(&body(bytes)))
        }
        (_, 200) => format!("root {path}; try_files /body =404;"),
        (_, status) => format!("root {path}; error_page 404 ={status} /body; return 404;"),
    };
    let (second, certificate) = match tls {
        Some(files) => (
            "ssl",
            format!(
                "\n    ssl_certificate {}; ssl_certificate_key {}; ssl_protocols TLSv1.3;\n    \
                 # Tickets that wait for their acknowledgement would delay the answer.\n    \
                 ssl_session_tickets off; ssl_session_cache off;",
                files.certificate.display(),
                files.key.display()
            ),
        ),
        None => ("http2", String::new()),
    };
    let _ = write!(
        text,
        "  server {{\n    listen {EVERYWHERE}:{} backlog=4096{reuse};\n    \
         listen {EVERYWHERE}:{} {second} backlog=4096{reuse};{certificate}\n    location = {READY_PATH} {{ return 200 \"{}\"; }}\n    \
         location / {{ {answer} }}\n  }}\n  server {{ listen 127.0.0.1:{}; location / {{ stub_status; }} }}\n}}\n",
        ports[0],
        ports[2],
        String::from_utf8_lossy(READY_BODY),
        ports[1],
    );
    text
}

/// Returns the command of the laboratory's own origin; its second port serves the counters.
fn builtin(
    environment: &Environment,
    folder: &Path,
    ports: &[u16],
    settings: &Settings,
) -> Result<Launch<'static>, Failure> {
    let file = folder.join("origin.json");
    let listen = SocketAddr::from((EVERYWHERE, ports[0]));
    let control = SocketAddr::from((Ipv4Addr::LOCALHOST, ports[1]));
    let mut origin = tollgate_lab_origin::Settings::new(listen, control);
    origin.threads = settings.origin_workers();
    origin.response_bytes = settings.response_body();
    origin.status = settings.origin_status();
    origin.delay_ms = settings.origin_delay_ms.unwrap_or(0);
    origin.ready_path = READY_PATH.to_owned();
    origin.ready_body = String::from_utf8_lossy(READY_BODY).into_owned();
    origin.grpc = settings.grpc();
    origin.echo = settings.grpc_streams();
    origin.record = RECORDED;
    let text = serde_json::to_vec(&origin).map_err(|error| Failure::of("the origin's settings", error))?;
    fs::write(&file, text).map_err(|error| Failure::of(file.display(), error))?;
    Ok(Launch::new(&environment.exe).arguments(["origin".as_ref(), file.as_os_str()]))
}

/// Parses the counters of the laboratory's own origin.
fn builtin_status(answer: &[u8]) -> Option<Counted> {
    let text = String::from_utf8_lossy(answer);
    let value: serde_json::Value = serde_json::from_str(&text[text.find('{')?..]).ok()?;
    Some(Counted {
        connections: value.get("connections")?.as_u64()?,
        requests: value.get("requests")?.as_u64()?,
    })
}

/// Parses nginx's status page: the line `server accepts handled requests` and the three numbers below it.
fn nginx_status(page: &[u8]) -> Option<Counted> {
    let text = String::from_utf8_lossy(page);
    let line = text.lines().skip_while(|line| !line.starts_with("server accepts")).nth(1)?;
    let mut numbers = line.split_ascii_whitespace().map(str::parse::<u64>);
    let connections = numbers.next()?.ok()?;
    let requests = numbers.nth(1)?.ok()?;
    Some(Counted { connections, requests })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_system_has_a_host_of_its_own_and_the_first_is_for_no_system() {
        let mut origin = Origin::of_this_process(81);
        origin.ports.push(82);
        let texts =
            |addresses: Vec<Address>| -> Vec<String> { addresses.iter().map(ToString::to_string).collect() };
        assert_eq!(texts(origin.for_next_system(false)), ["127.0.0.2:81", "127.0.0.2:82"]);
        assert_eq!(texts(origin.for_next_system(false)), ["127.0.0.3:81", "127.0.0.3:82"]);
        assert_eq!(texts(origin.straight()), ["127.0.0.1:81", "127.0.0.1:82"]);
        for _ in 4..LAST_HOST {
            origin.for_next_system(false);
        }
        assert_eq!(texts(origin.for_next_system(false))[0], "127.0.0.254:81");
        assert_eq!(texts(origin.for_next_system(false))[0], "127.0.0.2:81");
        origin.second_ports = Some(vec![91, 92]);
        assert_eq!(texts(origin.for_next_system(true)), ["127.0.0.3:91", "127.0.0.3:92"]);
        assert_eq!(texts(origin.for_next_system(false)), ["127.0.0.4:81", "127.0.0.4:82"]);
    }

    #[test]
    fn nginx_answers_on_every_address_and_tells_its_status_on_one() {
        let text = nginx(Path::new("/run"), &[81, 82, 83], &Settings::default(), None, 1_024);
        assert!(text.contains("listen 0.0.0.0:81 ") && text.contains("listen 0.0.0.0:83 http2 "), "{text}");
        assert!(text.contains("listen 127.0.0.1:82;"), "{text}");
    }

    #[test]
    fn status_pages_are_read() {
        let page = b"HTTP/1.1 200 OK\r\n\r\nActive connections: 2 \nserver accepts handled requests\n 11 11 42 \nReading: 0\n";
        assert_eq!(nginx_status(page), Some(Counted { connections: 11, requests: 42 }));
        assert_eq!(nginx_status(b"HTTP/1.1 404 Not Found\r\n\r\n"), None);
    }
}
