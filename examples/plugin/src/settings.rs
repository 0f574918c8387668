//! The plugin's settings as written, and the check of them.

use std::time::Duration;

use tollgate::plugin::serde::Deserialize;
use tollgate::plugin::serde_json::Value;
use tollgate::plugin::{Block, SettingsProblem, SettingsProblems, block, settings};

use crate::Rules;
use crate::window::{Window, second};

/// The keys. For an error that serde finds (such as an unknown key, or text instead of a number), the report
/// has its position and the expected value.
#[derive(Debug, Deserialize)]
#[serde(crate = "tollgate::plugin::serde", deny_unknown_fields)]
struct Written {
    message: Option<String>,
    #[serde(default)]
    allow: Vec<String>,
    daily: Option<Daily>,
    #[serde(default = "minute")]
    retry_after: u64,
    #[serde(default)]
    hold: u64,
}

#[derive(Debug, Deserialize)]
#[serde(crate = "tollgate::plugin::serde", deny_unknown_fields)]
struct Daily {
    from: String,
    to: String,
}

fn minute() -> u64 {
    60
}

/// The longest time that a refused request is held, in milliseconds.
const LONGEST: u64 = 60_000;

/// Checks the rules that serde cannot check, and reports all problems together.
pub fn rules(value: &Value) -> Result<Rules, SettingsProblems> {
    let Written { message, allow, daily, retry_after, hold } = settings(value)?;
    let mut problems = SettingsProblems::default();
    let blocks: Vec<Block> = allow
        .iter()
        .enumerate()
        .filter_map(|(index, text)| {
            let problem = |message| SettingsProblem::at(format!("/allow/{index}"), message);
            block(text)
                .map_err(|message| problems.push(problem(message).expected("a block such as `10.0.0.0/8`")))
                .ok()
        })
        .collect();
    let mut window = Window::Always;
    if let Some(Daily { from, to }) = daily {
        let mut hour = |pointer: &str, text: &str| {
            let read = second(text);
            if read.is_none() {
                let problem = SettingsProblem::at(pointer, format!("`{text}` is no time of the day"));
                problems.push(problem.expected("hours and minutes in UTC, such as `\"02:30\"`"));
            }
            read
        };
        let both = (hour("/daily/from", &from), hour("/daily/to", &to));
        if let (Some(from), Some(to)) = both {
            if from == to {
                let problem = SettingsProblem::at("/daily/to", "it ends when it begins");
                problems.push(problem.help("leave `daily` away for all day"));
            }
            window = Window::Daily { from, to };
        }
    }
    if hold > LONGEST {
        let problem = SettingsProblem::at("/hold", "this is longer than anybody should be held");
        problems.push(problem.expected(format!("at most {LONGEST} milliseconds")));
    }
    let hold = Duration::from_millis(hold);
    problems.or(Rules { message, allow: blocks, window, retry_after, hold })
}

#[cfg(test)]
mod tests {
    use tollgate::plugin::serde_json::json;

    use super::*;

    fn pointers(value: &Value) -> Vec<String> {
        let problems = rules(value).expect_err("it is not good");
        problems.as_slice().iter().map(|problem| problem.pointer.clone()).collect()
    }

    #[test]
    fn nothing_is_needed() {
        let rules = rules(&json!({})).expect("it is good");
        assert_eq!((rules.window, rules.retry_after, rules.allow.len()), (Window::Always, 60, 0));
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once() {
        let value =
            json!({"allow": ["10.0.0.1/8", "::1", "x"], "daily": {"from": "2", "to": "3"}, "hold": 60_001});
        assert_eq!(pointers(&value), ["/allow/0", "/allow/2", "/daily/from", "/daily/to", "/hold"]);
        assert_eq!(pointers(&json!({"daily": {"from": "02:00", "to": "02:00"}})), ["/daily/to"]);
        assert_eq!(pointers(&json!({"retry_after": "soon"})), ["/retry_after"]);
    }
}
