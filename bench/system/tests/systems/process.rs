//! Starts and stops the process of a launch. The laboratory itself does this in its meter, with pinning and
//! limits.

use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tollgate_lab_system::CommandSpec;

/// A process group that is stopped when this value is dropped.
pub struct Process(Child);

impl Process {
    pub fn start(spec: &CommandSpec) -> Self {
        let output = File::create(&spec.output).expect("the output file");
        let child = Command::new(&spec.program)
            .args(&spec.args)
            .envs(&spec.env)
            .current_dir(&spec.directory)
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("cloned"))
            .stderr(output)
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", spec.program.display()));
        Self(child)
    }

    /// Returns how the process ended, if it has.
    pub fn ended(&mut self) -> Option<String> {
        self.0.try_wait().expect("waited").map(|status| status.to_string())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let group = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).expect("a process id");
        let _gone = kill_process_group(group, Signal::TERM);
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline {
            if matches!(self.0.try_wait(), Ok(Some(_))) {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _gone = kill_process_group(group, Signal::KILL);
        let _reaped = self.0.wait();
    }
}
