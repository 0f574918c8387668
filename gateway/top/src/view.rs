//! Draws the screen.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Sparkline, Table, Wrap};
use tollgate_observe::live::LiveDocument;
use unicode_width::UnicodeWidthStr;

use crate::figures::{age, amount, bytes, counted, optional, percent, time};
use crate::recent::RecentDocuments;
use crate::rows::{RowSeverity, TableData, error_severity, rows};
use crate::screen::{InputMode, ScreenState, Tab};

/// The help line at the bottom.
const HELP_LINE: &str = " q quit  tab other table  s sort  / filter  ? keys ";

/// The list of keys.
const KEYS: &[(&str, &str)] = &[
    ("q, Esc", "quit"),
    ("tab", "routes or endpoints"),
    ("s", "sort by the next column"),
    ("/", "filter by name; Enter keeps, Esc clears"),
    ("arrows, j, k", "scroll; Page Up and Page Down too"),
    ("space", "pause or resume"),
    ("?", "close this list"),
];

/// The narrowest text column, in columns of the screen.
const TEXT_MIN_WIDTH: u16 = 10;
/// The width that a name should have before a column of figures is shown.
const NAME_WIDTH: u16 = 16;

/// Rows of the summary.
const SUMMARY_ROWS: u16 = 7;

/// Rows of the graph of requests, with its frame.
const GRAPH_ROWS: u16 = 5;

/// Returns the title line: version, state, generation and uptime.
pub fn title_line(live: &LiveDocument) -> String {
    let LiveDocument { version, state, generation, uptime, .. } = live;
    format!("tollgate {version}, {state}, generation {generation}, up {}", age(*uptime))
}

/// Returns the summary: name and value of each figure.
pub fn summary(recent: &RecentDocuments, live: &LiveDocument) -> Vec<(&'static str, String)> {
    let all = recent.all();
    let (cost, requests) = (&live.cost, &live.requests);
    let point = |column: &[f64]| column.last().copied().unwrap_or_default();
    let (rate, refused) = (point(&live.history.requests), point(&live.history.client_errors));
    let refused = if rate > 0.0 { refused / rate } else { 0.0 };
    let memory = match live.resources.memory_bound {
        Some(bound) => format!("{} of {}", bytes(live.resources.memory), bytes(Some(bound))),
        None => bytes(live.resources.memory),
    };
    let used = cost.cores_used.map_or_else(|| "-".to_owned(), |used| format!("{used:.2}"));
    let cores = format!("{used} of {} {}", cost.cores, if cost.cores == 1.0 { "core" } else { "cores" });
    let toll = match cost.cpu_microseconds_per_request {
        Some(toll) => format!("{toll:.1} us of CPU a request, {cores}"),
        None => format!("too few requests to tell, {cores}"),
    };
    let mut lines = vec![
        (
            "requests",
            format!(
                "{}/s, {} since the start, {} in flight",
                amount(all.rate),
                requests.total,
                requests.in_flight
            ),
        ),
        ("errors", format!("{} 5xx, {} 4xx", percent(all.errors), percent(refused))),
        ("latency", format!("p50 {}, p99 {}", time(all.p50), time(all.p99))),
        ("toll", toll),
        ("headroom", format!("{} more requests/s", optional(cost.headroom.map(f64::floor), 0))),
        (
            "clients",
            format!(
                "{}, {}",
                counted(live.clients.open, "connection"),
                counted(live.workers.len() as u64, "worker")
            ),
        ),
        ("memory", memory),
    ];
    if !live.resources.shed.is_empty() {
        lines.push(("overload", format!("turning away priority {}", live.resources.shed.join(", "))));
    }
    lines
}

/// Draws everything. `problem`: why the last request failed. Returns the number of rows in the table.
pub fn draw(
    frame: &mut Frame<'_>,
    recent: &RecentDocuments,
    screen: &ScreenState,
    address: &str,
    problem: Option<&str>,
) -> usize {
    let [top, rest, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)])
            .areas(frame.area());
    let line = match screen.mode {
        InputMode::Filter => Paragraph::new(format!(" filter: {}_", screen.filter)),
        _ => Paragraph::new(HELP_LINE).style(dim()),
    };
    frame.render_widget(line, foot);
    let Some(live) = recent.latest() else {
        let text = problem.map_or_else(|| format!("asking {address} ..."), str::to_owned);
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: false }), rest);
        return 0;
    };
    title(frame, top, live, address, screen, problem);
    let figures = summary(recent, live);
    // On a low screen the table takes precedence over the graph.
    let graph_rows = if rest.height < SUMMARY_ROWS + GRAPH_ROWS + 4 { 0 } else { GRAPH_ROWS };
    let height = (figures.len() as u16).min(rest.height / 2);
    let [above, spark, table] =
        Layout::vertical([Constraint::Length(height), Constraint::Length(graph_rows), Constraint::Min(0)])
            .areas(rest);
    let errors = error_severity(recent.all().errors);
    let lines = figures.into_iter().map(|(name, value)| {
        let severity = match name {
            "errors" => errors,
            "overload" => RowSeverity::Critical,
            _ => RowSeverity::Normal,
        };
        let value = Span::styled(value, style(severity));
        Line::from(vec![Span::styled(format!(" {name:<9} "), dim()), value])
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), above);
    if graph_rows > 0 {
        sparkline(frame, spark, recent);
    }
    let count = draw_table(frame, table, recent, screen);
    if screen.mode == InputMode::Help {
        draw_keys(frame, rest);
    }
    count
}

/// Draws the list of keys over the middle of the screen.
fn draw_keys(frame: &mut Frame<'_>, area: Rect) {
    let lines: Vec<_> =
        KEYS.iter().map(|(key, action)| Line::from(format!(" {key:<13} {action} "))).collect();
    let width = lines.iter().map(Line::width).max().unwrap_or_default() as u16 + 2;
    let (width, height) = (width.min(area.width), (lines.len() as u16 + 2).min(area.height));
    let place =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title("keys")), place);
}

fn title(
    frame: &mut Frame<'_>,
    area: Rect,
    live: &LiveDocument,
    address: &str,
    screen: &ScreenState,
    problem: Option<&str>,
) {
    let state = match (problem, screen.paused) {
        (Some(problem), _) => Span::styled(format!(" no contact: {problem} "), Style::new().fg(Color::Red)),
        (None, true) => Span::styled(" paused ", Style::new().fg(Color::Yellow)),
        (None, false) => Span::raw(""),
    };
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let line = Line::from(vec![Span::styled(format!(" {}", title_line(live)), bold), state]);
    frame.render_widget(Paragraph::new(line), area);
    let width = address.len() as u16 + 1;
    if problem.is_none() && area.width > 60 + width {
        let right = Paragraph::new(format!("{address} ")).style(dim()).alignment(Alignment::Right);
        frame.render_widget(right, Rect { x: area.right() - width, width, ..area });
    }
}

fn sparkline(frame: &mut Frame<'_>, area: Rect, recent: &RecentDocuments) {
    let block = Block::bordered().border_style(dim()).title("requests/s");
    let width = usize::from(block.inner(area).width);
    let points: Vec<u64> = recent.requests().rev().take(width).map(|rate| rate.round() as u64).collect();
    let maximum = points.iter().copied().max().unwrap_or_default();
    // The newest point is at the right edge, even if there are few points.
    let mut data = vec![0; width.saturating_sub(points.len())];
    data.extend(points.into_iter().rev());
    let block = block.title(Line::from(format!("most {maximum}")).right_aligned());
    let spark = Sparkline::default().data(data).block(block).style(Style::new().fg(Color::Cyan));
    frame.render_widget(spark, area);
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, recent: &RecentDocuments, screen: &ScreenState) -> usize {
    let mut table = rows(recent, screen.tab, screen.order);
    let all = table.retain_matching(&screen.filter);
    let count = table.rows.len();
    let widths = figure_widths(&table);
    let shown = shown_columns(&table, &widths, area.width.saturating_sub(2));
    let aligned = |index: usize, text: String| {
        let line = Line::from(text);
        Cell::from(if index < table.text_columns { line } else { line.right_aligned() })
    };
    let head: Vec<_> = shown.iter().map(|&index| aligned(index, title_of(&table, index))).collect();
    let body = table.rows.iter().skip(screen.scroll_offset).map(|row| {
        let cells = shown.iter().map(|&index| aligned(index, row.cells[index].clone()));
        Row::new(cells.collect::<Vec<_>>()).style(style(row.severity))
    });
    let text_width = |index: usize| match (screen.tab, index) {
        (Tab::Routes, _) => Constraint::Fill(1),
        (Tab::Endpoints, 0) => Constraint::Fill(2),
        (Tab::Endpoints, _) => Constraint::Fill(3),
    };
    let constraints = shown.iter().map(|&index| match index < table.text_columns {
        true => text_width(index),
        false => Constraint::Length(widths[index]),
    });
    let name = if screen.tab == Tab::Routes { "routes" } else { "endpoints" };
    let (name, counts) = match screen.filter.is_empty() {
        true => (name.to_owned(), counted(count as u64, "row")),
        false => {
            (format!("{name} with `{}`", screen.filter), format!("{count} of {}", counted(all as u64, "row")))
        }
    };
    let block = Block::bordered().border_style(dim()).title(name);
    let block = block.title(Line::from(counts).right_aligned());
    let drawn = Table::new(body.collect::<Vec<_>>(), constraints.collect::<Vec<_>>())
        .header(Row::new(head).style(Style::new().add_modifier(Modifier::BOLD)))
        .block(block);
    frame.render_widget(drawn, area);
    count
}

/// Returns the title of a column. A mark apart from the name shows by which column the table is sorted, and
/// whether the smallest value comes first.
fn title_of(table: &TableData, index: usize) -> String {
    let name = table.columns[index];
    match index == table.sorted_column {
        false => name.to_owned(),
        true if index < table.text_columns => format!("{name} \u{25b2}"),
        true => format!("{name} \u{25bc}"),
    }
}

/// Returns the width that each column of figures needs; 0 for text columns.
fn figure_widths(table: &TableData) -> Vec<u16> {
    let width = |index: usize| {
        let cells = table.rows.iter().map(|row| row.cells[index].width());
        cells.chain([title_of(table, index).width()]).max().unwrap_or_default() as u16
    };
    (0..table.columns.len()).map(|index| if index < table.text_columns { 0 } else { width(index) }).collect()
}

/// Returns the columns that fit into a width, in order. The column by which the table is sorted always stays.
fn shown_columns(table: &TableData, widths: &[u16], width: u16) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..table.columns.len()).collect();
    let needed = |shown: &[usize]| {
        let text = NAME_WIDTH + TEXT_MIN_WIDTH * (table.text_columns as u16 - 1);
        let figures: u16 = shown.iter().map(|&index| widths[index]).sum();
        text + figures + shown.len().saturating_sub(1) as u16
    };
    for &index in table.dispensable.iter().filter(|index| **index != table.sorted_column) {
        if needed(&shown) <= width {
            break;
        }
        shown.retain(|other| *other != index);
    }
    shown
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn style(severity: RowSeverity) -> Style {
    match severity {
        RowSeverity::Normal => Style::new(),
        RowSeverity::Warning => Style::new().fg(Color::Yellow),
        RowSeverity::Critical => Style::new().fg(Color::Red),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::sample::live;
    use crate::screen::{KeyAction, SortColumn};

    fn drawn(
        width: u16,
        height: u16,
        recent: &RecentDocuments,
        screen: ScreenState,
        problem: Option<&str>,
    ) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal
            .draw(|frame| {
                draw(frame, recent, &screen, "127.0.0.1:9911", problem);
            })
            .expect("it draws");
        terminal.backend().to_string()
    }

    fn busy() -> RecentDocuments {
        let mut recent = RecentDocuments::default();
        recent.add(live(1_000.0, 0));
        recent.add(live(1_002.0, 400));
        recent
    }

    #[test]
    fn routes_with_their_figures() {
        let screen = drawn(100, 30, &busy(), ScreenState::default(), None);
        for text in [
            "generation 3",
            "200/s",
            "12.3 us of CPU",
            "150000 more",
            "items",
            "cart",
            "req/s \u{25bc}",
            "127.0.0.1:9911",
        ] {
            assert!(screen.contains(text), "{text} in\n{screen}");
        }
        assert!(!screen.contains("10.0.0.1"), "endpoints are on the other table\n{screen}");
    }

    #[test]
    fn endpoints_and_order() {
        let mut state = ScreenState::default();
        state.press(KeyAction::Tab, 2);
        state.order = SortColumn::Name;
        let screen = drawn(120, 30, &busy(), state, None);
        assert!(screen.contains("10.0.0.2:8080") && screen.contains("unhealthy"), "{screen}");
        assert!(screen.contains("upstream \u{25b2}"), "{screen}");
    }

    /// Every name is whole at 60 columns, and so are the figures that remain.
    #[test]
    fn sixty_columns_are_enough() {
        let screen = drawn(60, 20, &busy(), ScreenState::default(), None);
        for text in ["items", "cart", "req/s \u{25bc}", "p99", "10 %", "2 rows", "? keys"] {
            assert!(screen.contains(text), "{text} in\n{screen}");
        }
        let tab = ScreenState { tab: Tab::Endpoints, ..ScreenState::default() };
        let screen = drawn(60, 20, &busy(), tab.clone(), None);
        for text in ["10.0.0.2:8080", "unhealthy", "req/s \u{25bc}", "failed"] {
            assert!(screen.contains(text), "{text} in\n{screen}");
        }
        assert!(!screen.contains("weight"), "the first column to go\n{screen}");
        let by_total = ScreenState { order: SortColumn::Total, ..tab };
        let screen = drawn(45, 20, &busy(), by_total, None);
        assert!(screen.contains("total \u{25bc}"), "the sorted column stays\n{screen}");
    }

    #[test]
    fn filter_and_keys() {
        let mut state =
            ScreenState { filter: "car".to_owned(), mode: InputMode::Filter, ..ScreenState::default() };
        let screen = drawn(80, 20, &busy(), state.clone(), None);
        assert!(screen.contains("filter: car_") && screen.contains("1 of 2 rows"), "{screen}");
        assert!(screen.contains("cart") && !screen.contains("items"), "{screen}");
        state.mode = InputMode::Help;
        let screen = drawn(60, 24, &busy(), state, None);
        assert!(screen.contains("filter by name") && screen.contains("pause or resume"), "{screen}");
    }

    #[test]
    fn one_connection_is_singular() {
        let mut document = live(1_000.0, 0);
        document.clients.open = 1;
        let mut recent = RecentDocuments::default();
        recent.add(document);
        assert!(drawn(80, 20, &recent, ScreenState::default(), None).contains("1 connection, 2 workers"));
    }

    #[test]
    fn one_core_is_singular() {
        let cores = |cores: f64| {
            let mut document = live(1_000.0, 0);
            document.cost.cores = cores;
            let mut recent = RecentDocuments::default();
            recent.add(document);
            drawn(100, 20, &recent, ScreenState::default(), None)
        };
        assert!(cores(1.0).contains("of 1 core ") && !cores(1.0).contains("of 1 cores"), "{}", cores(1.0));
        assert!(cores(0.5).contains("of 0.5 cores"), "{}", cores(0.5));
        assert!(cores(2.0).contains("of 2 cores"), "{}", cores(2.0));
    }

    #[test]
    fn any_size_holds() {
        for (width, height) in [(1, 1), (10, 3), (40, 8), (79, 12), (300, 100)] {
            for tab in [Tab::Routes, Tab::Endpoints] {
                drawn(
                    width,
                    height,
                    &busy(),
                    ScreenState { mode: InputMode::Help, ..ScreenState::default() },
                    None,
                );
                drawn(
                    width,
                    height,
                    &busy(),
                    ScreenState { tab, scroll_offset: 99, ..ScreenState::default() },
                    None,
                );
                drawn(
                    width,
                    height,
                    &RecentDocuments::default(),
                    ScreenState { tab, ..ScreenState::default() },
                    Some("refused"),
                );
            }
        }
        let low = drawn(80, 12, &busy(), ScreenState::default(), None);
        assert!(low.contains("items"), "the table is there on a low screen\n{low}");
    }

    #[test]
    fn an_unreachable_gateway() {
        assert!(
            drawn(60, 5, &RecentDocuments::default(), ScreenState::default(), None)
                .contains("asking 127.0.0.1:9911")
        );
        let screen = drawn(100, 20, &busy(), ScreenState::default(), Some("connection refused"));
        assert!(screen.contains("no contact: connection refused") && screen.contains("items"), "{screen}");
    }
}
