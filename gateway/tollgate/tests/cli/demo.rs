//! `tollgate demo`: the commands that it prints work.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use rustix::process::Signal;

use super::{DEADLINE, Running, run, tollgate};

/// Sends a GET and returns the whole response.
fn get(url: &str, header: &str) -> String {
    let rest = url.strip_prefix("http://").expect("a URL");
    let (authority, path) = rest.split_at(rest.find('/').expect("a path"));
    let mut stream = TcpStream::connect(authority).expect("it listens");
    stream.set_read_timeout(Some(DEADLINE)).expect("set");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {authority}\r\n{header}Connection: close\r\n\r\n")
        .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn the_suggested_commands_work_and_interrupt_ends_it() {
    let mut running =
        Running::start(&mut tollgate(&["demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]));
    let mut lines = BufReader::new(running.child().stdout.take().expect("piped")).lines();
    let mut text = Vec::new();
    while !text.last().is_some_and(|line: &String| line.contains("Ctrl-C")) {
        text.push(lines.next().expect("more lines").expect("a line"));
    }
    // Nothing that requests cause may scroll this text away.
    let rest =
        std::thread::spawn(move || lines.map_while(Result::ok).filter(|line| !line.is_empty()).count());

    let mut answers = Vec::new();
    for line in text.iter().filter(|line| line.starts_with("  curl ")) {
        let url = line.split([' ', '\'']).find(|word| word.starts_with("http://")).expect("a URL");
        let header = if line.contains("X-Beta") { "X-Beta: yes\r\n" } else { "" };
        answers.push((line, get(url, header)));
    }
    let expected = [
        ("HTTP/1.1 200", "Welcome"),
        ("HTTP/1.1 200", "hello"),
        ("HTTP/1.1 200", "\"two\""),
        ("HTTP/1.1 200", "GET /echo/some/path?x=1 HTTP/1.1"),
        ("HTTP/1.1 301", "/echo/page"),
        ("HTTP/1.1 200", "\"ok\""),
        ("HTTP/1.1 404", "no_route"),
        ("HTTP/1.1 200", "tollgate_requests_total"),
    ];
    assert_eq!(answers.len(), expected.len(), "{text:#?}");
    for ((line, answer), (status, word)) in answers.iter().zip(expected) {
        assert!(answer.starts_with(status) && answer.contains(word), "{line}:\n{answer}");
        // A shell prints its prompt after the body.
        assert!(answer.ends_with('\n'), "{line}:\n{answer}");
    }

    // The commands of this program, except `top` and `explain`.
    for (command, word) in [(" cost ", "Last 10 s: "), (" reload ", "nothing differs from before")] {
        let line =
            text.iter().find(|line| line.contains(command) && line.contains("--admin")).expect("a line");
        let line = line.split("  CPU").next().expect("a command");
        let ran = run(&line.split_whitespace().skip(1).collect::<Vec<_>>());
        assert!(ran.code == Some(0) && ran.out.starts_with(word), "{line}: {ran:?}");
    }

    // The welcome page for browsers.
    let welcome = answers[0].0.split([' ', '\'']).find(|word| word.starts_with("http://"));
    let page = get(welcome.expect("a URL"), "Accept: text/html,*/*\r\n");
    assert!(page.contains("text/html") && page.contains("<code>one</code>"), "{page}");

    // The printed `explain` command.
    let explain = text.iter().find(|line| line.contains(" explain ")).expect("a line");
    let words: Vec<&str> = explain.split_whitespace().collect();
    let ran = run(&words[1..]);
    assert!(ran.code == Some(0) && ran.out.contains("echo (") && ran.out.contains("50 %"), "{ran:?}");
    let file = Path::new(words[2]);
    assert!(file.is_file());

    // Requests are distributed by weight over all workers: 3 of 4, whichever worker takes a connection.
    let api = answers[1].0.split([' ', '\'']).find(|word| word.starts_with("http://")).expect("a URL");
    let from_two = (0..40).filter(|_| get(api, "").contains("\"two\"")).count();
    assert!((5..=15).contains(&from_two), "{from_two} of 40 from the service with weight 1");

    // The dashboard, and a route that can be changed on it.
    let dashboard = text.iter().find(|line| line.starts_with("The dashboard is ")).expect("a line");
    let url = dashboard.split(' ').find(|word| word.starts_with("http://")).expect("a URL");
    let url = url.trim_end_matches("/:");
    assert!(get(&format!("{url}/dashboard/"), "").contains("<title>Tollgate</title>"));
    assert!(get(&format!("{url}/api/v1/routes/api"), "").contains("\"weight\": 3"));

    let log = text.iter().find_map(|line| line.strip_prefix("The access log is ")).expect("a line");
    let log = log.split_once(": `tail").expect("a path").0;
    let logged = || std::fs::read_to_string(log).is_ok_and(|text| text.lines().count() > 40);
    let started = std::time::Instant::now();
    while !logged() {
        assert!(started.elapsed() < DEADLINE, "a line in the log for each request");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    running.signal(Signal::INT);
    let ran = running.end();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.err.contains("tollgate stops"), "{ran:?}");
    assert_eq!(rest.join().expect("read to the end"), 0, "only the text of the demo is on standard output");
    assert!(!file.exists(), "the file goes with the demo");
}

#[test]
fn a_busy_port_names_the_option() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    for (option, other) in [("--listen", "--admin"), ("--admin", "--listen")] {
        let ran = run(&["demo", option, &address, other, "127.0.0.1:0"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.err.contains(&format!("{address} is in use")) && ran.err.contains(option), "{ran:?}");
    }
}
