//! Random walks: in any order of events no limit is exceeded, and no request waits while a connection or
//! permit is free. A walk that fails prints its seed.

use super::*;

const WORKERS: usize = 3;
const ENDPOINTS: usize = 2;

struct Walk {
    world: World,
    random: fastrand::Rng,
    caps: Caps,
    requests: Vec<Request>,
    held: Vec<Connection>,
}

impl Walk {
    async fn step(&mut self) {
        match self.random.u8(..100) {
            0..35 => {
                let (worker, endpoint) = (self.random.usize(..WORKERS), self.random.usize(..ENDPOINTS));
                let request = self.world.request(worker, endpoint);
                self.requests.push(request);
            }
            35..60 if !self.held.is_empty() => {
                let connection = self.held.swap_remove(self.random.usize(..self.held.len()));
                put(connection);
            }
            60..67 if !self.held.is_empty() => {
                drop(self.held.swap_remove(self.random.usize(..self.held.len())));
            }
            67..72 if !self.requests.is_empty() => {
                drop(self.requests.swap_remove(self.random.usize(..self.requests.len())));
            }
            72..90 => {
                // Messages to one worker keep their order; messages to different workers have none.
                let mut mail = self.world.mail.lock().expect("mail");
                let worker = self.random.usize(..WORKERS);
                let message =
                    mail.iter().position(|(to, _)| *to == worker).and_then(|first| mail.remove(first));
                drop(mail);
                if let Some((worker, message)) = message {
                    self.world.sets[worker].receive(message.0);
                }
            }
            _ => rest().await,
        }
        self.poll_all();
        self.check();
    }

    /// Polls in a random order, as a runtime would.
    fn poll_all(&mut self) {
        self.random.shuffle(&mut self.requests);
        let mut waiting = Vec::new();
        for mut request in self.requests.drain(..) {
            match poll(&mut request) {
                Poll::Ready(Ok(connection)) => self.held.push(connection),
                Poll::Ready(Err(error)) => assert_eq!(error, ConnectError::QueueFull),
                Poll::Pending => waiting.push(request),
            }
        }
        self.requests = waiting;
    }

    fn check(&self) {
        let limits = &self.world.state.limits;
        assert!(self.caps.connections.is_none_or(|cap| self.world.state.connections() <= cap));
        let each = self.world.pools[0].iter().map(|pool| pool.state());
        assert!(
            !limits.is_above_limit()
                && each.into_iter().all(|endpoint| !limits.is_above_limit_at(&endpoint.limits))
        );
        assert!(self.world.state.connections() as usize >= self.held.len());
    }

    /// Delivers and polls until nothing moves, then checks that no request waits for something that is free.
    async fn settle(&mut self) {
        for _ in 0..40 {
            self.world.deliver();
            rest().await;
            self.poll_all();
        }
        self.check();
        let limits = &self.world.state.limits;
        let queued: usize = self.world.sets.iter().map(|set| set.queue.len()).sum();
        assert_eq!(limits.queued.get() as usize, queued);
        for (worker, pools) in self.world.pools.iter().enumerate() {
            for (endpoint, pool) in pools.iter().enumerate().filter(|(_, pool)| !pool.queue.is_empty()) {
                let full = limits.is_full_at(&pool.state().limits);
                assert!(full || limits.is_full(), "worker {worker} waits for {endpoint}, which has room");
                for other in &self.world.pools {
                    assert!(
                        !other[endpoint].has_idle(),
                        "worker {worker} waits for {endpoint}, which is idle"
                    );
                    let idle = other.iter().any(|pool| pool.has_idle());
                    assert!(full || !idle, "worker {worker} waits for {endpoint} beside an idle connection");
                }
            }
        }
    }
}

async fn walk(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut cap = |most: u32| random.bool().then(|| random.u32(1..=most));
    let caps = limits(cap(5), cap(3));
    let world = World::new(WORKERS, ENDPOINTS, caps.clone());
    let mut walk = Walk { world, random, caps, requests: Vec::new(), held: Vec::new() };
    for _ in 0..4 {
        for _ in 0..60 {
            walk.step().await;
        }
        walk.settle().await;
    }
    // All requests finish.
    while !(walk.requests.is_empty() && walk.held.is_empty()) {
        let before = walk.requests.len() + walk.held.len();
        walk.held.drain(..).for_each(put);
        walk.settle().await;
        assert!(walk.requests.len() + walk.held.len() < before || !walk.held.is_empty(), "nothing moves");
    }
    walk.world.is_calm();
    let idle: usize = walk.world.sets.iter().map(|set| set.context.idle.get()).sum();
    assert_eq!(walk.world.state.connections() as usize, idle);
    let sum = walk.world.snapshot();
    assert!(sum.upstreams.iter().all(|upstream| upstream.active() == 0 && upstream.queueing.waiting == 0));
}

struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the walk of seed {} failed", self.0);
        }
    }
}

#[test]
fn any_order_is_good() {
    for seed in 0..40 {
        let named = Seed(seed);
        run(walk(named.0));
    }
}
