//! Renders and writes a system's files for one run, and returns how to start it. This crate starts no
//! process: the caller pins, limits and measures the process that [`CommandSpec`] describes.
//! [`System::prepare`] first checks that the system supports the setting and that its ports are free.

use crate::description::AddRoute;
use crate::error::SystemError;
use crate::setting::{Address, Setting, TlsFiles};
use crate::system::System;
use crate::template::{self, Installed, Variables};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

/// A process to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSpec {
    /// The path of the program.
    pub program: PathBuf,
    /// The arguments.
    pub args: Vec<String>,
    /// Variables added to the environment.
    pub env: BTreeMap<String, String>,
    /// The working directory.
    pub directory: PathBuf,
    /// The file for standard output and error. [`crate::ready::wait`] quotes it in errors.
    pub output: PathBuf,
}

/// A rendered configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The content.
    pub text: String,
}

/// A prepared run of a system.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The process to start; `None` for the direct run, which has only the origin.
    pub command: Option<CommandSpec>,
    /// The address for the load.
    pub target: Address,
    /// The rendered files, for the report.
    pub files: Vec<RenderedFile>,
}

impl System {
    /// Renders the system's files for a setting without writing them.
    ///
    /// # Errors
    /// If the setting asks for an unsupported feature, a program is missing, or a template fails.
    pub fn render(&self, setting: &Setting) -> Result<Vec<RenderedFile>, SystemError> {
        self.rendered(setting).map(|(files, _)| files)
    }

    /// Writes the system's files into the setting's folder and returns how to start the system. The caller
    /// spawns the process.
    ///
    /// # Errors
    /// As for [`System::render`]; also if a file cannot be written or a port is taken.
    pub fn prepare(&self, setting: &Setting) -> Result<Launch, SystemError> {
        let (files, command) = self.rendered(setting)?;
        let Some(command) = command else {
            let target = setting.upstreams.first().and_then(|first| first.origins.first()).cloned();
            let target = target.ok_or_else(|| self.error("the setting has no origin"))?;
            return Ok(Launch { command: None, target, files });
        };
        std::fs::create_dir_all(&setting.folder)
            .map_err(|error| self.error(format!("{}: {error}", setting.folder.display())))?;
        if let Some(tls) = &setting.tls {
            self.write_both(tls, &setting.folder)?;
        }
        for file in &files {
            file.path
                .parent()
                .map_or(Ok(()), std::fs::create_dir_all)
                .and_then(|()| std::fs::write(&file.path, &file.text))
                .map_err(|error| self.error(format!("{}: {error}", file.path.display())))?;
        }
        for (port, what) in
            [(setting.listen.port, "to listen on"), (setting.admin_port, "for its admin listener")]
        {
            TcpListener::bind((setting.listen.host.as_str(), port)).map_err(|error| {
                self.error(format!("the port {}:{port} {what} is not free: {error}", setting.listen.host))
            })?;
        }
        Ok(Launch { command: Some(command), target: setting.listen.clone(), files })
    }

    /// Renders the body of the request that adds the last route of a setting, which leads to its last
    /// upstream.
    ///
    /// # Errors
    /// If an option is unknown or the template fails.
    pub fn route_body(&self, request: &AddRoute, setting: &Setting) -> Result<String, SystemError> {
        let options = self.options(setting)?;
        let programs = BTreeMap::new();
        let installed = Installed { home: &self.paths.home, system: &self.folder, programs: &programs };
        let variables = Variables::of(setting, &options, &installed);
        template::short(&request.body.value, &variables).map_err(|error| self.error(error))
    }

    /// Writes one file with the certificate and then its key, as HAProxy requires; only the owner can read
    /// it.
    fn write_both(&self, tls: &TlsFiles, folder: &Path) -> Result<(), SystemError> {
        let mut both = Vec::new();
        for path in [&tls.certificate, &tls.key] {
            let pem =
                std::fs::read(path).map_err(|error| self.error(format!("{}: {error}", path.display())))?;
            both.extend_from_slice(&pem);
            both.push(b'\n');
        }
        let path = folder.join(template::BOTH);
        std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(&both))
            .map_err(|error| self.error(format!("{}: {error}", path.display())))
    }

    fn rendered(&self, setting: &Setting) -> Result<(Vec<RenderedFile>, Option<CommandSpec>), SystemError> {
        let Some(start) = &self.description.start else { return Ok((Vec::new(), None)) };
        self.possible(setting)?;
        let programs = self.programs().map_err(|lacking| {
            self.error(format!("{} was not found: install it first", lacking.join(", ")))
        })?;
        let options = self.options(setting)?;
        let installed = Installed { home: &self.paths.home, system: &self.folder, programs: &programs };
        let variables = Variables::of(setting, &options, &installed);
        let short = |text: &str| template::short(text, &variables).map_err(|error| self.error(error));
        let environment = template::environment(&self.folder);
        let mut files = Vec::new();
        for rule in &self.description.files {
            if rule.options.iter().any(|(name, value)| options.get(name) != Some(value)) {
                continue;
            }
            let to = short(&rule.to.value)?;
            if !Path::new(&to).components().all(|part| matches!(part, Component::Normal(_))) {
                return Err(self.error(format!("the file `{to}` would be outside of the run's folder")));
            }
            let text = template::file(&environment, &rule.template.value, &variables)
                .map_err(|error| self.error(error))?;
            files.push(RenderedFile { path: setting.folder.join(to), text });
        }
        let mut words = Vec::new();
        for part in &start.command {
            words.push(short(&part.value)?);
        }
        words.retain(|word| !word.is_empty());
        let mut env = BTreeMap::new();
        for (name, value) in &start.env {
            let value = short(&value.value)?;
            if !value.is_empty() {
                env.insert(name.clone(), value);
            }
        }
        let directory = match &start.directory {
            Some(text) => PathBuf::from(short(&text.value)?),
            None => setting.folder.clone(),
        };
        let mut words = words.into_iter();
        let program = words.next().ok_or_else(|| self.error("start.command renders to nothing"))?;
        let program = if program.contains('/') {
            PathBuf::from(program)
        } else {
            self.paths
                .on_path(&program)
                .ok_or_else(|| self.error(format!("{program} was not found on PATH")))?
        };
        let output = setting.folder.join("output.log");
        Ok((files, Some(CommandSpec { program, args: words.collect(), env, directory, output })))
    }

    /// Checks that this system can do what the setting asks for.
    fn possible(&self, setting: &Setting) -> Result<(), SystemError> {
        let cannot = self.unsupported(setting);
        if !cannot.is_empty() {
            let names: Vec<_> = cannot.iter().map(|feature| feature.name()).collect();
            return Err(self.error(format!("it cannot do {}", names.join(", "))));
        }
        if let Some(most) = self.description.max_workers.filter(|most| setting.workers > *most) {
            return Err(self.error(format!("at most {most} workers, and {} are asked for", setting.workers)));
        }
        if setting.workers == 0 {
            return Err(self.error("at least 1 worker, and 0 are asked for"));
        }
        if setting.wanted().contains(&crate::Feature::Tls) && setting.tls.is_none() {
            return Err(self.error("TLS is asked for without a certificate and its key"));
        }
        let named = |name: &str| setting.upstreams.iter().any(|upstream| upstream.name == name);
        let every = setting.routes.iter().chain(setting.hosts.iter().flat_map(|host| &host.routes));
        for route in every {
            if !named(&route.upstream) {
                return Err(self.error(format!(
                    "the route {} goes to an unknown upstream {}",
                    route.name, route.upstream
                )));
            }
            if !(route.prefix.starts_with('/') && route.prefix.ends_with('/')) {
                return Err(self.error(format!("the prefix {} must begin and end with /", route.prefix)));
            }
        }
        Ok(())
    }
}
