// A resource as a text that can be changed, with numbered lines, and what is wrong with it at its line.

import { Component, html } from './parts.js';
import { Problem } from './problems.js';
import { lineOf } from './pointer.js';
import { t } from './text.js';

/// `problems` are of this text. `locked`: it is only shown.
export class Editor extends Component {
  componentDidUpdate(before) {
    const { problems } = this.props;
    if (problems !== before.problems && problems.length > 0) this.show(lineOf(this.props.text, problems[0].pointer));
  }

  /// Selects a line, and has it seen.
  show(line) {
    const lines = this.props.text.split('\n');
    const start = lines.slice(0, line).join('\n').length + (line > 0 ? 1 : 0);
    this.area.focus();
    this.area.setSelectionRange(start, start + (lines[line]?.length ?? 0));
    const height = this.area.scrollHeight / lines.length;
    this.area.scrollTop = Math.max(0, (line - 3) * height);
  }

  render({ text, problems, locked, onText, label }) {
    const placed = problems.map((problem) => ({ problem, line: lineOf(text, problem.pointer) }));
    const wrong = new Set(placed.map(({ line }) => line));
    const count = text.split('\n').length;
    const scroll = (event) => { this.numbers.scrollTop = event.currentTarget.scrollTop; };
    const rows = Math.min(28, Math.max(6, count + 1));
    return html`<div class="editor">
        <div class="numbers" aria-hidden="true" ref=${(element) => { if (element) this.numbers = element; }}>
          ${Array.from({ length: count }, (_, line) => html`<span class=${wrong.has(line) ? 'wrong' : ''}>${line + 1}</span>`)}</div>
        <textarea name="text" rows=${rows} wrap="off" spellcheck=${false} autocapitalize="off" aria-label=${label} readonly=${locked}
          aria-invalid=${problems.length > 0 ? 'true' : undefined} aria-describedby=${problems.length > 0 ? 'text-problems' : undefined}
          onInput=${(event) => onText(event.currentTarget.value)} onScroll=${scroll} value=${text}
          ref=${(element) => { if (element) this.area = element; }}></textarea></div>
      ${problems.length > 0 && html`<ul class="problems" id="text-problems" role="alert">${placed.map(({ problem, line }) => html`<${Problem} problem=${problem}
        where=${html`<button type="button" class="to-line" title=${problem.pointer} onClick=${() => this.show(line)}>${t('edit.line', { n: line + 1 })}</button>`} />`)}</ul>`}`;
  }
}
