//! Lookups against a name server of our own, and files that change.

mod server;

use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::RecordType;
use tollgate_plan::{Discover, DnsRules, Endpoint, Pool, Rules, Upstream};

use self::server::{Reply, Server, a, cname, srv};
use super::dns::DnsSource;
use super::{Discovery, EndpointSource, LookupError, normalized};
use crate::{UpstreamState, UpstreamStates};

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(test);
}

/// Bounds that make lookups follow each other quickly, whatever the TTL.
fn rules(server: &Server) -> DnsRules {
    DnsRules {
        min_ttl: Duration::from_millis(20),
        max_ttl: Duration::from_millis(60),
        servers: vec![server.address],
    }
}

fn short_form(endpoints: &[Endpoint]) -> Vec<String> {
    let text = |endpoint: &Endpoint| match (endpoint.priority, endpoint.weight) {
        (0, 1) => endpoint.address.to_string(),
        (priority, weight) => format!("{}/{priority}*{weight}", endpoint.address),
    };
    endpoints.iter().map(text).collect()
}

/// A gateway's lookups, and the messages that they send.
struct Lookups {
    discovery: Discovery,
    state: Arc<UpstreamState>,
    messages: Arc<Mutex<Vec<String>>>,
}

impl Lookups {
    fn start(discover: &Discover) -> Self {
        let (shared, messages) = (UpstreamStates::new(), Arc::new(Mutex::new(Vec::new())));
        let log = messages.clone();
        let warn = Arc::new(move |text: &str| log.lock().expect("log").push(text.to_owned()));
        let mut lookups =
            Self { discovery: Discovery::new(shared.clone(), warn), state: shared.upstream("up"), messages };
        lookups.apply(Some(discover));
        lookups
    }

    fn apply(&mut self, discover: Option<&Discover>) {
        let gone = self.discovery.apply(&[Arc::new(Upstream {
            name: "up".into(),
            endpoints: Vec::new(),
            discover: discover.cloned(),
            zone: None,
            pool: Pool::default(),
            tls: None,
            http2: None,
            proxy_protocol: None,
            rules: Rules::default(),
        })]);
        gone.forget();
    }

    fn state(&self) -> Arc<UpstreamState> {
        self.state.clone()
    }

    fn endpoints(&self) -> Vec<String> {
        self.state().discovered().map(|endpoints| short_form(&endpoints)).unwrap_or_default()
    }

    fn counts(&self) -> (u64, u64) {
        self.state().lookups.report().map_or((0, 0), |report| (report.lookups, report.failures))
    }

    async fn until(&self, what: &str, check: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !check(self) {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "{what}: {:?} {:?} {:?}",
                self.endpoints(),
                self.state().lookups.report(),
                self.messages.lock()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits for the end of some more lookups.
    async fn some_more(&self) {
        let (before, _) = self.counts();
        self.until("further look-ups", |this| this.counts().0 >= before + 3).await;
    }
}

fn dns(server: &Server) -> Discover {
    Discover::Dns { name: "app.test.".into(), port: 80, rules: rules(server) }
}

#[test]
fn a_change_of_addresses_is_followed_and_a_change_of_order_is_none() {
    run(async {
        let server = Server::start().await;
        server.say_a("app.test.", 1, &["127.0.0.1", "127.0.0.2"]);
        let lookups = Lookups::start(&dns(&server));
        assert_eq!(lookups.discovery.wait_for_first_lookups(Duration::from_secs(20)).await, [""; 0]);
        assert_eq!(lookups.endpoints(), ["127.0.0.1:80", "127.0.0.2:80"]);
        let epoch = lookups.state().epoch();
        server.say_a("app.test.", 1, &["127.0.0.2", "127.0.0.1"]);
        lookups.some_more().await;
        assert_eq!(lookups.state().epoch(), epoch);
        server.say_a("app.test.", 1, &["127.0.0.3", "127.0.0.2"]);
        lookups.until("the new address", |this| this.endpoints() == ["127.0.0.2:80", "127.0.0.3:80"]).await;
        assert!(lookups.state().epoch() > epoch);
        assert_eq!(lookups.counts().1, 0);
    });
}

#[test]
fn the_last_good_answer_outlives_failures() {
    run(async {
        let server = Server::start().await;
        let lookups = Lookups::start(&dns(&server));
        for (round, (reply, part)) in [
            (Reply::Code(ResponseCode::ServFail), "SERVFAIL"),
            (Reply::Code(ResponseCode::Refused), "REFUSED"),
            (Reply::Code(ResponseCode::NXDomain), "NXDOMAIN"),
            (Reply::Code(ResponseCode::NoError), "no address"),
            (Reply::DnsRecords(vec![a("app.test.", 1, "0.0.0.0")], Vec::new()), "no address"),
            (Reply::Silence, "in time"),
        ]
        .into_iter()
        .enumerate()
        {
            let address = format!("127.0.0.{}", round + 1);
            server.say_a("app.test.", 1, &[&address]);
            lookups.until("the address", |this| this.endpoints() == [format!("{address}:80")]).await;
            server.say_always(&reply);
            let problem = |this: &Lookups| this.state().lookups.report().and_then(|report| report.problem);
            lookups.until(part, |this| problem(this).is_some_and(|text| text.contains(part))).await;
            assert_eq!(lookups.endpoints(), [format!("{address}:80")], "{reply:?}");
            let messages = lookups.messages.lock().expect("log").join("\n");
            assert!(messages.contains(part) && messages.contains("goes on with those"), "{messages}");
        }
        let (all, failures) = lookups.counts();
        assert!(failures >= 6 && all >= 12, "{all} {failures}");
    });
}

#[test]
fn a_name_server_that_is_back_is_noticed() {
    run(async {
        let server = Server::start().await;
        server.say("app.test.", RecordType::A, Reply::Code(ResponseCode::ServFail));
        let lookups = Lookups::start(&dns(&server));
        lookups.until("failures", |this| this.counts().1 >= 3).await;
        assert_eq!(lookups.state().discovered(), None);
        server.say_a("app.test.", 1, &["127.0.0.1"]);
        lookups.until("the address", |this| this.endpoints() == ["127.0.0.1:80"]).await;
        let messages = lookups.messages.lock().expect("log").clone();
        assert_eq!(messages.len(), 2, "one word when it breaks, one when it works: {messages:?}");
    });
}

#[test]
fn the_ttl_is_the_shortest_of_the_chain() {
    run(async {
        let server = Server::start().await;
        let chain = vec![
            cname("app.test.", 600, "b.test."),
            cname("b.test.", 9, "c.test."),
            a("c.test.", 300, "127.0.0.1"),
        ];
        server.say("app.test.", RecordType::A, Reply::DnsRecords(chain, Vec::new()));
        let (endpoints, ttl) =
            DnsSource::addresses("app.test.", 80, &rules(&server)).look_up().await.expect("found");
        assert_eq!((short_form(&endpoints), ttl), (vec!["127.0.0.1:80".into()], Duration::from_secs(9)));
        // A server that does not follow the chain itself.
        let link = vec![cname("app.test.", 8, "b.test.")];
        server.say("app.test.", RecordType::A, Reply::DnsRecords(link.clone(), Vec::new()));
        server.say("app.test.", RecordType::AAAA, Reply::DnsRecords(link, Vec::new()));
        server.say_a("b.test.", 7, &["127.0.0.2"]);
        let (endpoints, ttl) =
            DnsSource::addresses("app.test.", 80, &rules(&server)).look_up().await.expect("found");
        assert_eq!((short_form(&endpoints), ttl), (vec!["127.0.0.2:80".into()], Duration::from_secs(7)));
    });
}

#[test]
fn srv_records_give_ports_weights_and_priorities() {
    run(async {
        let server = Server::start().await;
        let owner = "_http._tcp.app.test.";
        let records = vec![
            srv(owner, 60, (10, 3, 8001), "one.test."),
            srv(owner, 60, (10, 1, 8002), "two.test."),
            srv(owner, 60, (20, 0, 8003), "three.test."),
            srv(owner, 60, (5, 0, 8004), "gone.test."),
        ];
        // The first target's address is in the answer; the others are asked for.
        let along = vec![a("one.test.", 5, "127.0.0.1")];
        server.say(owner, RecordType::SRV, Reply::DnsRecords(records.clone(), along));
        server.say_a("two.test.", 50, &["127.0.0.2"]);
        server.say_a("three.test.", 50, &["127.0.0.3"]);
        let mut source = DnsSource::srv(owner, &rules(&server));
        let (endpoints, ttl) = source.look_up().await.expect("found");
        assert_eq!(
            short_form(&normalized(endpoints)),
            ["127.0.0.1:8001/1*3", "127.0.0.2:8002/1*1", "127.0.0.3:8003/2*1"]
        );
        assert_eq!(ttl, Duration::from_secs(5));
        // One target cannot be looked up: the others still count, and its last addresses.
        server.say("two.test.", RecordType::A, Reply::Code(ResponseCode::ServFail));
        server.say("two.test.", RecordType::AAAA, Reply::Code(ResponseCode::ServFail));
        server.say_a("three.test.", 50, &["127.0.0.33"]);
        let (endpoints, ttl) = source.look_up().await.expect("found");
        assert_eq!(
            short_form(&normalized(endpoints)),
            ["127.0.0.1:8001/1*3", "127.0.0.2:8002/1*1", "127.0.0.33:8003/2*1"]
        );
        assert_eq!(ttl, Duration::ZERO, "to be asked again soon");
        // `.` is not a target.
        server.say(
            owner,
            RecordType::SRV,
            Reply::DnsRecords(vec![srv(owner, 9, (0, 0, 1), ".")], Vec::new()),
        );
        assert_eq!(source.look_up().await, Err(LookupError::NoRecords));
    });
}

#[test]
fn an_answer_that_does_not_fit_a_datagram_is_asked_for_over_tcp() {
    run(async {
        let server = Server::start().await;
        let addresses: Vec<String> = (1..=100).map(|n| format!("127.0.1.{n}")).collect();
        let texts: Vec<&str> = addresses.iter().map(String::as_str).collect();
        server.say_a("app.test.", 1, &texts);
        let (endpoints, _) =
            DnsSource::addresses("app.test.", 80, &rules(&server)).look_up().await.expect("found");
        assert_eq!(endpoints.len(), 100);
        assert!(server.asked().1 >= 1);
    });
}

#[test]
fn a_second_server_answers_where_the_first_is_dead() {
    run(async {
        let (server, dead) = (Server::start().await, Server::start().await);
        server.say_a("app.test.", 1, &["127.0.0.1"]);
        for kind in [RecordType::A, RecordType::AAAA] {
            dead.say("app.test.", kind, Reply::Silence);
        }
        let mut rules = rules(&server);
        rules.servers.insert(0, dead.address);
        let (endpoints, _) = DnsSource::addresses("app.test.", 80, &rules).look_up().await.expect("found");
        assert_eq!(short_form(&endpoints), ["127.0.0.1:80"]);
    });
}

#[test]
fn a_plan_takes_look_ups_away_and_changes_them() {
    run(async {
        let server = Server::start().await;
        server.say_a("app.test.", 1, &["127.0.0.1"]);
        server.say_a("other.test.", 1, &["127.0.0.2"]);
        let mut lookups = Lookups::start(&dns(&server));
        lookups.until("the address", |this| this.endpoints() == ["127.0.0.1:80"]).await;
        // The same plan again disturbs nothing.
        lookups.apply(Some(&dns(&server)));
        assert_eq!(lookups.endpoints(), ["127.0.0.1:80"]);
        // Other bounds for the same name while the server is away: the known endpoints stay.
        server.say("app.test.", RecordType::A, Reply::Code(ResponseCode::ServFail));
        let mut slower = rules(&server);
        slower.max_ttl = Duration::from_millis(70);
        lookups.apply(Some(&Discover::Dns { name: "app.test.".into(), port: 80, rules: slower }));
        lookups.some_more().await;
        assert_eq!(lookups.endpoints(), ["127.0.0.1:80"]);
        // Another name: the old endpoints stay until the new ones are known.
        let other = |name: &str| Discover::Dns { name: name.into(), port: 80, rules: rules(&server) };
        lookups.apply(Some(&other("other.test.")));
        assert_eq!(lookups.endpoints(), ["127.0.0.1:80"]);
        lookups.until("the other address", |this| this.endpoints() == ["127.0.0.2:80"]).await;
        // A failure removes them, because they belong to another name.
        lookups.apply(Some(&other("nowhere.test.")));
        lookups.until("nothing", |this| this.state().discovered().is_none()).await;
        lookups.apply(Some(&dns(&server)));
        lookups.apply(None);
        let (asked, _) = server.asked();
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(server.asked().0 <= asked + 4, "it goes on asking");
        assert_eq!(lookups.state().lookups.report(), None);
    });
}

fn file() -> (tempfile::TempDir, PathBuf, Discover) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("endpoints.yaml");
    (directory, path.clone(), Discover::File(path.as_path().into()))
}

#[test]
fn a_file_is_read_again_when_it_changes() {
    run(async {
        let (directory, path, discover) = file();
        std::fs::write(&path, "[127.0.0.1:80]").expect("written");
        let lookups = Lookups::start(&discover);
        lookups.discovery.wait_for_first_lookups(Duration::from_secs(20)).await;
        assert_eq!(lookups.endpoints(), ["127.0.0.1:80"]);
        // In place, with the same length.
        std::fs::write(&path, "[127.0.0.2:80]").expect("written");
        lookups.until("the second", |this| this.endpoints() == ["127.0.0.2:80"]).await;
        // Renamed into place.
        let new = directory.path().join("new");
        std::fs::write(&new, r#"[{"address": "127.0.0.3:80", "weight": 5}]"#).expect("written");
        std::fs::rename(&new, &path).expect("renamed");
        lookups.until("the third", |this| this.endpoints() == ["127.0.0.3:80/0*5"]).await;
        // A mistake, and then no file.
        std::fs::write(&path, "[127.0.0.4]").expect("written");
        lookups.until("a failure", |this| this.counts().1 == 1).await;
        std::fs::remove_file(&path).expect("removed");
        lookups.until("another failure", |this| this.counts().1 == 2).await;
        assert_eq!(lookups.endpoints(), ["127.0.0.3:80/0*5"]);
        let messages = lookups.messages.lock().expect("log").join("\n");
        assert!(messages.contains("has no port") && messages.contains("no such file"), "{messages}");
        std::fs::write(&path, "[127.0.0.5:80]").expect("written");
        lookups.until("the fifth", |this| this.endpoints() == ["127.0.0.5:80"]).await;
    });
}

#[test]
fn a_file_behind_a_symbolic_link_that_is_swapped_is_read() {
    run(async {
        let (directory, path, discover) = file();
        for n in 1..=2 {
            let version = directory.path().join(format!("v{n}"));
            std::fs::write(version, format!("[127.0.0.{n}:80]")).expect("written");
        }
        let link = |to: &str| {
            let new = directory.path().join("link");
            std::os::unix::fs::symlink(to, &new).expect("linked");
            std::fs::rename(&new, &path).expect("renamed");
        };
        link("v1");
        let lookups = Lookups::start(&discover);
        lookups.until("the first", |this| this.endpoints() == ["127.0.0.1:80"]).await;
        link("v2");
        lookups.until("the second", |this| this.endpoints() == ["127.0.0.2:80"]).await;
    });
}

#[test]
fn a_file_that_is_being_written_is_not_read() {
    run(async {
        let (_directory, path, discover) = file();
        std::fs::write(&path, "- 127.0.0.1:80\n- 127.0.0.2:80\n- 127.0.0.3:80\n").expect("written");
        let lookups = Lookups::start(&discover);
        lookups.until("the first", |this| this.endpoints().len() == 3).await;
        // Line by line: each state is a valid list.
        let mut text = String::new();
        for n in 4..40 {
            text.push_str(&format!("- 127.0.0.{n}:80\n"));
            std::fs::write(&path, &text).expect("written");
            tokio::time::sleep(Duration::from_millis(20)).await;
            let count = lookups.endpoints().len();
            assert_eq!(count, 3, "half a list was taken for the whole");
        }
        lookups.until("the whole", |this| this.endpoints().len() == 36).await;
    });
}

#[test]
fn a_source_of_another_kind_needs_nothing_but_the_trait() {
    /// Waits for events, as a registry with a watch does.
    struct Watch(tokio::sync::mpsc::Receiver<Vec<Endpoint>>);
    impl EndpointSource for Watch {
        async fn next(&mut self) -> Result<Vec<Endpoint>, LookupError> {
            match self.0.recv().await {
                Some(endpoints) => Ok(endpoints),
                None => std::future::pending().await,
            }
        }
    }
    run(async {
        let (sender, events) = tokio::sync::mpsc::channel(1);
        let shared = UpstreamStates::new();
        let state = shared.upstream("up");
        let (looked, _) = tokio::sync::watch::channel(false);
        let warn: super::Warn = Arc::new(|_: &str| {});
        let source_task = super::SourceTask {
            state: state.clone(),
            warn,
            is_other_source: false,
            first_lookup_done: looked,
        };
        tokio::spawn(source_task.follow(Watch(events)));
        let address = tollgate_net::Address::Socket(([127, 0, 0, 1], 80).into());
        let one = Endpoint { address, weight: 2, priority: 0, zone: None };
        sender.send(vec![one.clone(), one]).await.expect("taken");
        while state.discovered().is_none() {
            tokio::task::yield_now().await;
        }
        assert_eq!(
            short_form(&state.discovered().expect("endpoints")),
            ["127.0.0.1:80/0*4"],
            "weights add up"
        );
    });
}
