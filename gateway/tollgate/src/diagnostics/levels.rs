//! The levels of the components. Any thread may read them while the admin API or a reload changes them.

use std::sync::atomic::{AtomicU8, Ordering};

use tollgate_config::section::Word;
use tollgate_config::{LogComponent, LogLevel, LogLevels};
use tracing::Level;

/// The value of a component without a level of its own.
const UNSET: u8 = u8::MAX;

/// The levels in force. Each is a number of its own, since no event needs two of them at once.
#[derive(Debug)]
pub struct LevelTable {
    level: AtomicU8,
    /// In the order of [`LogComponent::ALL`].
    components: [AtomicU8; LogComponent::ALL.len()],
}

impl LevelTable {
    /// Makes the default: `info` for every component.
    pub const fn new() -> Self {
        Self {
            level: AtomicU8::new(LogLevel::Info as u8),
            components: [const { AtomicU8::new(UNSET) }; LogComponent::ALL.len()],
        }
    }

    /// Replaces the levels.
    pub fn set(&self, levels: &LogLevels) {
        self.level.store(levels.level as u8, Ordering::Relaxed);
        for component in LogComponent::ALL {
            let level = levels.components.get(&component).map_or(UNSET, |level| *level as u8);
            self.components[component as usize].store(level, Ordering::Relaxed);
        }
    }

    /// Returns the levels.
    pub fn get(&self) -> LogLevels {
        let own = |component: LogComponent| {
            let number = self.components[component as usize].load(Ordering::Relaxed);
            (number != UNSET).then(|| (component, level(number)))
        };
        LogLevels {
            level: level(self.level.load(Ordering::Relaxed)),
            components: LogComponent::ALL.into_iter().filter_map(own).collect(),
        }
    }

    /// Returns whether an event is written. `target` names its component; events of other parts of the
    /// program are not written.
    pub fn allows(&self, target: &str, level: LogLevel) -> bool {
        LogComponent::from_word(target).is_some_and(|component| level as u8 <= self.number(component))
    }

    /// Returns the most verbose level of any component.
    pub fn most_verbose(&self) -> LogLevel {
        level(LogComponent::ALL.into_iter().map(|component| self.number(component)).max().unwrap_or_default())
    }

    fn number(&self, component: LogComponent) -> u8 {
        match self.components[component as usize].load(Ordering::Relaxed) {
            UNSET => self.level.load(Ordering::Relaxed),
            own => own,
        }
    }
}

/// Returns the level of an event.
pub fn level_of(event: Level) -> LogLevel {
    match event {
        Level::ERROR => LogLevel::Error,
        Level::WARN => LogLevel::Warn,
        Level::INFO => LogLevel::Info,
        Level::DEBUG => LogLevel::Debug,
        Level::TRACE => LogLevel::Trace,
    }
}

fn level(number: u8) -> LogLevel {
    LogLevel::ALL.get(usize::from(number)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_component_has_its_own_level_or_the_common_one() {
        let table = LevelTable::new();
        assert_eq!(table.get(), LogLevels::default());
        assert!(table.allows("tls", LogLevel::Info) && !table.allows("tls", LogLevel::Debug));
        assert_eq!(table.most_verbose(), LogLevel::Info);
        let components =
            BTreeMap::from([(LogComponent::Upstream, LogLevel::Trace), (LogComponent::Tls, LogLevel::Error)]);
        let levels = LogLevels { level: LogLevel::Warn, components };
        table.set(&levels);
        assert_eq!(table.get(), levels);
        assert_eq!(table.most_verbose(), LogLevel::Trace);
        for (target, level, allowed) in [
            ("upstream", LogLevel::Trace, true),
            ("tls", LogLevel::Error, true),
            ("tls", LogLevel::Warn, false),
            ("reload", LogLevel::Warn, true),
            ("reload", LogLevel::Info, false),
            ("h2::codec", LogLevel::Error, false),
        ] {
            assert_eq!(table.allows(target, level), allowed, "{target} {level:?}");
        }
    }

    #[test]
    fn the_file_and_the_events_have_the_same_components() {
        assert_eq!(LogComponent::WORDS, tollgate_net::component::ALL);
        for (number, component) in LogComponent::ALL.into_iter().enumerate() {
            assert_eq!(component as usize, number);
        }
    }
}
