//! The cores that a study or an option of `run` asks for: `{target: 0-7, origin: 8-11, load: 12-15}`.
//!
//! [`Cores`] is the wish; `lab-trial` compares it with the machine. Roles that it leaves out are chosen from
//! the remaining cores.

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::str::FromStr;

/// The highest number of a core; no machine has more.
const MOST: usize = 65_535;

/// A list of cores: `0-7`, `0-3,8-11` or a single number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CoreList(pub Vec<usize>);

/// The cores of each role; `None` leaves the choice to the laboratory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cores {
    /// The system under test.
    pub target: Option<CoreList>,
    /// The origin.
    pub origin: Option<CoreList>,
    /// The load generator and the laboratory itself.
    pub load: Option<CoreList>,
}

impl Cores {
    /// Returns these cores, with those of `over` in place of its own where it has some.
    #[must_use]
    pub fn with(&self, over: &Self) -> Self {
        let pick = |over: &Option<CoreList>, own: &Option<CoreList>| over.clone().or_else(|| own.clone());
        Self {
            target: pick(&over.target, &self.target),
            origin: pick(&over.origin, &self.origin),
            load: pick(&over.load, &self.load),
        }
    }
}

impl FromStr for CoreList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` are no cores: expected a list such as 0-7 or 0-3,8-11");
        let mut cores = Vec::new();
        for part in text.split(',') {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.trim().parse::<usize>().ok().filter(|core| *core <= MOST);
            let (low, high) = number(low).zip(number(high)).ok_or_else(wrong)?;
            if low > high {
                return Err(wrong());
            }
            cores.extend(low..=high);
        }
        let mut seen = std::collections::BTreeSet::new();
        cores.retain(|core| seen.insert(*core));
        Ok(Self(cores))
    }
}

impl fmt::Display for CoreList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, run) in self.0.chunk_by(|a, b| a + 1 == *b).enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match run {
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [one] => write!(f, "{comma}{one}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

/// Parses the option of `run`: `target=0-7,origin=8-11,load=12-15`. A part without a role continues the list
/// before it, so `target=0-3,8-11` is one list.
impl FromStr for Cores {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut lists: Vec<(&str, String)> = Vec::new();
        for part in text.split(',') {
            match (part.split_once('='), lists.last_mut()) {
                (Some((role, list)), _) => lists.push((role.trim(), list.to_owned())),
                (None, Some((_, list))) => {
                    list.push(',');
                    list.push_str(part);
                }
                (None, None) => return Err("expected roles and cores, such as target=0-7,load=12-15".into()),
            }
        }
        let mut cores = Self::default();
        for (role, list) in lists {
            let slot = match role {
                "target" => &mut cores.target,
                "origin" => &mut cores.origin,
                "load" => &mut cores.load,
                other => return Err(format!("no role is called `{other}`: expected target, origin or load")),
            };
            if slot.replace(list.parse()?).is_some() {
                return Err(format!("the role {role} has two lists"));
            }
        }
        Ok(cores)
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let roles = [("target", &self.target), ("origin", &self.origin), ("load", &self.load)];
        let given: Vec<String> =
            roles.iter().filter_map(|(role, list)| Some(format!("{role}={}", list.as_ref()?))).collect();
        f.write_str(&given.join(","))
    }
}

impl<'de> Deserialize<'de> for CoreList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = CoreList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("cores such as 0-7, 3 or [0-3, 8-11]")
            }

            fn visit_u64<E: Error>(self, core: u64) -> Result<CoreList, E> {
                self.visit_str(&core.to_string())
            }

            fn visit_i64<E: Error>(self, core: i64) -> Result<CoreList, E> {
                self.visit_str(&core.to_string())
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<CoreList, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<CoreList, A::Error> {
                let mut all = Vec::new();
                while let Some(CoreList(cores)) = items.next_element()? {
                    all.extend(cores);
                }
                Ok(CoreList(all))
            }
        }
        deserializer.deserialize_any(List)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_a_study_and_of_the_option_are_the_same() {
        let study: Cores =
            serde_saphyr::from_str("{target: 0-3, origin: [4, 6-7], load: 5}").expect("a wish");
        assert_eq!(study.to_string(), "target=0-3,origin=4,6-7,load=5");
        assert_eq!(study.to_string().parse(), Ok(study));
    }

    #[test]
    fn a_mistake_is_named() {
        let error = |text: &str| text.parse::<Cores>().unwrap_err();
        assert!(error("target=3-1").contains("`3-1` are no cores"));
        assert!(error("target=").contains("expected a list such as 0-7"));
        assert!(error("gateway=0").contains("no role is called `gateway`"));
        assert!(error("0-3").contains("expected roles"));
        assert!(error("load=1,load=2").contains("two lists"));
        assert!(serde_saphyr::from_str::<Cores>("{target: none}").is_err());
        assert!(serde_saphyr::from_str::<Cores>("{gateway: 1}").is_err());
    }

    #[test]
    fn an_option_replaces_only_its_own_roles() {
        let study: Cores = "target=0,load=1".parse().expect("a wish");
        let both = study.with(&"load=2".parse().expect("a wish"));
        assert_eq!(both.to_string(), "target=0,load=2");
    }
}
