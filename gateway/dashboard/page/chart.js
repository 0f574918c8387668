// A chart over the last minutes, with its figures as text beside it.

import { Component, html } from './parts.js';
import { SPAN } from './live.js';
import { amount, age, clock, NOTHING } from './format.js';
import { t } from './text.js';

const HEIGHT = 176;
/// Rows of the table that says what a chart shows.
const ROWS = 12;

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/// Steps between lines of an axis for what is counted.
const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5];

/// What an axis says at its lines; a logarithmic one names only some of them.
const short = (value) => (value === null ? '' : value >= 1e4 ? `${amount(value / 1e3)}k` : amount(value));

/// Steps between lines of the time axis, in seconds; those below a minute need a label with seconds.
const STEPS = [60, 120, 300, 600, 900, 1800];
const SHORT_STEPS = [5, 10, 30];
/// The longest span whose labels have seconds.
const SHORT_SPAN = 180;

/// The lines of a logarithmic axis: zero and powers of ten.
function powers(most) {
  const out = [0];
  for (let value = 0.1; value <= most; value *= 10) out.push(value);
  return out;
}

/// The part of the values that a clipped axis shows.
const CLIPPED = 0.95;

/// The upper end of the axis: the largest value, or, if bursts are clipped, one that most values are below.
function top(series, scale, most) {
  if (scale !== 'clip') return most;
  const all = series.flatMap((one) => one.values).filter((value) => value !== null && value > 0).sort((a, b) => a - b);
  return all.length === 0 ? most : Math.min(most, 1.5 * all[Math.floor((all.length - 1) * CLIPPED)]);
}

/// `series`: `{ key, label, colour, values, fill, format }`, of which `values` has a figure or null for each of `times`.
/// `range`: the span that is shown, as `[from, to]`; without it, the last minutes. `scale`: `log`, or `clip` for an axis that
/// bursts leave. `onZoom` is given the span of a drag.
export class Chart extends Component {
  constructor(properties) {
    super(properties);
    this.state = { at: null };
  }

  componentDidMount() {
    this.make();
    this.watch = new ResizeObserver(() => this.plot?.setSize({ width: this.width(), height: HEIGHT }));
    this.watch.observe(this.place);
  }

  componentDidUpdate(before) {
    const now = this.props;
    if (before.theme !== now.theme || before.language !== now.language) {
      this.plot?.destroy();
      this.make();
    } else {
      this.plot?.setData(this.data());
    }
  }

  componentWillUnmount() {
    this.watch?.disconnect();
    this.plot?.destroy();
  }

  width() {
    return Math.max(160, Math.floor(this.place.clientWidth));
  }

  data() {
    return [this.props.times, ...this.props.series.map((one) => one.values)];
  }

  make() {
    const { series } = this.props;
    const [line, muted] = [style('--line'), style('--muted')];
    const axis = { stroke: muted, font: '11px system-ui, sans-serif', ticks: { show: false }, grid: { stroke: line, width: 1 } };
    const options = {
      width: this.width(),
      height: HEIGHT,
      padding: [8, 8, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { size: 7 }, drag: { x: Boolean(this.props.onZoom), y: false, setScale: false }, sync: { key: this.props.onZoom ? 'zoomed' : 'all' } },
      scales: {
        // The present is at the right edge, also while there is little to show.
        x: { time: true, range: (_, __, last) => this.props.range ?? [last - SPAN, last] },
        // The inverse hyperbolic sine is logarithmic and has a zero.
        y: { ...(this.props.scale === 'log' ? { distr: 4, asinh: 0.1 } : {}),
          range: (_, __, most) => [0, Math.max(top(this.props.series, this.props.scale, most ?? 0), this.props.least ?? 1) * 1.08] },
      },
      axes: [
        { ...axis, grid: { show: false }, size: 26, space: () => (this.span() <= SHORT_SPAN ? 64 : 46), incrs: () => (this.span() <= SHORT_SPAN ? [...SHORT_STEPS, ...STEPS] : STEPS), values: (_, times) => times.map((time) => clock(time, this.span() <= SHORT_SPAN)) },
        { ...axis, size: 44, space: 34, ...(this.props.whole ? { incrs: WHOLE } : {}),
          ...(this.props.scale === 'log' ? { splits: (_, __, ___, most) => powers(most), filter: (_, values) => values } : {}), values: (_, values) => values.map((value) => short(value)) },
      ],
      series: [{}, ...series.map((one) => ({
        stroke: style(one.colour),
        width: 1.75,
        fill: one.fill ? `${style(one.colour)}22` : undefined,
        points: { show: false },
        spanGaps: false,
      }))],
      hooks: { setSelect: [(plot) => {
        const { left, width } = plot.select;
        if (width < 5 || !this.props.onZoom) return;
        plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
        this.props.onZoom([plot.posToVal(left, 'x'), plot.posToVal(left + width, 'x')]);
      }], setCursor: [(plot) => {
        const at = plot.cursor.idx ?? null;
        if (at !== this.state.at) this.setState({ at });
      }] },
    };
    this.plot = new globalThis.uPlot(options, this.data(), this.place);
  }

  /// How many seconds are shown.
  span() {
    const { range } = this.props;
    return range ? range[1] - range[0] : SPAN;
  }

  /// All that the lines say, in a sentence for each.
  summary() {
    const { title, unit, series } = this.props;
    const one = ({ label, values }) => {
      const there = values.filter((value) => value !== null);
      if (there.length === 0) return t('chart.summary.none', { name: label });
      const [now, least, most] = [there.at(-1), Math.min(...there), Math.max(...there)].map(amount);
      return t('chart.summary.one', { name: label, now, least, most });
    };
    return t('chart.summary', { title, unit, span: age(this.span()), series: series.map(one).join(' ') });
  }

  table() {
    const { times, series, title } = this.props;
    const step = Math.max(1, Math.floor(times.length / ROWS));
    const rows = times.map((_, index) => index).filter((index) => (times.length - 1 - index) % step === 0).reverse();
    return html`<details class="as-table"><summary>${t('chart.table')}</summary>
      <div class="scroll" tabindex="0" role="region" aria-label=${title}><table>
        <thead><tr><th scope="col">${t('chart.time')}</th>${series.map((one) => html`<th scope="col" class="number">${one.label}</th>`)}</tr></thead>
        <tbody>${rows.slice(0, ROWS).map((row) => html`<tr><th scope="row">${clock(times[row], true)}</th>
          ${series.map((one) => html`<td class="number">${amount(one.values[row])}</td>`)}</tr>`)}</tbody>
      </table></div></details>`;
  }

  render({ title, unit, times, series }, { at }) {
    const row = at !== null && at < times.length ? at : times.length - 1;
    const hovered = at !== null && row >= 0;
    return html`<figure class="chart card">
      <figcaption class="card-head"><h2>${title}</h2><span class="unit">${hovered ? clock(times[row], true) : unit}</span></figcaption>
      <ul class="legend">${series.map((one) => html`<li>
        <span class="swatch" style=${{ background: `var(${one.colour})` }} aria-hidden="true"></span>
        <span class="legend-label">${one.label}</span>
        <span class="legend-value">${row >= 0 ? amount(one.values[row]) : NOTHING}</span></li>`)}</ul>
      <div class="plot" role="img" aria-label=${this.summary()} ref=${(element) => { if (element) this.place = element; }}></div>
      ${this.table()}
    </figure>`;
  }
}
