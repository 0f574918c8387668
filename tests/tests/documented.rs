//! Every configuration example in the documentation passes `tollgate check`, be it a whole file or a part of
//! one. The upstreams of the page on upstreams and of the examples also run: each gets a request and answers
//! it, although its endpoints do not exist.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tollgate_tests::{Authority, Gateway, binary, binary_with_plugin, free_address};

use crate::tls::Files;

/// Examples that are a part of a file: their page, their first words, and a file with `...` at their place.
/// All other examples are files that lack at most `listen` and `routes`.
const PARTS: [(&str, &str, &str); 3] = [
    ("docs/five-minutes.md", "match: /hello\n", "routes:\n  - ..."),
    (
        "docs/grpc.md",
        "retry: {on: [connect_failure,",
        "upstreams:\n  orders:\n    endpoints: \"h2c://10.0.0.1:50051\"\n    ...",
    ),
    ("docs/upstreams.md", "- 10.0.0.1:8080\n", "upstreams:\n  orders:\n    endpoints:\n      ..."),
];

/// Examples of files that are not the gateway's: their page and their first words.
const OTHERS: [(&str, &str); 4] = [
    ("docs/laboratory.md", "title: My gateway\n"),
    ("docs/laboratory.md", "title: Over the network\n"),
    ("docs/laboratory.md", "title: Two gateways at our own size\n"),
    ("docs/laboratory.md", "title: In my cluster\n"),
];

/// The page whose examples need the program with the plugin.
const PLUGINS: &str = "docs/plugins.md";

/// The environment variables that the examples use.
const VARIABLES: [(&str, &str); 4] = [
    ("POD_IP", "10.0.0.7"),
    ("CI_TOKEN", "a-token-of-the-pipeline"),
    ("ETCD_PASSWORD", "a-password"),
    ("PROMETHEUS_TOKEN", "a-token-of-prometheus"),
];

/// The reasons that a gateway may answer with when no endpoint exists.
const ANSWERS: [&str; 4] =
    ["connection_refused", "connection_limit_reached", "destination_unavailable", "circuit_open"];

fn root(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the names under `upstreams`.
fn upstreams(yaml: &str) -> Vec<String> {
    let inside = yaml.lines().skip_while(|line| *line != "upstreams:").skip(1);
    let inside = inside.take_while(|line| line.is_empty() || line.starts_with([' ', '#']));
    let names = inside.filter_map(|line| line.strip_prefix("  ")?.split_once(':'));
    let names = names.map(|(name, _)| name.to_owned());
    names.filter(|name| !name.is_empty() && !name.starts_with([' ', '#', '-'])).collect()
}

/// Moves the endpoints to this machine, to a port on which no process listens (tcpmux, RFC 1078), and adds a
/// route to each upstream.
fn runnable(yaml: &str) -> String {
    let mut out = String::new();
    for line in yaml.lines().filter(|line| !line.starts_with("listen:")) {
        let line = line.replace("10.0.", "127.9.").replace("10.9.", "127.8.");
        out.push_str(&line.replace(":8080", ":1").replace(":9000", ":1").replace(":5000", ":1"));
        out.push('\n');
    }
    if !yaml.lines().any(|line| line == "routes:") {
        out.push_str("routes:\n");
    }
    for name in upstreams(yaml) {
        out.push_str(&format!("  - match: /to-{name}\n    to: {name}\n"));
    }
    out
}

fn run(yaml: &str) {
    let names = upstreams(yaml);
    assert!(!names.is_empty(), "{yaml}");
    let gateway = Gateway::start(&runnable(yaml));
    let mut client = gateway.client();
    for name in &names {
        let answer = client.get(&format!("/to-{name}"));
        assert!(matches!(answer.status, 502 | 503), "{yaml}\n{name}: {answer:?}");
    }
    let records = gateway.wait_records(names.len());
    for (name, record) in names.iter().zip(&records) {
        let reason = record["reason"].as_str().unwrap_or_default();
        assert!(ANSWERS.contains(&reason), "{yaml}\n{name}: {record}");
    }
}

#[test]
fn examples_of_the_page_on_upstreams_run() {
    let examples = examples(&root("docs/upstreams.md"));
    let shown: Vec<_> = examples.iter().filter(|example| example.contains("upstreams:\n")).collect();
    assert!(shown.len() >= 15, "{} examples", shown.len());
    shown.into_iter().for_each(|example| run(example));
}

#[test]
fn the_examples_of_upstreams_run() {
    for name in [
        "canary",
        "dns-discovery",
        "health-checks",
        "limits-and-queue",
        "retries",
        "sticky-and-hash",
        "weights",
    ] {
        run(&root(&format!("examples/{name}.yaml")));
    }
}

/// Returns the path of every page, relative to the root.
fn pages() -> Vec<String> {
    let mut found = vec!["README.md".to_owned(), "README.zh-CN.md".to_owned()];
    let mut folders = vec!["docs".to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(&folder));
        for entry in entries.expect("a folder") {
            let path = entry.expect("an entry").path();
            let name =
                format!("{folder}/{}", path.file_name().and_then(|name| name.to_str()).expect("a name"));
            if path.is_dir() {
                folders.push(name);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(name);
            }
        }
    }
    found
}

/// Returns the YAML examples of a page, at any indentation.
fn examples(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.trim_start().strip_prefix("```") else { continue };
        let indent = line.len() - line.trim_start().len();
        let inside = lines.by_ref().take_while(|line| line.trim() != "```");
        let text: String = inside.flat_map(|line| [line.get(indent..).unwrap_or_default(), "\n"]).collect();
        let language = language.split_whitespace().next().unwrap_or_default().to_lowercase();
        if matches!(language.as_str(), "yaml" | "yml") {
            found.push(text);
        }
    }
    found
}

/// Returns the file `place` with `part` in place of the `...`.
fn put(part: &str, place: &str) -> String {
    let (before, after) = place.split_once("...").expect("a place for it");
    let margin = before.len() - before.rfind('\n').map_or(0, |end| end + 1);
    let indented = part.trim_end().replace('\n', &format!("\n{}", " ".repeat(margin)));
    format!("{before}{indented}{after}\n")
}

/// Completes an example with the missing keys, and with the test's own certificates.
fn complete(example: &str) -> String {
    let has = |key: &str| example.lines().any(|line| line.starts_with(key));
    let listen = if has("listen:") { "" } else { "listen: 127.0.0.1:8080\n" };
    let routes = if has("routes:") { "" } else { "routes: []\n" };
    // Paths are relative to the file's directory.
    format!("{listen}{example}{routes}").replace("/etc/tollgate/", "")
}

/// Creates the files that the examples name: certificates, and one of `htpasswd`.
fn certificates() -> Files {
    let (authority, files) = (Authority::new(), Files::new());
    for name in ["admin", "example.com", "wildcard.example.org"] {
        files.put(name, &authority.issue(&[name]));
    }
    for name in ["controller", "gateway"] {
        let issued = authority.issue(&[name]);
        files.put(name, &issued);
        files.write(&format!("{name}-key.pem"), &issued.key);
    }
    for name in ["server", "shop", "wildcard"] {
        let one = authority.issue(&["a.example"]);
        files.write(&format!("{name}.pem"), &(one.chain + &one.key));
    }
    files.write("htpasswd", "alice:$2b$04$YUDH4LPhF5SiQuEneCdn9.ltTxgeJ.A7tkKykgt8kADTseU/KH3b.\n");
    for name in ["clients-ca", "etcd-ca", "fleet-ca", "internal-ca", "ops-ca", "system"] {
        files.write(&format!("{name}.pem"), &authority.pem());
    }
    files
}

/// Asserts that this program finds no problem in these files.
fn check(program: &Path, folder: &Path, files: &[PathBuf]) {
    let mut command = Command::new(program);
    command.arg("check").args(files).envs(VARIABLES).stdin(Stdio::null());
    // The system's trust store may be empty.
    command.env("SSL_CERT_FILE", folder.join("system.pem"));
    let ran = command.output().expect("it starts");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn what_the_pages_show_is_good() {
    let folder = certificates();
    let (mut parts, mut others) = (PARTS.to_vec(), OTHERS.to_vec());
    let (mut plain, mut with_plugin) = (Vec::new(), Vec::new());
    for page in pages() {
        for (number, example) in examples(&root(&page)).iter().enumerate() {
            // Objects of Kubernetes: control/kubernetes has a test of them.
            if example.starts_with("apiVersion: ") {
                continue;
            }
            let is = |of: &str, begin: &str| of == page && example.starts_with(begin);
            if let Some(at) = others.iter().position(|(of, begin)| is(of, begin)) {
                others.remove(at);
                continue;
            }
            let part = parts.iter().position(|(of, begin, _)| is(of, begin)).map(|at| parts.remove(at));
            let whole = part.map_or_else(|| example.clone(), |(_, _, place)| put(example, place));
            // The file name identifies the example in a report.
            let file = folder.path().join(format!("{}-{}.yaml", page.replace('/', "-"), number + 1));
            fs::write(&file, complete(&whole)).expect("written");
            let files = if page == PLUGINS { &mut with_plugin } else { &mut plain };
            files.push(file);
        }
    }
    assert!(parts.is_empty() && others.is_empty(), "these are shown no more: {parts:?} {others:?}");
    assert!(plain.len() >= 75 && !with_plugin.is_empty(), "{} examples", plain.len());
    check(&binary(), folder.path(), &plain);
    check(&binary_with_plugin(), folder.path(), &with_plugin);
}

/// Returns the blocks of shell commands on a page.
fn commands(page: &str) -> Vec<String> {
    let mut blocks = page.split("```sh\n").skip(1);
    let mut out: Vec<String> =
        blocks.by_ref().filter_map(|rest| rest.split("```").next()).map(str::to_owned).collect();
    // A socket of this system's, and a program that fills the terminal.
    out.retain(|block| !block.contains("--unix-socket"));
    out
}

/// A reader follows the page from its first command to its last one, so no command may depend on something that an
/// earlier one has removed.
#[test]
fn every_command_on_the_page_of_the_admin_api_works_in_order() {
    let gateway = Gateway::start("store: $DIR/store\nroutes: []\n");
    let issued = Authority::new().issue(&["shop.example"]);
    let folder = gateway.directory();
    fs::write(folder.join("shop.pem"), &issued.chain).expect("written");
    fs::write(folder.join("shop.key"), &issued.key).expect("written");
    let programs = binary().parent().expect("a folder").display().to_string();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap_or_default());
    let blocks = commands(&root("docs/admin-api.md"));
    assert!(blocks.len() >= 12, "{} blocks", blocks.len());
    for block in blocks {
        let script = block
            .replace("http://127.0.0.1:9911", &format!("http://{}", gateway.admin_address()))
            .replace("http://127.0.0.1:8080", &format!("http://{}", gateway.address()))
            .replace("/var/lib/tollgate/", &format!("{}/", folder.display()))
            .replace("curl ", "curl -sS --fail-with-body ");
        let mut command = Command::new("sh");
        command.args(["-eu", "-c", &script]).current_dir(folder).stdin(Stdio::null());
        command.env("PATH", &path).env("TOLLGATE_ADMIN", gateway.admin_address().to_string());
        let ran = command.output().expect("a shell");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(ran.status.success(), "{block}\n{}\n{}", text(&ran.stdout), text(&ran.stderr));
    }
}

/// Returns the commands `tollgate explain` of a page, each with what the page says that it prints. A line `...` stands for
/// any lines.
fn explanations(page: &str) -> Vec<(Vec<String>, String)> {
    let shown = page.split("\n```\n$ tollgate ").skip(1).filter_map(|rest| rest.split_once("\n```"));
    let shown = shown.filter_map(|(block, _)| block.split_once('\n'));
    shown
        .map(|(command, output)| (command.split(' ').map(str::to_owned).collect(), output.to_owned()))
        .collect()
}

/// The pages on listeners and on layer 4 show what `explain` prints for a file that they show above.
#[test]
fn the_pages_on_listeners_show_what_explain_prints() {
    let folder = certificates();
    for (page, words) in
        [("docs/listeners.md", "name: internal"), ("docs/layer4.md", "name: secure, protocol: tcp")]
    {
        let text = root(page);
        let example =
            examples(&text).into_iter().find(|example| example.contains(words)).expect("it is shown");
        let routes = if example.contains("routes:") { "" } else { "routes: []\n" };
        fs::write(folder.path().join("gateway.yaml"), format!("{example}{routes}")).expect("written");
        let shown = explanations(&text);
        assert_eq!(shown.len(), 1, "{page}");
        for (words, output) in shown {
            let ran =
                Command::new(binary()).args(&words).current_dir(folder.path()).output().expect("it starts");
            let printed = String::from_utf8_lossy(&ran.stdout).into_owned();
            let mut rest = printed.as_str();
            for part in output.split("\n...\n") {
                let at = rest.find(part).unwrap_or_else(|| panic!("{page}: {part:?} is not in {printed}"));
                rest = &rest[at + part.len()..];
            }
        }
    }
}

/// The requests to the admin API on the pages on listeners and on layer 4 work as they are written.
#[test]
fn the_commands_of_the_pages_on_listeners_work() {
    let programs = binary().parent().expect("a folder").display().to_string();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap_or_default());
    for page in ["docs/listeners.md", "docs/layer4.md"] {
        let gateway = Gateway::start("store: $DIR/store\nroutes: []\n");
        let blocks = commands(&root(page));
        assert_eq!(blocks.len(), 1, "{page}");
        for block in blocks {
            let free = free_address().to_string();
            let script = block
                .replace("http://127.0.0.1:9911", &format!("http://{}", gateway.admin_address()))
                .replace("127.0.0.1:8082", &free)
                .replace("127.0.0.1:5432", &free)
                .replace("curl ", "curl -sS --fail-with-body ");
            let ran =
                Command::new("sh").args(["-eu", "-c", &script]).env("PATH", &path).output().expect("a shell");
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            assert!(ran.status.success(), "{block}\n{}\n{}", text(&ran.stdout), text(&ran.stderr));
            assert!(std::net::TcpStream::connect(&free).is_ok(), "{page}: the listener is open");
        }
    }
}
