//! What a test has the simulation do wrong, to see that the checks find it. A check that nothing can fail proves nothing.

use std::cell::RefCell;
use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use tollgate_net::{Address, simulated};
use tollgate_upstream::Permit;

use crate::gateway::{Gateway, Line};
use crate::scenario::{GATEWAY, UPSTREAMS, ports};

/// One thing that goes wrong. None of them is in the gateway: the parties, the books and the workers' threads lie in
/// its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Origins give each answer the number of another request.
    SwapAnswers,
    /// Origins send other bytes than they should.
    CorruptBodies,
    /// Origins send half of what they say they send, and end as if that were all.
    ShortBodies,
    /// Each request reaches its origin twice.
    DeliverTwice,
    /// Clients get nothing, though they were answered.
    ForgetAnswers,
    /// One line of the log is lost.
    LoseLine,
    /// One line of the log is there twice.
    RepeatLine,
    /// The log knows of no attempts.
    NoAttempts,
    /// The log has another status than the client got.
    OtherStatus,
    /// More connections are opened than a cap allows.
    BreakCap,
    /// Places of an upstream's are taken and not given back, while requests wait for one.
    HoldPlaces,
    /// A worker has a task that never ends.
    LeakTask,
    /// A worker has a connection that nobody closes.
    LeakSocket,
    /// A timer goes on.
    LeakTimer,
    /// A place for a connection is never given back.
    LeakPlace,
    /// A plan is never let go of.
    LeakPlan,
    /// Requests are turned away though nobody is short of anything.
    ShedInVain,
    /// Nobody turns anything away, whatever there is a lack of.
    ShedNothing,
    /// An adaptive limit is taken for lower than it is.
    NarrowLimit,
    /// Something waits by the wall clock.
    WallClock,
    /// Something depends on more than the seed.
    Chance,
}

impl Sabotage {
    /// What it makes of the log.
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

/// Who does what goes wrong beside the parties, and holds on to what leaks.
#[derive(Debug)]
pub struct Accomplice {
    _kept: Rc<RefCell<Vec<Box<dyn Debug>>>>,
}

impl Accomplice {
    /// Begins.
    #[must_use]
    pub fn start(sabotage: Option<Sabotage>, gateway: &Rc<Gateway>) -> Self {
        let kept = Rc::<RefCell<Vec<Box<dyn Debug>>>>::default();
        if let Some(sabotage) = sabotage {
            simulated::spawn_in(gateway.group(0), act(sabotage, gateway.clone(), kept.clone()));
        }
        Self { _kept: kept }
    }
}

/// How long it waits until all is under way.
const BEGIN: Duration = Duration::from_millis(1);
/// How long it holds what it gives back in the end.
const HOLD: Duration = Duration::from_secs(30);

async fn act(sabotage: Sabotage, gateway: Rc<Gateway>, kept: Rc<RefCell<Vec<Box<dyn Debug>>>>) {
    simulated::sleep(BEGIN).await;
    let origin = SocketAddr::new(IpAddr::from([10, 1, 0, 1]), ports(0).start);
    let places = |most: usize| {
        let shared = gateway.shared()?;
        let upstream = shared.upstream(UPSTREAMS[0]);
        let endpoint = upstream.endpoint(&Address::Socket(origin));
        Some(std::iter::from_fn(|| Permit::take(&upstream, &endpoint)).take(most).collect::<Vec<_>>())
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
