//! Real servers understand the headers that the gateway sends to endpoints.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tollgate_tests::{Authority, Gateway, Origin, eventually, free_address};

/// A server in a process of its own, with its directory.
struct Server {
    child: Child,
    directory: PathBuf,
}

impl Server {
    fn start(program: &str, file: &str, text: &str, arguments: impl Fn(&Path) -> Vec<String>) -> Self {
        let directory = directory(file);
        let path = directory.join(file);
        fs::write(&path, text.replace("$DIR", &directory.display().to_string())).expect("written");
        let mut command = Command::new(program);
        command.args(arguments(&path)).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{program} ({error}): scripts/install-test-tools installs it"));
        Self { child, directory }
    }

    fn wait(&mut self, ready: impl Fn() -> bool) {
        eventually("the server listens", || {
            assert_eq!(self.child.try_wait().expect("ours"), None, "it has ended");
            ready()
        });
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tollgate-servers-{}-{name}", std::process::id()));
    fs::create_dir_all(&path).expect("a folder");
    path
}

fn named(gateway: &Gateway, text: impl Fn(SocketAddr) -> String) {
    for _ in 0..3 {
        let mut client = gateway.client();
        for _ in 0..2 {
            assert_eq!(client.get("/").text(), text(client.address()));
        }
    }
}

#[test]
fn nginx_reads_the_header_in_plain_text_and_before_tls() {
    let (authority, secure) = (Authority::new(), free_address());
    let issued = authority.issue(&["origin.example"]);
    let keys = directory("nginx-keys");
    fs::write(keys.join("own.pem"), issued.chain + &issued.key).expect("written");
    fs::write(keys.join("ca.pem"), authority.pem()).expect("written");
    let config = format!(
        "daemon off; master_process off; pid $DIR/pid; error_log $DIR/error.log;\n\
         events {{}}\n\
         http {{\n\
           access_log off;\n\
           client_body_temp_path $DIR/a; proxy_temp_path $DIR/b; fastcgi_temp_path $DIR/c;\n\
           uwsgi_temp_path $DIR/d; scgi_temp_path $DIR/e;\n\
           server {{\n\
             listen unix:$DIR/socket proxy_protocol;\n\
             listen {secure} ssl proxy_protocol;\n\
             ssl_certificate {own}; ssl_certificate_key {own};\n\
             location / {{ return 200 \"$proxy_protocol_addr:$proxy_protocol_port \
$proxy_protocol_server_addr:$proxy_protocol_server_port $scheme\"; }}\n\
           }}\n\
         }}\n",
        own = keys.join("own.pem").display()
    );
    let mut nginx =
        Server::start("nginx", "nginx.conf", &config, |path| vec!["-c".into(), path.display().to_string()]);
    let socket = nginx.directory.join("socket");
    nginx.wait(|| UnixStream::connect(&socket).is_ok() && TcpStream::connect(secure).is_ok());
    for version in ["v1", "v2"] {
        for (endpoint, tls, scheme) in [
            (format!("unix:{}", socket.display()), String::new(), "http"),
            (
                format!("https://{secure}"),
                format!(", tls: {{ca: {}, server_name: origin.example}}", keys.join("ca.pem").display()),
                "https",
            ),
        ] {
            let gateway = Gateway::start(&format!(
                "routes: [{{match: \"/*\", to: u}}]\n\
                 upstreams: {{u: {{endpoints: \"{endpoint}\", proxy_protocol: {version}{tls}, \
                 health: {{http: /, interval: 100ms}}}}}}\n"
            ));
            named(&gateway, |client| format!("{client} {} {scheme}", gateway.address()));
        }
    }
    let _ = fs::remove_dir_all(keys);
}

#[test]
fn haproxy_takes_the_client_from_it() {
    let (origin, front) = (
        Origin::play(|conn| {
            while let Some(request) = conn.request() {
                let text = format!(
                    "{}:{}",
                    request.headers.get("X-Src").unwrap_or("none"),
                    request.headers.get("X-Src-Port").unwrap_or("none")
                );
                conn.ok(&text);
            }
        }),
        free_address(),
    );
    let config = format!(
        "defaults\n  mode http\n  timeout client 20s\n  timeout server 20s\n  timeout connect 20s\n\
         frontend f\n  bind {front} accept-proxy\n  http-request set-header X-Src %[src]\n  \
         http-request set-header X-Src-Port %[src_port]\n  default_backend b\n\
         backend b\n  server s {}\n",
        origin.address()
    );
    let mut haproxy = Server::start("haproxy", "haproxy.cfg", &config, |path| {
        vec!["-db".into(), "-q".into(), "-f".into(), path.display().to_string()]
    });
    haproxy.wait(|| TcpStream::connect(front).is_ok());
    for version in ["v1", "v2"] {
        let gateway = Gateway::start(&format!(
            "routes: [{{match: \"/*\", to: u}}]\n\
             upstreams: {{u: {{endpoints: \"{front}\", proxy_protocol: {version}}}}}\n"
        ));
        named(&gateway, |client| client.to_string());
    }
}
