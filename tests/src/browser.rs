//! A real browser: headless Chromium, driven by its own ChromeDriver over WebDriver (W3C).
//!
//! WebDriver is JSON over HTTP, so a client of it takes few lines. Debian builds the driver from the
//! browser's source, so the two versions always match.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long the browser may take for one step. On a busy machine its start alone takes many seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// The key under which WebDriver returns an element's id (section 12.1).
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// How often the driver is started until it has a port. The driver picks a port that is free for IPv4 and
/// exits if another program holds the same port for IPv6.
const DRIVER_STARTS: usize = 5;

/// Returns the driver and its port, or `None` if the driver exited at once.
fn start_driver() -> Option<(Child, u16)> {
    let driver =
        Command::new("chromedriver").arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut driver =
        driver.expect("this test needs Chromium and its driver; to install them: scripts/install-test-tools");
    let mut lines = BufReader::new(driver.stdout.take().expect("piped"));
    let Some(port) = told_port(&mut lines) else {
        reap(driver);
        return None;
    };
    // The driver may write more; without a reader it would block.
    thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
    Some((driver, port))
}

fn told_port(lines: &mut impl BufRead) -> Option<u16> {
    lines.lines().map_while(Result::ok).find_map(|line| {
        let (_, port) = line.trim_end().trim_end_matches('.').split_once("successfully on port ")?;
        port.parse().ok()
    })
}

fn reap(mut driver: Child) {
    let _ = driver.wait();
}

/// A browser with one page and an empty profile of its own. It resolves no host names.
#[derive(Debug)]
pub struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
    /// Chromium's own process id. Chromium would outlive a driver that is killed.
    process: Option<u64>,
    profile: PathBuf,
}

impl Browser {
    /// Starts the browser. `language` is the language that it prefers, such as `en-US` or `zh-CN`.
    ///
    /// # Panics
    /// Panics if the browser is not installed, or does not start.
    #[must_use]
    pub fn start(language: &str) -> Self {
        let (driver, port) = (0..DRIVER_STARTS).find_map(|_| start_driver()).expect("the driver starts");
        let profile = std::env::temp_dir().join(format!("tollgate-browser-{}-{port}", std::process::id()));
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut browser = Self { driver, address, session: String::new(), process: None, profile };
        let arguments = [
            "--headless=new".to_owned(),
            "--disable-gpu".to_owned(),
            "--hide-scrollbars".to_owned(),
            "--no-first-run".to_owned(),
            "--disable-background-networking".to_owned(),
            "--disable-component-update".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            // The tests run as root in containers, where Chromium's own sandbox cannot start. The page under
            // test is trusted.
            "--no-sandbox".to_owned(),
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.*".to_owned(),
            "--window-size=1280,900".to_owned(),
            format!("--accept-lang={language}"),
            format!("--user-data-dir={}", browser.profile.display()),
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        } } });
        let session = browser.command("POST", "/session", &wanted);
        browser.process = session["capabilities"]["goog:processID"].as_u64();
        browser.session = format!("/session/{}", session["sessionId"].as_str().expect("an id"));
        browser
    }

    /// Opens a page.
    pub fn open(&self, url: &str) {
        self.post("/url", &json!({ "url": url }));
    }

    /// Runs `body` as a JavaScript function in the page and returns its result.
    #[must_use]
    pub fn script(&self, body: &str) -> Value {
        self.post("/execute/sync", &json!({ "script": body, "args": [] }))
    }

    /// Waits until an expression is true in the page.
    ///
    /// # Panics
    /// Panics after two minutes, with the page's text and its console messages.
    pub fn wait(&self, expression: &str) {
        let started = Instant::now();
        while !self.holds(expression) {
            assert!(
                started.elapsed() < PATIENCE,
                "waited in vain for {expression}\n\n{}\n\n{:?}",
                self.script("return document.body.innerText").as_str().unwrap_or_default(),
                self.complaints()
            );
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns whether an expression is true in the page. An expression that throws counts as false.
    #[must_use]
    pub fn holds(&self, expression: &str) -> bool {
        self.script(&format!("try {{ return !!({expression}) }} catch {{ return false }}")) == json!(true)
    }

    /// Waits until the page's text contains `text`.
    pub fn wait_text(&self, text: &str) {
        self.wait(&format!("document.body.innerText.includes({})", json!(text)));
    }

    /// Returns the text of the first element that a CSS selector finds. Non-breaking spaces become spaces.
    #[must_use]
    pub fn text(&self, selector: &str) -> String {
        let text = self.script(&format!("return document.querySelector({})?.innerText", json!(selector)));
        text.as_str().unwrap_or_else(|| panic!("nothing is `{selector}`")).replace('\u{a0}', " ")
    }

    /// Clicks an element as a person would: it must exist, be visible and not be covered.
    pub fn click(&self, selector: &str) {
        self.wait(&format!("document.querySelector({})", json!(selector)));
        self.post(&format!("/element/{}/click", self.element(selector)), &json!({}));
    }

    /// Replaces the text of a field as a person would: selects all (Control+A), deletes, types.
    pub fn fill(&self, selector: &str, text: &str) {
        self.wait(&format!("document.querySelector({})", json!(selector)));
        self.keys(selector, &format!("\u{E009}a\u{E000}\u{E003}{text}"));
    }

    /// Types into the element that a selector finds. Keys without a character use WebDriver's code points
    /// (`\u{E004}` is Tab).
    pub fn keys(&self, selector: &str, text: &str) {
        self.post(&format!("/element/{}/value", self.element(selector)), &json!({ "text": text }));
    }

    /// Chooses an option of a list by its value.
    pub fn choose(&self, selector: &str, value: &str) {
        self.click(&format!("{selector} option[value={}]", json!(value)));
    }

    /// Sets the colour scheme that the page sees: dark or light.
    pub fn dark(&self, dark: bool) {
        let value = if dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": value }]);
        self.cdp("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Sets the size of the viewport, in pixels.
    pub fn size(&self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.cdp("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Returns the console errors and warnings since the last call.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        let entries = self.post("/se/log", &json!({ "type": "browser" }));
        let entries = entries.as_array().cloned().unwrap_or_default();
        let bad =
            entries.iter().filter(|entry| matches!(entry["level"].as_str(), Some("SEVERE" | "WARNING")));
        bad.map(|entry| entry["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Returns the URLs that pages requested since the last call.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        let entries = self.post("/se/log", &json!({ "type": "performance" }));
        let entries = entries.as_array().cloned().unwrap_or_default();
        let events = entries.iter().filter_map(|entry| entry["message"].as_str());
        let events = events.filter_map(|text| serde_json::from_str::<Value>(text).ok());
        let sent = events.filter(|event| event["message"]["method"] == "Network.requestWillBeSent");
        sent.filter_map(|event| Some(event["message"]["params"]["request"]["url"].as_str()?.to_owned()))
            .collect()
    }

    /// Writes a screenshot to `file`.
    ///
    /// # Panics
    /// Panics if the file cannot be written.
    pub fn picture(&self, file: &Path) {
        let text = self.command("GET", &format!("{}/screenshot", self.session), &Value::Null);
        let text = text.as_str().expect("base64");
        std::fs::write(file, base64(text)).expect("written");
    }

    fn element(&self, selector: &str) -> String {
        let wanted = json!({ "using": "css selector", "value": selector });
        let found = self.post("/element", &wanted);
        found[ELEMENT].as_str().unwrap_or_else(|| panic!("nothing is `{selector}`")).to_owned()
    }

    fn cdp(&self, method: &str, parameters: &Value) {
        self.post("/goog/cdp/execute", &json!({ "cmd": method, "params": parameters }));
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.command("POST", &format!("{}{path}", self.session), body)
    }

    /// Sends one WebDriver command (section 6 of WebDriver) and returns its value.
    fn command(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n", body.len());
        let mut stream = TcpStream::connect(self.address).expect("the driver listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        write!(stream, "{head}Connection: close\r\n\r\n{body}").expect("the driver takes it");
        let mut answer = BufReader::new(stream);
        let (mut length, mut line) = (0, String::new());
        while line != "\r\n" {
            line.clear();
            let read =
                answer.read_line(&mut line).unwrap_or_else(|error| panic!("{method} {path} {body}: {error}"));
            assert!(read > 0, "{method} {path} {body}: the driver has gone");
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a number");
            }
        }
        let mut text = vec![0; length];
        answer.read_exact(&mut text).expect("the whole answer");
        let answer: Value = serde_json::from_slice(&text).expect("JSON");
        let value = answer["value"].clone();
        let error = value.get("error").and_then(Value::as_str);
        assert!(error.is_none(), "{method} {path} {body}: {:.1000}", value.to_string());
        value
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !thread::panicking() {
            self.command("DELETE", &self.session, &Value::Null);
        } else if let Some(process) = self.process {
            let _ = Command::new("kill").arg(process.to_string()).status();
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

/// Decodes Base64 (RFC 4648, section 4). The input comes from the driver, so it is not validated.
fn base64(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0_u32, 0);
    for byte in text.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => continue,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    out
}
