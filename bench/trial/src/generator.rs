//! Runs a load generator as a child process on the generator's core and reads its result and its CPU use. The
//! generator is the built-in one (this program, called as `load`) or one of the external tools.
//!
//! A [`Run`] is started from the settings of a cell ([`Run::start`]) or from a complete plan
//! ([`Run::builtin`]). [`Run::until`] lets the caller read its counters at the start and the end of the
//! measurement, if the generator reports these points. [`Run::finish`] returns the result.

use crate::environment::{Environment, tail};
use crate::failure::Failure;
use crate::host::Host;
use crate::load_plan::{Aim, plan, repeat, request};
use std::ffi::OsStr;
use std::fs;
use std::time::{Duration, Instant};
use tollgate_lab_load::{Done, Length as PlanLength, Plan};
use tollgate_lab_meter::child::{Ended, Group, Launch};
use tollgate_lab_record::Tree;
use tollgate_lab_study::Settings;
use tollgate_lab_tools::{Found, Output, Request, Tool};

/// Interval at which `watch` is called while a generator runs.
const WATCH_EVERY: Duration = Duration::from_millis(200);

/// A point in a run that the built-in generator and some tools report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The ramp and the warm-up are over; the measurement starts.
    Measuring,
    /// The measurement is over.
    Measured,
}

impl Phase {
    /// Returns the line that the built-in generator prints at this point.
    pub fn word(self) -> &'static str {
        match self {
            Self::Measuring => "measuring",
            Self::Measured => "measured",
        }
    }
}

/// A generator that runs.
#[derive(Debug)]
pub struct Run {
    group: Group,
    limit: Duration,
    how: How,
    folder: std::path::PathBuf,
}

#[derive(Debug)]
enum How {
    Builtin,
    Tool { tool: Tool, request: Box<Request>, version: String, command: Vec<String>, then: Option<Launched> },
}

/// The second command of a tool that first writes a log and then counts it.
#[derive(Debug)]
struct Launched {
    program: std::path::PathBuf,
    args: Vec<String>,
}

impl Run {
    /// Starts the load of the settings for `seconds`.
    ///
    /// # Errors
    /// If the tool is missing, does not support what the settings ask for, or does not start.
    pub fn start(
        environment: &Environment,
        settings: &Settings,
        aim: Aim<'_>,
        seconds: f64,
    ) -> Result<Self, Failure> {
        if settings.tool() == "builtin" {
            let mut plan = plan(settings, aim, seconds, None);
            if let Some(file) = &settings.replay {
                repeat(&mut plan, file, settings, environment.own_origin.is_none())?;
            }
            plan.warm_up = settings.warm_up();
            plan.seed = environment.arrivals();
            return Self::builtin(environment, &plan);
        }
        if matches!(environment.hosts.client, Host::Agent(_)) {
            return Err(Failure("only the built-in generator runs at an agent (`hosts.client`)".into()));
        }
        let tool = Tool::from_name(settings.tool())
            .ok_or_else(|| Failure(format!("no load tool is called `{}`", settings.tool())))?;
        let program = match tool.find(&environment.tool_paths) {
            Found::Here(program) => program,
            Found::Missing { how_to_get } => {
                return Err(Failure(format!("the load tool {tool} is not installed: {how_to_get}")));
            }
        };
        let mut request = request(settings, aim, seconds);
        request.threads = tool.abilities().threads_for(request.threads, request.connections);
        if tool.phases().is_some() {
            request.warm_up = Duration::from_secs_f64(settings.warm_up());
        }
        let invocation = tool.command(&request).map_err(|refused| Failure(refused.to_string()))?;
        let folder = environment.folder(tool.name())?;
        for (name, content) in &invocation.files {
            fs::write(folder.join(name), content)
                .map_err(|error| Failure::of(folder.join(name).display(), error))?;
        }
        fs::write(folder.join("stdin"), &invocation.stdin)
            .map_err(|error| Failure::of(folder.display(), error))?;
        let path =
            std::path::absolute(&program.path).map_err(|error| Failure::of(program.path.display(), error))?;
        let mut launch = Launch::new("/bin/sh")
            // [`Launch`] starts processes with empty standard input; the shell redirects it from a file.
            .arguments(["-c", r#"exec "$0" "$@" <stdin"#])
            .arguments([path.as_os_str()])
            .arguments(&invocation.args)
            .folder(&folder)
            .cores(&environment.cores.load)
            .output(folder.join("stdout"), folder.join("stderr"));
        for (name, value) in &invocation.env {
            launch = launch.variable(name, value);
        }
        let then =
            (!invocation.then.is_empty()).then(|| Launched { program: path, args: invocation.then.clone() });
        let warm_up = request.warm_up;
        let how = How::Tool {
            tool,
            request: Box::new(request),
            version: program.version,
            command: invocation.line(),
            then,
        };
        // A tool that runs a number of requests may take long against a slow system.
        let limit = warm_up
            + Duration::from_secs_f64(seconds * 2.0 + if settings.requests.is_some() { 90.0 } else { 45.0 });
        Ok(Self { group: launch.start()?, limit, how, folder })
    }

    /// Starts the built-in generator with the given plan.
    ///
    /// # Errors
    /// If the plan is not valid or the generator does not start.
    pub fn builtin(environment: &Environment, plan: &Plan) -> Result<Self, Failure> {
        plan.check().map_err(|failure| Failure(failure.to_string()))?;
        let folder = environment.folder("load")?;
        let file = folder.join("plan.json");
        // With several threads each keeps a core of its own, so that none waits for another.
        let cores = environment.cores.load.iter().filter_map(|core| u32::try_from(*core).ok());
        let elsewhere = matches!(environment.hosts.client, Host::Agent(_));
        let cores = if plan.threads > 1 || elsewhere { cores.collect() } else { Vec::new() };
        let text = serde_json::to_vec_pretty(&Plan { cores, ..plan.clone() })
            .map_err(|error| Failure::of("plan", error))?;
        fs::write(&file, text).map_err(|error| Failure::of(file.display(), error))?;
        let launch = Launch::new(&environment.exe);
        let launch = match (&environment.hosts.client, &environment.hosts.key) {
            (Host::Agent(agent), Some(key)) => launch.arguments([
                "load-at".as_ref(),
                OsStr::new(&agent.name),
                key.as_os_str(),
                file.as_os_str(),
            ]),
            // Here, on the cores of the load.
            _ => launch.arguments(["load".as_ref(), file.as_os_str()]).cores(&environment.cores.load),
        };
        let group = launch.output(folder.join("stdout"), folder.join("stderr")).start()?;
        let seconds = match plan.length {
            PlanLength::Seconds(seconds) => seconds,
            PlanLength::Requests(_) => 240.0,
        };
        let limit = Duration::from_secs_f64(seconds + plan.warm_up + plan.ramp + plan.time_limit + 30.0);
        Ok(Self { group, limit, how: How::Builtin, folder })
    }

    /// Returns the generator's process id.
    pub fn id(&self) -> u32 {
        self.group.id()
    }

    /// Returns the start of the line that the generator prints at a phase; `None` if the tool reports no
    /// phases.
    fn says(&self, phase: Phase) -> Option<&'static str> {
        match &self.how {
            How::Builtin => Some(phase.word()),
            How::Tool { tool, .. } => tool.phases().map(|(measuring, measured)| match phase {
                Phase::Measuring => measuring,
                Phase::Measured => measured,
            }),
        }
    }

    /// Waits until the generator reports the phase; returns at once for a tool that reports none. The caller
    /// expects the phase no earlier than `soonest` seconds from now. Until then the output is read every 40
    /// ms only, because a read each millisecond costs 2 % of the generator's core.
    ///
    /// # Errors
    /// If the generator fails before the phase, or runs past its time limit.
    pub fn until(&mut self, phase: Phase, soonest: f64, mut watch: impl FnMut()) -> Result<(), Failure> {
        let Some(words) = self.says(phase) else { return Ok(()) };
        let started = Instant::now();
        let mut watched = started;
        loop {
            if self.read("stdout").lines().any(|line| line.starts_with(words)) {
                return Ok(());
            }
            if watched.elapsed() > WATCH_EVERY {
                watched = Instant::now();
                watch();
            }
            if let Some(ended) = self.group.ended()? {
                // The process may have reported the phase and ended since the last read.
                if ended.status.success() {
                    return Ok(());
                }
                let words = tail(&self.folder.join("stderr"), 4);
                return Err(Failure(format!("the generator failed ({}): {words}", ended.status)));
            }
            if started.elapsed() > self.limit {
                return Err(self.too_long()?);
            }
            let soon = started.elapsed().as_secs_f64() + 0.05 >= soonest;
            std::thread::sleep(Duration::from_millis(if soon { 1 } else { 40 }));
        }
    }

    /// Calls `watch` at this interval until it returns `true`. Returns `false` if the generator ended before.
    ///
    /// # Errors
    /// If the generator runs past its time limit.
    pub fn follow(&mut self, every: Duration, mut watch: impl FnMut() -> bool) -> Result<bool, Failure> {
        let started = Instant::now();
        loop {
            if self.group.wait(every)?.is_some() {
                return Ok(false);
            }
            if watch() {
                return Ok(true);
            }
            if started.elapsed() > self.limit {
                return Err(self.too_long()?);
            }
        }
    }

    /// Waits until the generator ends and parses its result. The built-in generator reports its own CPU use
    /// during the measurement; for a tool it is the kernel's count over the whole life of the process.
    ///
    /// # Errors
    /// If the generator did not end in time, failed, or printed output that cannot be parsed.
    pub fn finish(mut self, watch: impl FnMut()) -> Result<Done, Failure> {
        let ended = self.wait(watch)?;
        let done = match &self.how {
            How::Builtin => {
                let text = self.read("stdout");
                if !ended.status.success() {
                    let words = tail(&self.folder.join("stderr"), 4);
                    return Err(Failure(format!(
                        "the built-in generator failed ({}): {words}",
                        ended.status
                    )));
                }
                // The lines of the phases precede the result.
                let text = text.find('{').map_or("", |start| &text[start..]);
                let mut done: Done = serde_json::from_str(text)
                    .map_err(|error| Failure::of("the built-in generator's result", error))?;
                // Replaces the real command: the paths of this run's folder mean nothing to a reader.
                done.load.command = ["tollgate", "bench", "load", "plan.json"].map(str::to_owned).to_vec();
                done
            }
            How::Tool { tool, request, version, command, then } => {
                if let Some(then) = then {
                    fs::remove_file(self.folder.join("stdout")).ok();
                    let mut second = Launch::new(&then.program)
                        .arguments(&then.args)
                        .folder(&self.folder)
                        .output(self.folder.join("stdout"), self.folder.join("stderr"))
                        .start()?;
                    second.wait(Duration::from_secs(60))?;
                }
                let output = Output {
                    version: version.clone(),
                    command: command.clone(),
                    stdout: self.read("stdout"),
                    stderr: self.read("stderr"),
                    exit: ended.status.code(),
                    dir: self.folder.clone(),
                };
                let load = tool.parse(request, &output).map_err(|error| Failure(error.to_string()))?;
                Done { load, used: whole_life(ended) }
            }
        };
        let _ = fs::remove_dir_all(&self.folder);
        Ok(done)
    }

    fn wait(&mut self, mut watch: impl FnMut()) -> Result<Ended, Failure> {
        let started = Instant::now();
        loop {
            if let Some(ended) = self.group.wait(WATCH_EVERY)? {
                return Ok(ended);
            }
            watch();
            if started.elapsed() > self.limit {
                return Err(self.too_long()?);
            }
        }
    }

    fn too_long(&mut self) -> Result<Failure, Failure> {
        let stderr = tail(&self.folder.join("stderr"), 4);
        self.group.stop()?;
        let limit = self.limit.as_secs_f64();
        let reported = if stderr.trim().is_empty() { String::new() } else { format!(": {stderr}") };
        Ok(Failure(format!("the generator had not ended after {limit:.0} s and was stopped{reported}")))
    }

    fn read(&self, name: &str) -> String {
        fs::read(self.folder.join(name))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }
}

fn whole_life(ended: Ended) -> Tree {
    Tree {
        user_us: ended.user_us as f64,
        system_us: ended.system_us as f64,
        voluntary_switches: ended.voluntary_switches,
        involuntary_switches: ended.involuntary_switches,
        ..Tree::default()
    }
}

/// Returns whether the settings' generator reports the start and the end of its measurement.
pub fn tells_phases(settings: &Settings) -> bool {
    Tool::from_name(settings.tool()).is_none_or(|tool| tool.phases().is_some())
}
