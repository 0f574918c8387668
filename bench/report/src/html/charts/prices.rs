//! What features add.

use super::Charts;
use crate::html::chart::bars::{Bar, Bars};
use crate::{number, table};
use maud::Markup;
use tollgate_lab_record::Summary;

const PALE: [&str; 8] = [
    "fill pale c0",
    "fill pale c1",
    "fill pale c2",
    "fill pale c3",
    "fill pale c4",
    "fill pale c5",
    "fill pale c6",
    "fill pale c7",
];
const COLOUR: [&str; 8] =
    ["fill c0", "fill c1", "fill c2", "fill c3", "fill c4", "fill c5", "fill c6", "fill c7"];

impl Charts<'_> {
    pub(super) fn prices(&self) -> Vec<Markup> {
        let chart = |name: &str,
                     title: &str,
                     axis: &'static str,
                     of: &dyn Fn(&crate::figures::Price) -> Option<Summary>,
                     write: &dyn Fn(f64) -> String| {
            let mut seen = String::new();
            let bars = self
                .section
                .prices
                .iter()
                .filter_map(|price| {
                    let found = of(price)?;
                    let value = found.estimate;
                    let none = found.low <= 0.0 && found.high >= 0.0;
                    let heading = (price.feature != seen).then(|| price.feature.clone());
                    seen.clone_from(&price.feature);
                    let text = table::signed(value, write);
                    Some(Bar {
                        system: price.system.clone(),
                        label: price.title.clone(),
                        heading,
                        parts: vec![(
                            if none { PALE } else { COLOUR }
                                [self.look(&price.system).colour.min(COLOUR.len() - 1)],
                            value,
                        )],
                        whisker: (found.low < found.high).then_some((found.low, found.high)),
                        says: format!("{}, {}: {text}", price.title, price.feature),
                        value: text,
                        beside: String::new(),
                        absent: None,
                    })
                })
                .collect();
            Bars {
                id: format!("{}-{name}", self.id),
                title: title.to_owned(),
                about: "Beside the same system without the feature. Pale: the interval holds 0, so no price was shown.".to_owned(),
                axis,
                key: Vec::new(),
                bars,
                rule: None,
            }
            .draw()
        };
        if self.section.prices.is_empty() {
            return Vec::new();
        }
        vec![
            chart(
                "price-cpu",
                "CPU that a feature adds",
                "µs of CPU a request",
                &|price| price.cpu_us,
                &number::plain,
            ),
            chart(
                "price-p99",
                "99th percentile that a feature adds",
                "µs",
                &|price| price.p99_us,
                &number::time,
            ),
        ]
    }
}
