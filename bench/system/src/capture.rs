//! Runs a short command with a time limit and captures its output.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Returns the command's standard output and error, interleaved as written, and its exit status. Output
/// beyond 64 KiB is dropped.
///
/// # Errors
/// If the command cannot be started, or was killed because it still ran after `limit`.
pub(crate) fn run(
    command: &[String],
    directory: PathBuf,
    limit: Duration,
) -> Result<(String, ExitStatus), String> {
    let [program, arguments @ ..] = command else { return Err("there is no program to run".to_owned()) };
    let broken = |error: std::io::Error| format!("`{}`: {error}", command.join(" "));
    let (reader, writer) = std::io::pipe().map_err(broken)?;
    let mut child = {
        // `starting` holds the write ends of the pipe; it goes out of scope here so that the reader sees the
        // end of file.
        let mut starting = Command::new(program);
        starting
            .args(arguments)
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(writer.try_clone().map_err(broken)?)
            .stderr(writer);
        starting.spawn().map_err(broken)?
    };
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let _cut_short = reader.take(64 * 1024).read_to_end(&mut text);
        let _receiver_is_gone = sender.send(text);
    });
    let status = ended(&mut child, limit).map_err(broken)?;
    let Some(status) = status else {
        return Err(format!("`{}` was still running after {} s", command.join(" "), limit.as_secs()));
    };
    // A child of the command may hold the pipe open forever, so the wait for the output is bounded.
    let text = receiver.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
    Ok((String::from_utf8_lossy(&text).into_owned(), status))
}

fn ended(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, limit: u64) -> Result<(String, ExitStatus), String> {
        let command = ["sh", "-c", script].map(str::to_owned);
        run(&command, std::env::temp_dir(), Duration::from_millis(limit))
    }

    #[test]
    fn both_streams_are_kept_and_the_end_is_reported() {
        let (text, status) = sh("echo one; echo two >&2; exit 3", 5_000).expect("ran");
        assert_eq!((text.as_str(), status.code()), ("one\ntwo\n", Some(3)));
    }

    #[test]
    fn a_command_that_hangs_is_killed() {
        let error = sh("exec sleep 60", 50).expect_err("too slow");
        assert!(error.contains("still running"), "{error}");
    }

    #[test]
    fn more_output_than_is_kept_does_no_harm() {
        let (text, _) = sh("head -c 300000 /dev/zero | tr '\\0' x", 5_000).expect("ran");
        assert_eq!(text.len(), 64 * 1024);
    }
}
