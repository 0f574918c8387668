//! Charts as inline SVG. Colours are CSS classes, so that light and dark schemes and print can define their
//! own. Text sizes leave room for the larger text on a phone.

pub(super) mod bars;
pub(super) mod lines;
pub(super) mod scale;

use maud::{Markup, html};
use std::fmt::Write;

/// The number of colours in the palette, see `style.css`; class `c0` is for the direct path.
const COLOURS: usize = 8;

/// The style of a system in all charts of the page. Colour, shape and dash distinguish systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    /// Class `c0`..`c7`.
    pub(super) colour: usize,
    /// The shape of markers, 0..4.
    pub(super) shape: usize,
    /// The dash pattern; 0 is solid.
    pub(super) dash: usize,
}

impl Look {
    /// Returns the look of a system, given the names of all systems. `direct` has its own look, and the most
    /// common systems have the same colours in all studies.
    pub(super) fn of(system: &str, others: &[String]) -> Self {
        const KNOWN: [(&str, usize); 4] = [("tollgate", 1), ("nginx", 2), ("haproxy", 3), ("envoy", 4)];
        let known = |name: &str| KNOWN.iter().find(|(known, _)| *known == name).map(|(_, colour)| *colour);
        if system == "direct" {
            return Self { colour: 0, shape: 0, dash: 1 };
        }
        if let Some(colour) = known(system) {
            return Self { colour, shape: colour % 4, dash: 0 };
        }
        let rank = others
            .iter()
            .filter(|name| *name != "direct" && known(name).is_none())
            .position(|name| name == system)
            .unwrap_or(0);
        // Unused colours first, then all colours again with another dash.
        let free = COLOURS - 1 - KNOWN.len();
        if rank < free {
            return Self { colour: 1 + KNOWN.len() + rank, shape: rank % 4, dash: 0 };
        }
        let again = rank - free;
        Self {
            colour: 1 + again % (COLOURS - 1),
            shape: (again + 1) % 4,
            dash: 2 + again / (COLOURS - 1) % 2,
        }
    }

    pub(super) fn dashes(self) -> Option<&'static str> {
        [None, Some("5 4"), Some("8 3"), Some("2 3")][self.dash.min(3)]
    }
}

/// Returns the path of a marker around a point.
pub(super) fn marker(shape: usize, x: f64, y: f64, size: f64) -> String {
    let s = size;
    match shape {
        1 => format!(
            "M{} {}h{}v{}h-{}z",
            at(x - s * 0.9),
            at(y - s * 0.9),
            at(s * 1.8),
            at(s * 1.8),
            at(s * 1.8)
        ),
        2 => format!("M{} {}l{} {}h-{}z", at(x), at(y - s * 1.15), at(s * 1.1), at(s * 2.0), at(s * 2.2)),
        3 => format!("M{} {}l{s} {s}l-{s} {s}l-{s} -{s}z", at(x), at(y - s), s = at(s * 1.2)),
        _ => format!(
            "M{} {}a{s} {s} 0 1 0 {d} 0a{s} {s} 0 1 0 -{d} 0z",
            at(x - s),
            at(y),
            s = at(s),
            d = at(s * 2.0)
        ),
    }
}

/// Formats a coordinate. A tenth of a pixel is precise enough and keeps the page small.
pub(super) fn at(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

/// Returns a path through points.
pub(super) fn path(points: &[(f64, f64)]) -> String {
    let mut out = String::new();
    for (index, (x, y)) in points.iter().enumerate() {
        let verb = if index == 0 { 'M' } else { 'L' };
        write!(out, "{verb}{} {}", at(*x), at(*y)).expect("a string takes everything");
    }
    out
}

/// Draws a swatch for legends.
pub(super) fn swatch(look: Look) -> Markup {
    html! {
        svg class={ "swatch c" (look.colour) } viewBox="0 0 26 12" aria-hidden="true" {
            path class="line" d="M1 6H25" stroke-dasharray=[look.dashes()] {}
            path class="dot" d=(marker(look.shape, 13.0, 6.0, 3.6)) {}
        }
    }
}

/// Cuts a text to the width of a chart's label column.
pub(super) fn clip(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    let mut out: String = text.chars().take(longest.saturating_sub(1)).collect();
    out.truncate(out.trim_end().len());
    out.push('…');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_of_a_large_study_looks_different() {
        let names: Vec<String> = ["direct", "tollgate", "nginx", "haproxy", "envoy"]
            .into_iter()
            .map(str::to_owned)
            .chain((0..14).map(|n| format!("other-{n}")))
            .collect();
        let looks: Vec<Look> = names.iter().map(|name| Look::of(name, &names)).collect();
        for (index, look) in looks.iter().enumerate() {
            assert!(look.colour < COLOURS);
            assert!(!looks[..index].contains(look), "{} looks like another", names[index]);
        }
    }

    #[test]
    fn coordinates_are_short() {
        assert_eq!(at(12.04), "12");
        assert_eq!(at(12.26), "12.3");
        assert_eq!(path(&[(0.0, 1.0), (2.5, 3.0)]), "M0 1L2.5 3");
        assert_eq!(clip("Envoy (Contour)", 12), "Envoy (Cont…");
    }
}
