//! The state that keys change: the shown table, its order, and how far it is scrolled.

/// The shown table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tab {
    /// The routes.
    #[default]
    Routes,
    /// The endpoints, by upstream.
    Endpoints,
}

/// The column by which a table is sorted: figures from the largest, names alphabetically.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Requests per second.
    #[default]
    Rate,
    /// The fraction that failed.
    Errors,
    /// The 99th percentile of latency; for endpoints, their connections.
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

/// The state of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Screen {
    pub tab: Tab,
    /// Order of its rows.
    pub order: Order,
    /// Number of rows scrolled away at the top.
    pub scrolled: usize,
    /// Whether the display is frozen.
    pub paused: bool,
}

/// The action of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Show the other table.
    Tab,
    /// Sort by the next column.
    Sort,
    /// Scroll one row down.
    Down,
    /// Scroll one row up.
    Up,
    /// Scroll a page down.
    PageDown,
    /// Scroll a page up.
    PageUp,
    /// Freeze the display, or continue.
    Pause,
}

/// Number of rows in a page.
const PAGE: usize = 10;

impl Screen {
    /// Performs the action of a key. `rows` is the number of rows in the table.
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
