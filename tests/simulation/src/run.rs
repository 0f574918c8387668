//! A scenario, played.

use std::rc::Rc;
use std::time::Duration;

use tollgate_net::simulated::{self, Limits, Stopped};
use tollgate_proxy::Control;

use crate::audit::audit;
use crate::books::Books;
use crate::client;
use crate::gateway::{Gateway, Office, plan};
use crate::origin::Origin;
use crate::scenario::{Event, Scenario};

/// How long the drain may take.
const DRAIN: Duration = Duration::from_secs(120);
/// How long a scenario may take: all of its waits have bounds far below.
const LIMITS: Limits = Limits { time: Duration::from_secs(3600 * 3), turns: 20_000_000, text: false };

/// What became of a seed.
#[derive(Debug)]
pub struct Verdict {
    /// What was not as it must be; empty: all was.
    pub wrong: Vec<String>,
    /// The same for every run of the seed.
    pub hash: u64,
    /// Events in the trace.
    pub events: u64,
    /// Requests that clients asked.
    pub requests: usize,
    /// Virtual time that passed.
    pub time: Duration,
    /// The trace, if it was asked for.
    pub text: Option<String>,
}

/// Plays a seed.
///
/// # Errors
/// When the log's file cannot be made or read.
pub fn run(scenario: &Scenario, text: bool) -> std::io::Result<Verdict> {
    let office = Rc::new(Office::open(scenario.workers)?);
    let books = Books::default();
    let main = main(scenario.clone(), books.clone(), office.clone());
    let ended = simulated::run(scenario.seed, Limits { text, ..LIMITS }, main);
    let office = Rc::into_inner(office).ok_or_else(|| std::io::Error::other("the world still stands"))?;
    let (lines, counts, mut left) = office.close()?;
    match ended.output {
        Ok(found) => left.extend(found),
        Err(Stopped::Deadlock) => left.push("everybody waits for ever".to_owned()),
        Err(Stopped::Time) => left.push("it does not end".to_owned()),
        Err(Stopped::Turns) => left.push("somebody goes round in circles".to_owned()),
    }
    left.extend(ended.panics.iter().map(|panic| format!("a panic: {panic}")));
    let pages = books.look();
    left.extend(audit(scenario, &pages, &lines, &counts));
    Ok(Verdict {
        wrong: left,
        hash: ended.hash,
        events: ended.events,
        requests: pages.asked.len(),
        time: ended.time,
        text: ended.text,
    })
}

async fn main(scenario: Scenario, books: Books, office: Rc<Office>) -> Vec<String> {
    scenario.conditions.clone().set();
    let origins = scenario.origins.iter().enumerate();
    let origins: Vec<Rc<Origin>> =
        origins.map(|(number, plan)| Origin::start(number, plan, &books, scenario.seed)).collect();
    let gateway = Rc::new(Gateway::start(scenario.workers, plan(&scenario.plans[0]), &office));
    drop(office);
    let playing = Rc::new(std::cell::Cell::new(scenario.clients.len()));
    for client in &scenario.clients {
        let (client, books, playing) = (client.clone(), books.clone(), playing.clone());
        tollgate_net::spawn(async move {
            client::play(client, books).await;
            playing.set(playing.get() - 1);
        });
    }
    for (at, event) in scenario.events.clone() {
        tollgate_net::spawn(happen(at, event, scenario.plans.clone(), gateway.clone(), origins.clone()));
    }
    if let Some(at) = scenario.drain {
        simulated::sleep(at).await;
    }
    while scenario.drain.is_none() && playing.get() > 0 {
        simulated::sleep(Duration::from_millis(10)).await;
    }
    simulated::note("drain");
    gateway.tell(|| Control::Drain(Some(DRAIN)));
    let left = gateway.ended().await;
    while playing.get() > 0 {
        simulated::sleep(Duration::from_millis(10)).await;
    }
    left
}

async fn happen(
    at: Duration,
    event: Event,
    plans: Vec<String>,
    gateway: Rc<Gateway>,
    origins: Vec<Rc<Origin>>,
) {
    simulated::sleep(at).await;
    simulated::note(&format!("event {event:?}"));
    match event {
        Event::Reload(number) => {
            gateway.change(plan(&plans[number]));
        }
        Event::PauseWorker(worker, time) => simulated::pause(gateway.group(worker), time),
        Event::PauseOrigin(origin, time) => simulated::pause(origins[origin].group(), time),
        Event::Hold(origin, time) => simulated::hold(origins[origin].address().ip(), time),
        Event::Crash(origin, time) => origins[origin].crash(time).await,
        Event::Move(origin, ip) => origins[origin].change_address(ip),
    }
}
