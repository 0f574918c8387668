//! Plays a scenario in a simulated world, and judges it.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tollgate_net::simulated::{self, RunLimits, StopReason};
use tollgate_proxy::WorkerCommand;

use crate::audit::audit;
use crate::directory::Directory;
use crate::gateway::{Gateway, GatewayResources, plan};
use crate::origin::Origin;
use crate::recorder::Recorder;
use crate::sabotage::{Accomplice, Sabotage};
use crate::scenario::{Body, Event, Scenario, UPSTREAMS};
use crate::{client, rest, stream, watch};

/// How long the drain may take.
const DRAIN: Duration = Duration::from_secs(120);
/// The limits of a scenario. All of its waits end far earlier.
const LIMITS: RunLimits = RunLimits { time: Duration::from_secs(3600 * 6), turns: 20_000_000, text: false };

/// The result of a seed.
#[derive(Debug)]
pub struct Verdict {
    /// A description of everything that was wrong; empty if nothing was.
    pub wrong: Vec<String>,
    /// The hash of the trace, which is the same for every run of the seed.
    pub hash: u64,
    /// The number of events in the trace.
    pub events: u64,
    /// How many requests the clients sent.
    pub requests: usize,
    /// The virtual time that passed.
    pub time: Duration,
    /// The trace, if the caller requested it.
    pub text: Option<String>,
}

/// Plays a scenario. With `text`, keeps the trace.
///
/// # Errors
/// Returns an error if the log's file cannot be created or read.
pub fn run(scenario: &Scenario, text: bool) -> std::io::Result<Verdict> {
    let resources = Rc::new(GatewayResources::open(scenario.workers)?);
    let recorder = Recorder::default();
    let main = main(scenario.clone(), recorder.clone(), resources.clone());
    let ended = simulated::run(scenario.seed, RunLimits { text, ..LIMITS }, main);
    let resources =
        Rc::into_inner(resources).ok_or_else(|| std::io::Error::other("the world still stands"))?;
    let (lines, counts, mut left) = resources.close()?;
    match ended.output {
        Ok(found) => left.extend(found),
        Err(StopReason::Deadlock) => left.push("everybody waits for ever".to_owned()),
        Err(StopReason::Time) => left.push("it does not end".to_owned()),
        Err(StopReason::Turns) => left.push("somebody goes round in circles".to_owned()),
    }
    left.extend(ended.panics.iter().map(|panic| format!("a panic: {panic}")));
    let record = recorder.read();
    left.extend(audit(scenario, &record, lines, &counts));
    Ok(Verdict {
        wrong: left,
        hash: ended.hash,
        events: ended.events,
        requests: record.asked.len(),
        time: ended.time,
        text: ended.text,
    })
}

async fn main(scenario: Scenario, recorder: Recorder, resources: Rc<GatewayResources>) -> Vec<String> {
    scenario.conditions.clone().set();
    let sabotage = scenario.sabotage;
    let start = |plan| Origin::start(plan, &recorder, scenario.seed, sabotage);
    let origins: Vec<Rc<Origin>> = scenario.origins.iter().map(start).collect();
    let directory = Directory::new(resources.shared());
    for (upstream, found) in scenario.found.iter().enumerate() {
        look_up(&directory, &origins, upstream, found);
    }
    let first = plan(&scenario.plans[0]);
    let gateway = Rc::new(Gateway::start(scenario.workers, first, directory, &resources));
    drop(resources);
    let accomplice = Accomplice::start(sabotage, &gateway);
    let watcher = simulated::new_group();
    simulated::spawn_in(watcher, watch::queues(gateway.clone(), recorder.clone()));
    let narrow = sabotage == Some(Sabotage::NarrowLimit);
    let asks = scenario.clients.iter().flat_map(|client| &client.batches).flat_map(|batch| &batch.asks);
    let bodies = asks.into_iter().any(|ask| ask.body != Body::None);
    simulated::spawn_in(watcher, watch::adaptive(gateway.clone(), recorder.clone(), narrow, bodies));
    let echoes = stream::start_echoes(scenario.echoes, &scenario.streams, &recorder, sabotage);
    let parties = scenario.clients.len() + scenario.streams.len() + scenario.events.len();
    let playing = Rc::new(Cell::new(parties));
    for plan in scenario.streams.clone() {
        let (recorder, playing) = (recorder.clone(), playing.clone());
        tollgate_net::spawn(async move {
            stream::play(plan, recorder).await;
            playing.set(playing.get() - 1);
        });
    }
    for client in &scenario.clients {
        let (client, recorder, playing) = (client.clone(), recorder.clone(), playing.clone());
        tollgate_net::spawn(async move {
            client::play(client, recorder, sabotage).await;
            playing.set(playing.get() - 1);
        });
    }
    for (at, event) in scenario.events.clone() {
        let happening = (origins.clone(), recorder.clone());
        let happening = happen(at, event, scenario.plans.clone(), gateway.clone(), happening);
        let playing = playing.clone();
        tollgate_net::spawn(async move {
            happening.await;
            playing.set(playing.get() - 1);
        });
    }
    let mut left = Vec::new();
    match scenario.drain {
        Some(at) => {
            let leave = scenario.leave.unwrap_or_default().min(at);
            simulated::sleep(at - leave).await;
            if !leave.is_zero() {
                gateway.tell(|| WorkerCommand::Leave { grace: Some(leave), receipt: None });
                simulated::sleep(leave).await;
            }
        }
        None => {
            while playing.get() > 0 {
                simulated::sleep(Duration::from_millis(10)).await;
            }
            simulated::note("rest");
            simulated::kill(watcher);
            origins.iter().for_each(|origin| origin.end());
            simulated::kill(echoes);
            left = rest::rest(&gateway).await;
        }
    }
    simulated::note("drain");
    gateway.tell(|| WorkerCommand::Drain(Some(DRAIN)));
    left.extend(gateway.ended().await);
    while playing.get() > 0 {
        simulated::sleep(Duration::from_millis(10)).await;
    }
    left.extend(simulated::exceeded_limits());
    drop(accomplice);
    left
}

async fn happen(
    at: Duration,
    event: Event,
    plans: Vec<String>,
    gateway: Rc<Gateway>,
    (origins, recorder): (Vec<Rc<Origin>>, Recorder),
) {
    simulated::sleep(at).await;
    match event {
        // The trace must not contain the new time.
        Event::SetClock(_) => simulated::note("event SetClock"),
        _ => simulated::note(&format!("event {event:?}")),
    }
    match event {
        Event::Stall(time) => gateway.groups().iter().for_each(|group| simulated::pause(*group, time)),
        Event::SetClock(seconds) => simulated::set_wall_clock(seconds),
        Event::Press(below, time) => {
            gateway.press(below);
            let from = simulated::elapsed();
            simulated::sleep(time).await;
            recorder.write().pressed.push((from, simulated::elapsed(), below));
            gateway.press(0);
        }
        Event::Reload(number) => gateway.change(plan(&plans[number])),
        Event::PauseWorker(worker, time) => simulated::pause(gateway.group(worker), time),
        Event::PauseOrigin(origin, time) => simulated::pause(origins[origin].group(), time),
        Event::Hold(origin, time) => origins[origin].hold(time),
        Event::Crash(origin, time) => origins[origin].crash(time).await,
        Event::Move(origin, ip) => origins[origin].change_address(ip),
        Event::LookUp(upstream, found) => look_up(&gateway.directory, &origins, upstream, &found),
    }
}

/// Sets the endpoints of an upstream in the directory: these origins at their current addresses.
fn look_up(directory: &Directory, origins: &[Rc<Origin>], upstream: usize, found: &[(usize, u32)]) {
    let endpoints = found.iter().map(|(origin, weight)| origins[*origin].endpoint(upstream, *weight));
    directory.say(UPSTREAMS[upstream], endpoints.collect());
}
