//! `tollgate hash`: its output is what the configuration takes.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::{DEADLINE, arg, file, run, run_with_input};

#[test]
fn a_key_from_standard_input() {
    let expected = "sha256:caf3cbf9466db343ae64c56fc15d2f8043927162e071a844c14c534284b718af\n";
    let ran = run_with_input(&["hash"], "a-key-of-enough-characters\n");
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    assert_eq!(ran.out, expected);
    // The newline at the end is not part of the key, and one in the middle is.
    for same in ["a-key-of-enough-characters", "a-key-of-enough-characters\r\n"] {
        assert_eq!(run_with_input(&["hash", "--sha256"], same).out, ran.out);
    }
    assert_ne!(run_with_input(&["hash"], "a-key-of-enough\ncharacters\n").out, ran.out);
    let short = run_with_input(&["hash"], "short\n");
    assert!(short.code == Some(0) && short.err.contains("--generate"), "{short:?}");
    let none = run_with_input(&["hash"], "\n");
    assert_eq!((none.code, none.out.as_str()), (Some(1), ""), "{none:?}");
    assert_eq!(run(&["hash", "secret"]).code, Some(2), "a secret is never an argument");
    assert_eq!(run(&["hash", "--argon2", "--bcrypt"]).code, Some(2));
}

#[test]
fn every_hash_passes_check_where_it_is_pasted() {
    let hashed = |args: &[&str]| run_with_input(args, "correct horse battery staple").out.trim().to_owned();
    let key = hashed(&["hash"]);
    for password in [hashed(&["hash", "--argon2"]), hashed(&["hash", "--bcrypt"])] {
        let config = file(&format!(
            "listen: 127.0.0.1:8080\nadmin: {{bind: 127.0.0.1:0, tokens: {{ops: {{role: admin, token: \"{key}\"}}}}}}\n\
             consumers: {{alice: {{api_keys: \"{key}\", password: \"{password}\"}}}}\n\
             routes: [{{match: /x, respond: 204, policies: {{basic: on}}}}]\n"
        ));
        let ran = run(&["check", arg(&config)]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    let long = "x".repeat(73);
    let ran = run_with_input(&["hash", "--bcrypt"], &long);
    assert!(ran.code == Some(1) && ran.err.contains("--argon2"), "{ran:?}");
}

#[test]
fn a_generated_key_goes_with_its_hash() {
    let ran = run(&["hash", "--generate"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let key = ran.err.trim().rsplit(' ').next().expect("a key");
    assert_eq!(key.len(), 64, "{ran:?}");
    assert_eq!(run_with_input(&["hash"], key).out, ran.out);
    assert_ne!(run(&["hash", "--generate"]).out, ran.out);
}

#[test]
fn a_terminal_is_asked_twice_and_shows_nothing() {
    // `script` (util-linux) opens a pseudo-terminal.
    let command = format!("'{}' hash 2>&1", env!("CARGO_BIN_EXE_tollgate"));
    let mut child = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .env("TERM", "xterm-256color")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script is part of every Debian");
    let (mut keys, mut screen) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
    let (mut seen, begun) = (String::new(), Instant::now());
    let mut wait_for = |text: &str| {
        let mut chunk = [0; 1024];
        while !seen.contains(text) {
            assert!(begun.elapsed() < DEADLINE, "waited for {text} in {seen:?}");
            let read = screen.read(&mut chunk).expect("readable");
            assert!(read > 0, "the end came before {text} in {seen:?}");
            seen.push_str(&String::from_utf8_lossy(&chunk[..read]));
        }
        seen.clone()
    };
    wait_for("Key: ");
    keys.write_all(b"a-key-of-enough-charactersX\x7f\r").expect("keys");
    wait_for("Key again: ");
    keys.write_all(b"a-key-of-enough-characters\r").expect("keys");
    let all = wait_for("sha256:");
    assert!(!all.contains("enough"), "{all:?}");
    assert!(child.wait().expect("it ends").success());
}
