// Figures for people: three digits that count, a unit, and nothing that jumps.

import { state } from './store.js';
import { t } from './text.js';

const cache = new Map();

function numbers(options) {
  const key = state.language + JSON.stringify(options);
  if (!cache.has(key)) cache.set(key, new Intl.NumberFormat(state.language, options));
  return cache.get(key);
}

/// What is not known.
export const NOTHING = '–';

/// A number with so many decimals.
export function decimal(value, digits) {
  return numbers({ minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value);
}

/// A count or a rate: whole above 100, one decimal below. Large ones are `12.3 k`.
export function amount(value) {
  if (value === null || value === undefined) return NOTHING;
  if (value >= 1e6) return `${decimal(value / 1e6, 2)} M`;
  if (value >= 1e5) return `${decimal(value / 1e3, 0)} k`;
  if (value >= 100 || value === 0) return decimal(value, 0);
  return decimal(value, value >= 10 || Number.isInteger(value) ? 0 : 1);
}

/// A whole number in full.
export function whole(value) {
  return numbers({ maximumFractionDigits: 0 }).format(value);
}

/// Seconds as `[figure, unit]`.
export function time(seconds) {
  if (seconds === null || seconds === undefined) return [NOTHING, ''];
  const [value, unit] = seconds < 1e-3 ? [seconds * 1e6, 'µs'] : seconds < 1 ? [seconds * 1e3, 'ms'] : [seconds, 's'];
  return [decimal(value, value < 10 ? 2 : value < 100 ? 1 : 0), unit];
}

/// The same as one text.
export function timeText(seconds) {
  return time(seconds).join('\u00a0').trim();
}

/// A part of a whole, 0 to 1. What is not nothing does not look like nothing.
export function percent(part) {
  if (part === null || part === undefined) return NOTHING;
  if (part > 0 && part < 0.0005) return `<\u00a0${decimal(0.1, 1)}\u00a0%`;
  return `${decimal(part * 100, part === 0 || part >= 0.0995 ? 0 : 1)}\u00a0%`;
}

/// Bytes as `[figure, unit]`.
export function bytes(value) {
  if (value === null || value === undefined) return [NOTHING, ''];
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let step = 0;
  let left = value;
  while (left >= 1024 && step < units.length - 1) {
    left /= 1024;
    step += 1;
  }
  return [decimal(left, step === 0 || left >= 100 ? 0 : 1), units[step]];
}

/// `1.5 GiB`, as one text that does not wrap.
export const size = (value) => bytes(value).join('\u00a0');

/// How long something has been: `12 s`, `3 min`, `5 h`, `2 d`.
export function age(seconds) {
  const steps = [[86400 * 2, 86400, 'd'], [7200, 3600, 'h'], [120, 60, 'min']];
  const [, size, unit] = steps.find(([from]) => seconds >= from) ?? [0, 1, 's'];
  return t(`unit.${unit}`, { n: decimal(Math.floor(seconds / size), 0) });
}

/// A moment: the time alone if it is today.
export function moment(seconds) {
  const date = new Date(seconds * 1000);
  const today = date.toDateString() === new Date().toDateString();
  const options = today ? { timeStyle: 'medium' } : { dateStyle: 'medium', timeStyle: 'medium' };
  return new Intl.DateTimeFormat(state.language, options).format(date);
}

/// `14:05`, for a chart's axis; with seconds for its legend.
export function clock(seconds, second) {
  const options = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23', ...(second ? { second: '2-digit' } : {}) };
  return new Intl.DateTimeFormat(state.language, options).format(new Date(seconds * 1000));
}
