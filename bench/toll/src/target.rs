//! The servers under test: start one on its core, wait until it answers rightly, stop it.

use crate::child::Group;
use crate::configs::{self, Place, Terms};
use crate::failure::Failure;
use crate::http;
use crate::machine::{Cores, Tools, is_free};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a server may take from its start to the first right answer.
const START_LIMIT: Duration = Duration::from_secs(15);

/// A kind of server under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// The project's gateway.
    Tollgate,
    /// nginx.
    Nginx,
    /// HAProxy.
    Haproxy,
}

impl System {
    /// In the order of the tables.
    pub const ALL: [Self; 3] = [Self::Tollgate, Self::Nginx, Self::Haproxy];

    /// As the tables write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tollgate => "tollgate",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
        }
    }

    fn config_name(self) -> &'static str {
        match self {
            Self::Tollgate => "tollgate.yaml",
            Self::Nginx => "nginx.conf",
            Self::Haproxy => "haproxy.cfg",
        }
    }
}

/// What a run needs to start servers.
#[derive(Debug)]
pub struct Ground {
    /// Who runs where.
    pub cores: Cores,
    /// Peers and generators found.
    pub tools: Tools,
    /// The gateway's binary.
    pub gateway: PathBuf,
    /// Folder for everything that a run writes.
    pub scratch: PathBuf,
    /// The origin's port, then one a system in the order of [`System::ALL`], then one for the embedded origin.
    pub ports: Vec<u16>,
    /// Whether this process is root.
    pub root: bool,
}

impl Ground {
    /// The origin's port.
    pub fn origin_port(&self) -> u16 {
        self.ports[0]
    }

    /// Where the origin for large transfers listens.
    pub fn transfer_port(&self) -> u16 {
        self.ports[System::ALL.len() + 1]
    }

    /// Where a server lives; `origin` is the port it forwards to.
    pub fn place(&self, system: System, origin: u16) -> Place {
        let at = System::ALL.iter().position(|other| *other == system).unwrap_or(0);
        Place { port: self.ports[at + 1], origin, folder: self.scratch.join(system.name()), root: self.root }
    }

    /// The program of a server, or why there is none.
    pub fn program(&self, system: System) -> Result<PathBuf, Failure> {
        let found = match system {
            System::Tollgate => Some(self.gateway.clone()).filter(|path| path.is_file()),
            System::Nginx => self.tools.nginx.clone(),
            System::Haproxy => self.tools.haproxy.clone(),
        };
        found.ok_or_else(|| {
            Failure::Lacking(match system {
                System::Tollgate => format!("no gateway binary at {}", self.gateway.display()),
                _ => format!("{} is not installed", system.name()),
            })
        })
    }
}

/// A running server.
#[derive(Debug)]
pub struct Running {
    group: Group,
    /// Where it listens.
    pub port: u16,
    /// Milliseconds from its start to the first right answer.
    pub ready_ms: f64,
    place: Place,
}

impl Running {
    /// The root of its process tree.
    pub fn id(&self) -> u32 {
        self.group.id()
    }

    /// Its access log, when it writes one.
    pub fn access_log(&self) -> PathBuf {
        self.place.access_log()
    }
}

/// Starts a server under test on the target core and checks that it forwards, and adds the headers all must add.
pub fn start(ground: &Ground, system: System, terms: &Terms, origin: u16) -> Result<Running, Failure> {
    let program = ground.program(system)?;
    let place = ground.place(system, origin);
    let config = write_config(system, terms, &place)?;
    let config = config.display().to_string();
    let arguments: Vec<String> = match system {
        System::Tollgate => vec!["run".into(), config],
        System::Nginx => vec!["-c".into(), config, "-e".into(), errors(&place).display().to_string()],
        System::Haproxy => vec!["-db".into(), "-f".into(), config],
    };
    // HAProxy has no log file of its own: the cheapest way out is its standard output.
    let stdout = if system == System::Haproxy { place.access_log() } else { place.folder.join("stdout") };
    let running = launch(ground.cores.target, system.name(), &program, &arguments, &stdout, place)?;
    check_terms(system, running.port)?;
    Ok(running)
}

/// Starts the origin, an nginx on the load core, with the bodies that cells ask for.
pub fn start_origin(ground: &Ground) -> Result<Running, Failure> {
    let program = ground.program(System::Nginx).map_err(|_| {
        Failure::Lacking("nginx is not installed, and it is the origin of every cell; try `make bench`, or apt-get install nginx".into())
    })?;
    let folder = ground.scratch.join("origin");
    let bodies = folder.join("body");
    fs::create_dir_all(&bodies).map_err(|error| Failure::file(&bodies, error))?;
    for size in [4_096usize, 65_536] {
        let file = bodies.join(size.to_string());
        let text: Vec<u8> = (0..size).map(|at| b'a' + (at % 26) as u8).collect();
        fs::write(&file, text).map_err(|error| Failure::file(&file, error))?;
    }
    let place = Place { port: ground.origin_port(), origin: 0, folder: folder.clone(), root: ground.root };
    let config = folder.join("nginx.conf");
    fs::write(&config, configs::origin(&place, &folder)).map_err(|error| Failure::file(&config, error))?;
    let arguments =
        ["-c".into(), config.display().to_string(), "-e".into(), errors(&place).display().to_string()];
    launch(ground.cores.load, "the origin", &program, &arguments, &folder.join("stdout"), place)
}

/// The path at the origin that answers with a body of so many bytes.
pub fn body_path(size: usize) -> String {
    if size == 2 { "/".into() } else { format!("/body/{size}") }
}

fn errors(place: &Place) -> PathBuf {
    place.folder.join("error.log")
}

/// Writes a server's configuration to its folder, emptied first.
pub fn write_config(system: System, terms: &Terms, place: &Place) -> Result<PathBuf, Failure> {
    let _ = fs::remove_dir_all(&place.folder);
    fs::create_dir_all(&place.folder).map_err(|error| Failure::file(&place.folder, error))?;
    let file = place.folder.join(system.config_name());
    fs::write(&file, configs::of(system, terms, place)).map_err(|error| Failure::file(&file, error))?;
    if system == System::Haproxy && terms.routes > 0 {
        let map = place.map();
        fs::write(&map, configs::haproxy_map(terms.routes)).map_err(|error| Failure::file(&map, error))?;
    }
    Ok(file)
}

fn launch(
    core: usize,
    name: &str,
    program: &Path,
    arguments: &[String],
    stdout: &Path,
    place: Place,
) -> Result<Running, Failure> {
    if !is_free(place.port) {
        return Err(Failure::Lacking(format!(
            "port {} for {name}: something else listens there",
            place.port
        )));
    }
    let stderr = place.folder.join("stderr");
    let started = Instant::now();
    let mut group = Group::start(core, program, arguments, stdout, &stderr)?;
    loop {
        if http::get(place.port, "/").is_ok_and(|answer| answer.status == 200 && answer.body == b"ok") {
            let ready_ms = started.elapsed().as_secs_f64() * 1e3;
            return Ok(Running { group, port: place.port, ready_ms, place });
        }
        let ended = group.ended();
        if ended.is_some() || started.elapsed() > START_LIMIT {
            let said = [&stderr, &errors(&place), &stdout.to_path_buf()]
                .into_iter()
                .find_map(|file| last_line(&fs::read_to_string(file).unwrap_or_default()))
                .unwrap_or_default();
            let how =
                ended.map_or_else(|| "gave no right answer".to_owned(), |status| format!("ended ({status})"));
            return Err(Failure::Target(format!("{name} {how}: {said}")));
        }
        sleep(Duration::from_millis(2));
    }
}

fn last_line(text: &str) -> Option<String> {
    text.lines().rfind(|line| !line.trim().is_empty()).map(str::to_owned)
}

/// Asks the origin, through the server, which `X-Forwarded-*` it was told.
fn check_terms(system: System, port: u16) -> Result<(), Failure> {
    let answer = http::get(port, "/forwarded")
        .map_err(|error| Failure::System(format!("{} /forwarded", system.name()), error))?;
    let told = String::from_utf8_lossy(&answer.body).into_owned();
    if told == "127.0.0.1 http bench.example" {
        Ok(())
    } else {
        Err(Failure::Target(format!(
            "{} does not keep to the terms: the origin saw X-Forwarded-For, -Proto, -Host as {told:?}",
            system.name()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_are_told() {
        assert_eq!(last_line("a\nport in use\n\n").as_deref(), Some("port in use"));
        assert_eq!(last_line("\n"), None);
    }

    #[test]
    fn bodies_have_their_paths() {
        assert_eq!(body_path(2), "/");
        assert_eq!(body_path(65_536), "/body/65536");
    }
}
