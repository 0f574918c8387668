//! Faults that a test injects into the simulation, to see that the checks find them. A check that nothing can
//! fail proves nothing.

use std::cell::RefCell;
use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use tollgate_net::{Address, simulated};
use tollgate_upstream::Permit;

use crate::gateway::{Gateway, Line};
use crate::scenario::{GATEWAY, UPSTREAMS, ports};

/// One injected fault. None of them is in the gateway: the parties, the record and the workers' threads
/// misbehave in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Origins label each answer with the number of another request.
    SwapAnswers,
    /// Origins send wrong bytes.
    CorruptBodies,
    /// Origins send half of the announced body, and end it as if it were whole.
    ShortBodies,
    /// The servers of streams send wrong bytes back.
    CorruptStreams,
    /// The servers of streams close before the client's end.
    CutStreams,
    /// Each request reaches its origin twice.
    DeliverTwice,
    /// Answers to clients are not recorded.
    ForgetAnswers,
    /// One line of the log is lost.
    LoseLine,
    /// One line of the log appears twice.
    RepeatLine,
    /// The log reports no attempts.
    NoAttempts,
    /// The log has another status than the client received.
    OtherStatus,
    /// More connections are opened than a limit permits.
    BreakCap,
    /// Permits of an upstream are taken and held while requests wait for one.
    HoldPlaces,
    /// A worker has a task that never ends.
    LeakTask,
    /// A worker has a connection that is never closed.
    LeakSocket,
    /// A timer never stops.
    LeakTimer,
    /// A permit for a connection is never released.
    LeakPlace,
    /// A plan is never dropped.
    LeakPlan,
    /// Requests are shed although no resource is short.
    ShedInVain,
    /// No request is shed, whichever resource is short.
    ShedNothing,
    /// The check assumes a lower adaptive limit than the real one.
    NarrowLimit,
    /// A task waits by the wall clock.
    WallClock,
    /// The trace depends on more than the seed.
    Chance,
}

impl Sabotage {
    /// Falsifies the log's lines.
    pub fn tamper(self, lines: &mut Vec<Line>) {
        match self {
            Self::LoseLine => drop(lines.pop()),
            Self::RepeatLine => lines.extend(lines.last().cloned()),
            Self::NoAttempts => lines.iter_mut().for_each(|line| line.attempts = 0),
            Self::OtherStatus => lines.iter_mut().for_each(|line| line.status += 1),
            _ => {}
        }
    }
}

/// The task that commits faults outside the parties, and keeps leaked objects alive.
#[derive(Debug)]
pub struct Accomplice {
    _kept: Rc<RefCell<Vec<Box<dyn Debug>>>>,
}

impl Accomplice {
    /// Starts the task, if there is a fault to commit.
    #[must_use]
    pub fn start(sabotage: Option<Sabotage>, gateway: &Rc<Gateway>) -> Self {
        let kept = Rc::<RefCell<Vec<Box<dyn Debug>>>>::default();
        if let Some(sabotage) = sabotage {
            simulated::spawn_in(gateway.group(0), act(sabotage, gateway.clone(), kept.clone()));
        }
        Self { _kept: kept }
    }
}

/// How long the task waits until the run is in progress.
const BEGIN: Duration = Duration::from_millis(1);
/// How long the task holds objects that it releases in the end.
const HOLD: Duration = Duration::from_secs(30);

async fn act(sabotage: Sabotage, gateway: Rc<Gateway>, kept: Rc<RefCell<Vec<Box<dyn Debug>>>>) {
    simulated::sleep(BEGIN).await;
    let origin = SocketAddr::new(IpAddr::from([10, 1, 0, 1]), ports(0).start);
    let places = |most: usize| {
        let shared = gateway.shared()?;
        let upstream = shared.upstream(UPSTREAMS[0]);
        let endpoint = upstream.endpoint(&Address::Socket(origin));
        Some(std::iter::from_fn(|| Permit::try_acquire(&upstream, &endpoint)).take(most).collect::<Vec<_>>())
    };
    match sabotage {
        Sabotage::BreakCap => {
            for _ in 0..20 {
                let opened = simulated::connect_from(SocketAddr::new(GATEWAY.ip(), 1), origin).await;
                kept.borrow_mut().push(Box::new(opened));
            }
            kept.borrow_mut().clear();
        }
        Sabotage::HoldPlaces => {
            let places = places(usize::MAX);
            simulated::sleep(HOLD).await;
            drop(places);
        }
        Sabotage::LeakPlace => kept.borrow_mut().push(Box::new(places(1))),
        Sabotage::LeakTask => std::future::pending().await,
        Sabotage::LeakSocket => {
            let opened = simulated::connect_from(SocketAddr::new(GATEWAY.ip(), 1), origin).await;
            kept.borrow_mut().push(Box::new(opened));
        }
        Sabotage::LeakTimer => loop {
            simulated::sleep(HOLD).await;
        },
        Sabotage::LeakPlan => kept.borrow_mut().push(Box::new(gateway.in_force.newest())),
        Sabotage::ShedInVain => gateway.press(3),
        Sabotage::ShedNothing => loop {
            gateway.press(0);
            simulated::sleep(BEGIN).await;
        },
        Sabotage::WallClock => {
            let end = tollgate_net::wall_clock() + HOLD;
            while tollgate_net::wall_clock() < end {
                simulated::sleep(Duration::from_secs(1)).await;
            }
        }
        Sabotage::Chance => simulated::note(&format!("{:?}", std::time::Instant::now())),
        _ => {}
    }
}
