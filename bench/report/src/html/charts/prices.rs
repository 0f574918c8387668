//! Charts of the costs that features add.

use super::{Charts, FILL, PALE};
use crate::html::chart::bars::{Bar, Bars, ROOM};
use crate::{number, table};
use maud::Markup;
use tollgate_lab_record::{Price, Summary};

/// A chart of prices: its name, title, axis, the figure, and how the figure is formatted.
type Drawn = (&'static str, &'static str, &'static str, fn(&Price) -> Option<Summary>, fn(f64) -> String);

const DRAWN: [Drawn; 3] = [
    (
        "price-cpu",
        "CPU that a feature adds",
        "µs of CPU a request",
        |price| price.cpu_us.figure().copied(),
        number::plain,
    ),
    (
        "price-p99",
        "99th percentile that a feature adds",
        "µs",
        |price| price.p99_us.figure().copied(),
        number::time,
    ),
    (
        "price-instructions",
        "Instructions that a feature adds",
        "instructions a request",
        |price| {
            let estimate = *price.instructions.figure()?;
            Some(Summary { estimate, low: estimate, high: estimate, rounds: 1 })
        },
        number::whole,
    ),
];

impl Charts<'_> {
    pub(super) fn prices(&self) -> Vec<Markup> {
        DRAWN.iter().map(|drawn| self.price_chart(drawn)).collect()
    }

    fn price_chart(&self, (name, title, axis, of, write): &Drawn) -> Markup {
        let mut seen = String::new();
        let added = self.section.prices.iter().filter(|price| !price.whole);
        let bars = added
            .filter_map(|price| {
                let found = of(price)?;
                let value = found.estimate;
                // Counted figures have no interval, and one of them may be exactly 0.
                let none = found.low < found.high && found.low <= 0.0 && found.high >= 0.0;
                let heading = (price.feature != seen).then(|| price.feature.clone());
                seen.clone_from(&price.feature);
                let text = table::signed(value, write);
                let system = self.report.title_of(&price.system);
                let colour = self.look(&price.system).colour.min(FILL.len() - 1);
                Some(Bar {
                    system: price.system.clone(),
                    label: system.to_owned(),
                    heading,
                    parts: vec![(if none { PALE } else { FILL }[colour], value)],
                    whisker: (found.low < found.high).then_some((found.low, found.high)),
                    says: format!("{system}, {}: {text}", price.feature),
                    value: text,
                    beside: String::new(),
                    absent: None,
                })
            })
            .collect();
        Bars {
            id: format!("{}-{name}", self.id),
            title: (*title).to_owned(),
            about: "Beside the same system without the feature. Pale: the interval holds 0, so no price was shown."
                .to_owned(),
            axis,
            key: Vec::new(),
            bars,
            rule: None,
            room: ROOM,
        }
        .draw()
    }
}
