//! The cells of the benchmark: which load each one offers and which bar it is held to.
//!
//! Rates are fixed rather than calibrated, so that two runs on one machine compare. They are about 45 % of what
//! one core of nginx 1.22 carries on the machine the bars were set on.

/// How requests arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// So many requests a second over all connections, kept alive (`h2load --h1 --rps`).
    Rate(u32),
    /// As fast as answers come, each on a connection of its own (`wrk`, `Connection: close`).
    Close,
}

/// What differs from the plain request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Twist {
    /// Nothing: a GET with the generator's own few headers.
    None,
    /// Every target writes an access log.
    AccessLog,
    /// Twenty request headers, 1.2 KiB in all.
    Headers,
    /// Ten thousand routes in the configuration, 64 of them asked for.
    Routes,
    /// A POST with a body of 1 KiB.
    Post,
}

/// Upper limits on ratios to the better peer.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Bars {
    /// CPU a request: gateway over the lower of nginx and HAProxy.
    pub cpu: Option<f64>,
    /// 99th percentile of latency: gateway over the lower of the two.
    pub p99: Option<f64>,
}

/// One load, measured for every target in turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Short name for `--cells` and the results file.
    pub id: &'static str,
    /// What the tables print.
    pub title: &'static str,
    /// Client connections.
    pub connections: u32,
    /// Bytes of the response body.
    pub body: usize,
    /// How requests arrive.
    pub pace: Pace,
    /// What differs from the plain request.
    pub twist: Twist,
    /// What the gateway is held to.
    pub bars: Bars,
}

/// The ratio to the better peer that the project aims at in every cell, beyond the bars.
pub const GOAL: f64 = 0.80;

const fn bars(cpu: f64) -> Bars {
    Bars { cpu: Some(cpu), p99: None }
}

const fn bars_with_p99(cpu: f64) -> Bars {
    Bars { cpu: Some(cpu), p99: Some(1.0) }
}

const NO_BARS: Bars = Bars { cpu: None, p99: None };

const fn keep_alive(
    id: &'static str,
    title: &'static str,
    connections: u32,
    body: usize,
    rate: u32,
    bars: Bars,
) -> Cell {
    Cell { id, title, connections, body, pace: Pace::Rate(rate), twist: Twist::None, bars }
}

const fn twisted(id: &'static str, title: &'static str, rate: u32, twist: Twist, bars: Bars) -> Cell {
    Cell { id, title, connections: 64, body: 2, pace: Pace::Rate(rate), twist, bars }
}

/// Every load cell, in the order of a full run.
pub const ALL: [Cell; 14] = [
    keep_alive("2b-1", "2 B, 1 connection", 1, 2, 6_000, bars(0.88)),
    keep_alive("2b-64", "2 B, 64 connections", 64, 2, 32_000, bars_with_p99(0.86)),
    keep_alive("2b-256", "2 B, 256 connections", 256, 2, 32_000, bars(0.75)),
    keep_alive("4k-1", "4 KiB, 1 connection", 1, 4_096, 5_000, NO_BARS),
    keep_alive("4k-64", "4 KiB, 64 connections", 64, 4_096, 24_000, bars_with_p99(0.86)),
    keep_alive("4k-256", "4 KiB, 256 connections", 256, 4_096, 24_000, NO_BARS),
    keep_alive("64k-1", "64 KiB, 1 connection", 1, 65_536, 2_500, NO_BARS),
    keep_alive("64k-64", "64 KiB, 64 connections", 64, 65_536, 5_000, bars_with_p99(0.85)),
    keep_alive("64k-256", "64 KiB, 256 connections", 256, 65_536, 5_000, NO_BARS),
    Cell {
        id: "close-64",
        title: "2 B, 64 connections, Connection: close",
        connections: 64,
        body: 2,
        pace: Pace::Close,
        twist: Twist::None,
        bars: bars(0.95),
    },
    twisted("log-64", "2 B, 64 connections, access log on", 24_000, Twist::AccessLog, bars(0.88)),
    twisted("headers-64", "2 B, 64 connections, 20 request headers", 24_000, Twist::Headers, bars(0.86)),
    twisted("routes-64", "2 B, 64 connections, 10,000 routes", 32_000, Twist::Routes, NO_BARS),
    twisted("post-64", "POST 1 KiB, 64 connections", 24_000, Twist::Post, NO_BARS),
];

/// The three cells of `make bench`.
pub fn plain() -> Vec<Cell> {
    ALL[..3].to_vec()
}

/// Keeps the cells named in a comma-separated list, in the order of [`ALL`].
///
/// Returns the first unknown name on error.
pub fn named(list: &str) -> Result<Vec<Cell>, String> {
    let wanted: Vec<&str> = list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    match wanted.iter().find(|name| !ALL.iter().any(|cell| cell.id == **name)) {
        Some(unknown) => Err((*unknown).to_owned()),
        None => Ok(ALL.iter().filter(|cell| wanted.contains(&cell.id)).cloned().collect()),
    }
}

/// Headers 4 to 20 of the cell with 20 headers; the generator sends `host`, `user-agent` and `accept` or the like.
///
/// They look like what a browser and an API client send, 1.2 KiB with the request line.
pub fn many_headers() -> Vec<(String, String)> {
    let filler = |length: usize| "k7Qz0pXw".chars().cycle().take(length).collect::<String>();
    let mut headers: Vec<(String, String)> = vec![
        ("Accept".into(), "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8".into()),
        ("Accept-Encoding".into(), "gzip, deflate, br".into()),
        ("Accept-Language".into(), "en-GB,en;q=0.9,zh-CN;q=0.8".into()),
        ("Cache-Control".into(), "no-cache".into()),
        ("Pragma".into(), "no-cache".into()),
        ("Referer".into(), "http://www.example.com/catalogue/garden/tools?page=3".into()),
        ("Authorization".into(), format!("Bearer {}", filler(220))),
        ("Cookie".into(), format!("session={}; theme=dark", filler(160))),
        ("If-None-Match".into(), format!("\"{}\"", filler(32))),
        ("Sec-Fetch-Dest".into(), "document".into()),
        ("Sec-Fetch-Mode".into(), "navigate".into()),
        ("Sec-Fetch-Site".into(), "same-origin".into()),
    ];
    for name in ["X-Client-Version", "X-Device-Id", "X-Tenant", "X-Feature-Set", "X-Correlation"] {
        headers.push((name.into(), filler(32)));
    }
    headers.push(("Dnt".into(), "1".into()));
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_is_the_three_small_body_cells() {
        let ids: Vec<_> = plain().iter().map(|cell| cell.id).collect();
        assert_eq!(ids, ["2b-1", "2b-64", "2b-256"]);
    }

    #[test]
    fn cells_are_chosen_by_name_and_an_unknown_name_is_told() {
        let chosen = named("post-64, 4k-64").unwrap();
        assert_eq!(chosen.iter().map(|cell| cell.id).collect::<Vec<_>>(), ["4k-64", "post-64"]);
        assert_eq!(named("2b-1,2b-2").unwrap_err(), "2b-2");
    }

    #[test]
    fn names_are_unique_and_rates_divide_over_the_connections() {
        for (at, cell) in ALL.iter().enumerate() {
            assert!(ALL[at + 1..].iter().all(|other| other.id != cell.id));
            if let Pace::Rate(rate) = cell.pace {
                assert!(rate >= cell.connections, "{}: h2load takes at least 1/s a connection", cell.id);
            }
        }
    }

    #[test]
    fn twenty_headers_weigh_about_1200_bytes() {
        // h2load adds Host and User-Agent itself.
        let headers = many_headers();
        assert_eq!(headers.len() + 2, 20);
        let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        assert!((1_050..1_250).contains(&bytes), "{bytes} bytes");
    }
}
