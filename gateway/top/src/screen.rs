//! What keys change: which table is shown, how it is sorted, how far it is scrolled.

/// The tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tab {
    /// Routes.
    #[default]
    Routes,
    /// Endpoints, by upstream.
    Endpoints,
}

/// What a table is sorted by, the largest first, but for names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Requests a second.
    #[default]
    Rate,
    /// The part that failed.
    Errors,
    /// The 99th percentile of latency; of endpoints, their connections.
    Slowness,
    /// Requests since the start.
    Total,
    /// The name.
    Name,
}

impl Order {
    const ALL: [Order; 5] = [Order::Rate, Order::Errors, Order::Slowness, Order::Total, Order::Name];

    fn next(self) -> Self {
        let at = Self::ALL.iter().position(|order| *order == self).unwrap_or_default();
        Self::ALL[(at + 1) % Self::ALL.len()]
    }
}

/// What is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Screen {
    /// The table.
    pub tab: Tab,
    /// Its order.
    pub order: Order,
    /// Rows that are scrolled away.
    pub scrolled: usize,
    /// Whether what is shown stands still.
    pub paused: bool,
}

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// The other table.
    Tab,
    /// Sorted by the next column.
    Sort,
    /// One row down, or up.
    Down,
    /// One row up.
    Up,
    /// A page down.
    PageDown,
    /// A page up.
    PageUp,
    /// Stand still, or go on.
    Pause,
}

/// Rows of a page.
const PAGE: usize = 10;

impl Screen {
    /// Does what a key says. `rows` is how many the table has.
    pub fn press(&mut self, key: Key, rows: usize) {
        let last = rows.saturating_sub(1);
        match key {
            Key::Tab => {
                self.tab = if self.tab == Tab::Routes { Tab::Endpoints } else { Tab::Routes };
                self.scrolled = 0;
            }
            Key::Sort => {
                self.order = self.order.next();
                self.scrolled = 0;
            }
            Key::Down => self.scrolled = (self.scrolled + 1).min(last),
            Key::Up => self.scrolled = self.scrolled.saturating_sub(1),
            Key::PageDown => self.scrolled = (self.scrolled + PAGE).min(last),
            Key::PageUp => self.scrolled = self.scrolled.saturating_sub(PAGE),
            Key::Pause => self.paused = !self.paused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        let mut screen = Screen::default();
        screen.press(Key::Up, 3);
        for _ in 0..9 {
            screen.press(Key::Down, 3);
        }
        assert_eq!(screen.scrolled, 2, "not past the last row");
        screen.press(Key::Tab, 3);
        assert_eq!((screen.tab, screen.scrolled), (Tab::Endpoints, 0));
        let orders = [(); 5].map(|()| {
            screen.press(Key::Sort, 3);
            screen.order
        });
        assert_eq!(orders, [Order::Errors, Order::Slowness, Order::Total, Order::Name, Order::Rate]);
        screen.press(Key::PageDown, 0);
        assert_eq!(screen.scrolled, 0, "an empty table");
    }
}
