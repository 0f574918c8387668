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
pub enum SortColumn {
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

impl SortColumn {
    const ALL: [SortColumn; 5] =
        [SortColumn::Rate, SortColumn::Errors, SortColumn::Slowness, SortColumn::Total, SortColumn::Name];

    fn next(self) -> Self {
        let index = Self::ALL.iter().position(|order| *order == self).unwrap_or_default();
        Self::ALL[(index + 1) % Self::ALL.len()]
    }
}

/// The meaning of the next keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InputMode {
    /// Commands.
    #[default]
    Commands,
    /// The text of the filter.
    Filter,
    /// Any key closes the list of keys.
    Help,
}

/// The state of the screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScreenState {
    pub tab: Tab,
    /// Order of its rows.
    pub order: SortColumn,
    /// Number of rows scrolled away at the top.
    pub scroll_offset: usize,
    /// Whether the display is frozen.
    pub paused: bool,
    /// Only rows whose names contain this text, in any case, are shown.
    pub filter: String,
    /// The meaning of the next keys.
    pub mode: InputMode,
}

/// The action of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyAction {
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
    /// Begin to type the filter.
    Filter,
    /// Add a character to the filter.
    Type(char),
    /// Remove the last character of the filter.
    Erase,
    /// End typing, and keep the filter.
    Accept,
    /// End typing, and show all rows.
    Clear,
    /// Show the list of keys, or hide it.
    Help,
}

/// The longest filter, in characters.
const FILTER_MAX: usize = 60;

/// Number of rows in a page.
const PAGE_ROWS: usize = 10;

impl ScreenState {
    /// Performs the action of a key. `rows` is the number of rows in the table.
    pub fn press(&mut self, key: KeyAction, rows: usize) {
        let last = rows.saturating_sub(1);
        match key {
            KeyAction::Tab => {
                self.tab = if self.tab == Tab::Routes { Tab::Endpoints } else { Tab::Routes };
                self.scroll_offset = 0;
            }
            KeyAction::Sort => {
                self.order = self.order.next();
                self.scroll_offset = 0;
            }
            KeyAction::Down => self.scroll_offset = (self.scroll_offset + 1).min(last),
            KeyAction::Up => self.scroll_offset = self.scroll_offset.saturating_sub(1),
            KeyAction::PageDown => self.scroll_offset = (self.scroll_offset + PAGE_ROWS).min(last),
            KeyAction::PageUp => self.scroll_offset = self.scroll_offset.saturating_sub(PAGE_ROWS),
            KeyAction::Pause => self.paused = !self.paused,
            KeyAction::Filter => self.mode = InputMode::Filter,
            KeyAction::Type(c) => {
                if self.filter.chars().count() < FILTER_MAX {
                    self.filter.push(c);
                }
                self.scroll_offset = 0;
            }
            KeyAction::Erase => {
                self.filter.pop();
                self.scroll_offset = 0;
            }
            KeyAction::Accept => self.mode = InputMode::Commands,
            KeyAction::Clear => {
                self.filter.clear();
                self.mode = InputMode::Commands;
                self.scroll_offset = 0;
            }
            KeyAction::Help => {
                self.mode = match self.mode {
                    InputMode::Help => InputMode::Commands,
                    _ => InputMode::Help,
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        let mut screen = ScreenState::default();
        screen.press(KeyAction::Up, 3);
        for _ in 0..9 {
            screen.press(KeyAction::Down, 3);
        }
        assert_eq!(screen.scroll_offset, 2, "not past the last row");
        screen.press(KeyAction::Tab, 3);
        assert_eq!((screen.tab, screen.scroll_offset), (Tab::Endpoints, 0));
        let orders = [(); 5].map(|()| {
            screen.press(KeyAction::Sort, 3);
            screen.order
        });
        assert_eq!(
            orders,
            [SortColumn::Errors, SortColumn::Slowness, SortColumn::Total, SortColumn::Name, SortColumn::Rate]
        );
        screen.press(KeyAction::PageDown, 0);
        assert_eq!(screen.scroll_offset, 0, "an empty table");
    }

    #[test]
    fn the_filter_is_typed_and_cleared() {
        let mut screen = ScreenState { scroll_offset: 3, ..ScreenState::default() };
        screen.press(KeyAction::Filter, 9);
        for c in "shop".chars() {
            screen.press(KeyAction::Type(c), 9);
        }
        screen.press(KeyAction::Erase, 9);
        assert_eq!(
            (screen.filter.as_str(), screen.mode, screen.scroll_offset),
            ("sho", InputMode::Filter, 0)
        );
        screen.press(KeyAction::Accept, 9);
        assert_eq!((screen.filter.as_str(), screen.mode), ("sho", InputMode::Commands));
        screen.press(KeyAction::Help, 9);
        assert_eq!(screen.mode, InputMode::Help);
        screen.press(KeyAction::Help, 9);
        screen.press(KeyAction::Clear, 9);
        assert_eq!(screen, ScreenState::default());
    }
}
