//! The configuration files of all servers of a run, written out so that they can be printed.
//!
//! Equal terms: one worker each, keep-alive to the origin, `X-Forwarded-For`, `-Proto` and `-Host` added to every
//! request, no access log and no limit on requests a connection unless the cell says so. Beyond that each server runs
//! on its defaults, as most users run it; `tuned_nginx` gives nginx the buffers an expert would for large bodies.
//! HAProxy gets none: with `tune.bufsize 65536` four alternating pairs of runs at 64 KiB showed no gain (0.94-1.55 x).

use crate::target::System;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Routes in the cell with many.
pub const MANY_ROUTES: u32 = 10_000;

/// What a cell asks of a server's configuration.
#[derive(Debug, Clone, Default)]
pub struct Terms {
    /// Write an access log.
    pub access_log: bool,
    /// So many routes `/rNNNNN/*` besides the one for everything.
    pub routes: u32,
    /// Room for this many client connections.
    pub clients: u32,
    /// Bodies stream through rather than wait in a file.
    pub streaming: bool,
    /// nginx gets larger buffers than its defaults.
    pub tuned_nginx: bool,
}

/// Where one server of a run lives.
#[derive(Debug, Clone)]
pub struct Place {
    /// Its port on 127.0.0.1.
    pub port: u16,
    /// The origin's port on 127.0.0.1.
    pub origin: u16,
    /// A folder of its own.
    pub folder: PathBuf,
    /// Whether the run has the rights of root, which nginx otherwise drops and with them its folder.
    pub root: bool,
}

impl Place {
    /// The access log's path.
    pub fn access_log(&self) -> PathBuf {
        self.folder.join("access.log")
    }

    /// HAProxy's map of paths to backends.
    pub fn map(&self) -> PathBuf {
        self.folder.join("routes.map")
    }
}

/// The path of route number `index`, below which the load asks.
pub fn route_path(index: u32) -> String {
    format!("/r{index:05}/")
}

/// The configuration of a server under test.
pub fn of(system: System, terms: &Terms, place: &Place) -> String {
    match system {
        System::Tollgate => tollgate(terms, place),
        System::Nginx => nginx(terms, place),
        System::Haproxy => haproxy(terms, place),
    }
}

fn tollgate(terms: &Terms, place: &Place) -> String {
    let Place { port, origin, .. } = place;
    let mut text = format!("listen: 127.0.0.1:{port}\nworkers: 1\nadmin: off\n");
    if terms.access_log {
        let _ = writeln!(text, "access_log: {}", place.access_log().display());
    }
    text += "routes:\n";
    for index in 0..terms.routes {
        let _ = writeln!(text, "  - match: {}*\n    to: 127.0.0.1:{origin}", route_path(index));
    }
    let _ = writeln!(text, "  - match: /*\n    to: 127.0.0.1:{origin}");
    text
}

/// The head every nginx of a run shares: one worker, its files in its own folder.
fn nginx_head(place: &Place, connections: u32) -> String {
    let folder = place.folder.display();
    let user = if place.root { "user root;\n" } else { "" };
    let mut text = format!(
        "{user}daemon off;\nworker_processes 1;\npid {folder}/nginx.pid;\nerror_log {folder}/error.log crit;\n\
         events {{ worker_connections {connections}; }}\nhttp {{\n"
    );
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        let _ = writeln!(text, "  {kind}_temp_path {folder}/{kind};");
    }
    text
}

fn nginx(terms: &Terms, place: &Place) -> String {
    let Place { port, origin, .. } = place;
    let mut text = nginx_head(place, (terms.clients * 2).max(1_024));
    if terms.access_log {
        let _ = writeln!(text, "  access_log {} combined;", place.access_log().display());
    } else {
        text += "  access_log off;\n";
    }
    let _ = write!(
        text,
        "  upstream origin {{\n    server 127.0.0.1:{origin};\n    keepalive 512;\n    keepalive_requests 1000000000;\n  }}\n\
         \x20 server {{\n    listen 127.0.0.1:{port};\n    keepalive_requests 1000000000;\n    client_max_body_size 0;\n\
         \x20   proxy_http_version 1.1;\n    proxy_set_header Connection \"\";\n\
         \x20   proxy_set_header X-Forwarded-For $remote_addr;\n    proxy_set_header X-Forwarded-Proto $scheme;\n\
         \x20   proxy_set_header X-Forwarded-Host $host;\n"
    );
    if terms.streaming {
        text += "    proxy_request_buffering off;\n    proxy_max_temp_file_size 0;\n";
    }
    if terms.tuned_nginx {
        text += "    proxy_buffer_size 16k;\n    proxy_buffers 8 16k;\n    proxy_busy_buffers_size 64k;\n";
    }
    for index in 0..terms.routes {
        let _ = writeln!(text, "    location {} {{ proxy_pass http://origin; }}", route_path(index));
    }
    text += "    location / { proxy_pass http://origin; }\n  }\n}\n";
    text
}

fn haproxy(terms: &Terms, place: &Place) -> String {
    let Place { port, origin, .. } = place;
    let clients = terms.clients.max(1_000) + 100;
    let mut text = format!("global\n  nbthread 1\n  maxconn {clients}\n");
    if terms.access_log {
        text += "  log stdout format raw local0\n";
    }
    text += "defaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n\
             \x20 http-reuse always\n  option forwardfor\n";
    if terms.access_log {
        text += "  log global\n  option httplog\n";
    }
    let _ = write!(
        text,
        "frontend front\n  bind 127.0.0.1:{port}\n  http-request set-header X-Forwarded-Proto http\n\
         \x20 http-request set-header X-Forwarded-Host %[req.hdr(host)]\n"
    );
    if terms.routes > 0 {
        let _ = writeln!(text, "  use_backend %[path,map_beg({},origin)]", place.map().display());
    }
    let _ = write!(text, "  default_backend origin\nbackend origin\n  server origin 127.0.0.1:{origin}\n");
    text
}

/// HAProxy's map file for so many routes: a path prefix and a backend a line.
pub fn haproxy_map(routes: u32) -> String {
    (0..routes).map(|index| format!("{} origin\n", route_path(index))).collect()
}

/// The origin: an nginx that answers `ok`, serves files under `/body`, and says at `/forwarded` what it was told.
pub fn origin(place: &Place, bodies: &Path) -> String {
    let mut text = nginx_head(place, 16_000);
    let _ = write!(
        text,
        "  access_log off;\n  sendfile on;\n  tcp_nopush on;\n  open_file_cache max=16;\n  default_type text/plain;\n\
         \x20 server {{\n    listen 127.0.0.1:{};\n    keepalive_requests 1000000000;\n    keepalive_timeout 600s;\n\
         \x20   location / {{ return 200 \"ok\"; }}\n    location /body/ {{ root {}; }}\n\
         \x20   location = /forwarded {{ return 200 \
         \"$http_x_forwarded_for $http_x_forwarded_proto $http_x_forwarded_host\"; }}\n  }}\n}}\n",
        place.port,
        bodies.display()
    );
    text
}

/// A configuration as printed: the long runs of routes, all alike, cut to the first two.
pub fn shortened(text: &str) -> String {
    let is_route = |line: &str| line.contains("/r0") || line.contains("/r1");
    let mut seen = 0usize;
    let mut skipped = 0usize;
    let mut lines: Vec<String> = Vec::new();
    let mut in_skipped_route = false;
    for line in text.lines() {
        if is_route(line) && !line.contains("map_beg") {
            seen += 1;
            in_skipped_route = seen > 2;
        } else if in_skipped_route && line.starts_with("    to:") {
            continue;
        } else {
            if skipped > 0 {
                lines.push(format!("  # ... {skipped} more alike"));
                skipped = 0;
            }
            in_skipped_route = false;
        }
        if in_skipped_route {
            skipped += 1;
        } else {
            lines.push(line.to_owned());
        }
    }
    if skipped > 0 {
        lines.push(format!("# ... {skipped} more alike"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place { port: 20_001, origin: 20_000, folder: "/run/x".into(), root: false }
    }

    #[test]
    fn every_server_gets_its_port_its_origin_and_one_worker() {
        for (system, worker) in [
            (System::Tollgate, "workers: 1\n"),
            (System::Nginx, "worker_processes 1;"),
            (System::Haproxy, "nbthread 1\n"),
        ] {
            let text = of(system, &Terms::default(), &place());
            assert!(text.contains("127.0.0.1:20001") && text.contains("127.0.0.1:20000"), "{text}");
            assert!(text.contains(worker), "{text}");
        }
    }

    #[test]
    fn the_gateway_runs_from_the_smallest_file() {
        assert_eq!(
            of(System::Tollgate, &Terms { access_log: true, ..Terms::default() }, &place()),
            "listen: 127.0.0.1:20001\nworkers: 1\nadmin: off\naccess_log: /run/x/access.log\nroutes:\n  - match: /*\n    \
             to: 127.0.0.1:20000\n"
        );
    }

    #[test]
    fn many_routes_are_written_in_full_and_printed_in_short() {
        let terms = Terms { routes: 100, ..Terms::default() };
        for system in System::ALL {
            let text = of(system, &terms, &place());
            let short = shortened(&text);
            assert!(short.lines().count() < 45, "{short}");
            if system != System::Haproxy {
                assert_eq!(text.matches("/r000").count(), 100);
                assert!(short.contains("... 98 more alike"), "{short}");
                assert!(short.contains("/r00001/") && !short.contains("/r00002/"), "{short}");
            }
        }
        assert_eq!(haproxy_map(100).lines().count(), 100);
        assert!(shortened(&haproxy_map(100)).ends_with("# ... 98 more alike"));
    }

    #[test]
    fn logs_and_tuning_only_when_asked() {
        let plain = Terms::default();
        let logged = Terms { access_log: true, tuned_nginx: true, ..Terms::default() };
        assert!(of(System::Nginx, &plain, &place()).contains("access_log off;"));
        assert!(of(System::Nginx, &logged, &place()).contains("access_log /run/x/access.log combined;"));
        assert!(!of(System::Haproxy, &plain, &place()).contains("log"));
        assert!(of(System::Haproxy, &logged, &place()).contains("option httplog"));
        assert!(of(System::Nginx, &logged, &place()).contains("proxy_buffers 8 16k;"));
        assert!(!of(System::Nginx, &plain, &place()).contains("proxy_buffers"));
    }
}
