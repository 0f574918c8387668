//! The components to which a verdict attributes a trial or a cell.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The component that limits a system in a cell. The order is the gravity: in a draw between rounds, the
/// graver kind is the cell's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictKind {
    /// The offered rate was kept, and no component was at its limit: the figures are the system's toll.
    Nothing,
    /// Every core that the system may use was busy.
    Gateway,
    /// One thread of the system was busy while others were not.
    HotWorker,
    /// The origin was at its limit.
    Origin,
    /// The generator was at its limit.
    Generator,
    /// The offered rate was kept, but the core of origin and generator was full: the cost is the system's,
    /// the latency is not.
    LoadSide,
    /// The system's CPU quota throttled it.
    Quota,
    /// A limit on connections: listen queue, ports, descriptors, a configured maximum.
    Connections,
    /// The link between generator and system, if the study sets a slow one.
    Link,
    /// The origin received fewer requests than were answered: the system answers from a cache, or joins
    /// requests.
    OwnAnswers,
    /// The origin received more requests than were sent: the system retries or duplicates requests.
    ExtraRequests,
    /// Errors or unexpected responses: the figures are not comparable.
    Errors,
    /// No component was seen at a limit, and yet the rate was not reached: not attributed.
    Invalid,
}

impl VerdictKind {
    /// Returns the word that tables show.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Gateway => "gateway",
            Self::HotWorker => "one hot worker",
            Self::Origin => "origin",
            Self::Generator => "generator",
            Self::LoadSide => "generator side full",
            Self::Quota => "CPU quota",
            Self::Connections => "connection limit",
            Self::Link => "link",
            Self::OwnAnswers => "answers of its own",
            Self::ExtraRequests => "extra requests",
            Self::Errors => "errors",
            Self::Invalid => "invalid",
        }
    }

    /// Returns whether the throughput and cost of such a cell may be printed as figures of the system.
    pub fn has_figures(self) -> bool {
        !matches!(self, Self::OwnAnswers | Self::ExtraRequests | Self::Errors | Self::Invalid)
    }

    /// Returns whether the latency at an offered rate is the system's. In a closed loop every limit shows in
    /// the latency, and the report marks it as such.
    pub fn has_latency(self) -> bool {
        self.has_figures() && !matches!(self, Self::Origin | Self::Generator | Self::LoadSide)
    }
}
