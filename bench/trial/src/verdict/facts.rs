//! The facts about the set-up of a trial that its verdict depends on. The cell fills them in before the trial.

/// The parts of the set-up that affect the verdict.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Cores that the system may use (the smaller of cores and workers); 0 for a direct run, and for a gateway that
    /// already runs.
    pub target_cores: f64,
    /// Whether the CPU time of the system is read.
    pub has_cpu: bool,
    /// Whether the limit of the system is not visible from here: the laboratory did not start it.
    pub unseen: bool,
    /// The cores that the system has to itself on this host; empty if it shares them, or runs elsewhere.
    pub system_cores: Vec<usize>,
    /// Cores of the generator, and of the origin as well if `origin_cores` is empty.
    pub load_cores: Vec<usize>,
    /// Cores of the origin alone; empty if it shares the generator's cores.
    pub origin_cores: Vec<usize>,
    /// Whether the origin runs on the system's cores and under its quota.
    pub origin_on_system: bool,
    /// Whether the system may also use the cores of origin and generator.
    pub shared: bool,
    /// Delay that the origin adds to each answer, in microseconds.
    pub origin_delay_us: f64,
    /// Round trip in microseconds and bytes per second of the link, if there is one.
    pub link: Option<(f64, f64)>,
    /// Size of a response with its head, in bytes, for the link's limit.
    pub response_bytes: f64,
    /// Concurrent requests on each connection; 0 counts as 1.
    pub streams: u32,
    /// Seconds of load before the measurement.
    pub before: f64,
    /// Whether the system itself makes the answers of this cell, so that the origin receives no request.
    pub own_answers: bool,
    /// Whether the probe before the load found that the system answers before the origin does, though the cell does not
    /// ask for that.
    pub early_answers: bool,
    /// Whether the cell asks for more requests to the origin than clients send, such as copies.
    pub extra_requests: bool,
}
