// A resource as a text that can be changed: CodeMirror with the schema's completion, and what is wrong at its line. Until
// the library is loaded, or if it cannot be, the text is in a plain field.

import { codeMirror } from './code-mirror.js';
import { completions, schemaOf } from './completion.js';
import { Component, html } from './parts.js';
import { Problem } from './problems.js';
import { lineOf } from './pointer.js';
import { t } from './text.js';

/// Milliseconds without a key until a text is checked: each check is a dry run of the gateway.
const CHECK_AFTER = 900;

/// The column that a problem names by itself, counted from 0; null if it names none.
const columnOf = (pointer) => { const found = /^\d+:(\d+)$/.exec(pointer ?? ''); return found ? Number(found[1]) - 1 : null; };

/// `problems` are of this text. `locked`: it is only shown. `kind` is its schema. `check`, if it is there, gives the problems
/// of a text that is being changed.
export class Editor extends Component {
  constructor() {
    super();
    this.state = { ready: false, found: [] };
    this.marks = [];
  }

  async componentDidMount() {
    const library = await codeMirror();
    if (!library || this.gone) return;
    this.library = library;
    this.setState({ ready: true }, () => {
      const { text, locked, label } = this.props;
      const code = library(this.place, {
        value: text, mode: 'yaml', lineNumbers: true, readOnly: locked, screenReaderLabel: label, tabSize: 2, indentUnit: 2,
        smartIndent: false, viewportMargin: Infinity, autocapitalize: false, extraKeys: this.keys(true),
        hintOptions: { hint: (editor) => this.hint(editor), completeSingle: false, container: this.place },
      });
      this.code = code;
      code.getInputField().setAttribute('aria-describedby', 'editor-keys');
      code.on('change', () => this.typed());
      code.on('blur', () => code.setOption('extraKeys', this.keys(true)));
      code.on('inputRead', (_, change) => { if (/^[\w-]$/.test(change.text[0]) && !code.state.completionActive) code.showHint(); });
      this.mark();
    });
  }

  componentDidUpdate(before, last) {
    const { text, problems, locked } = this.props;
    if (this.code) {
      if (this.code.getValue() !== text) this.code.setValue(text);
      if (locked !== before.locked) this.code.setOption('readOnly', locked);
      const other = problems !== before.problems && problems.length + before.problems.length > 0;
      if (other || last.found !== this.state.found) this.mark();
    }
    if (problems !== before.problems && problems.length > 0) this.show(lineOf(text, problems[0].pointer));
  }

  componentWillUnmount() {
    this.gone = true;
    clearTimeout(this.timer);
  }

  /// Tab indents; after Escape it leaves the editor, as it leaves any other field.
  keys(indents) {
    const leave = (code) => code.setOption('extraKeys', this.keys(false));
    const tabs = indents
      ? { Tab: (code) => (code.somethingSelected() ? code.indentSelection('add') : code.replaceSelection('  ', 'end')), 'Shift-Tab': 'indentLess' }
      : { Tab: false, 'Shift-Tab': false };
    return { ...tabs, Esc: leave, 'Ctrl-Space': (code) => code.showHint() };
  }

  typed() {
    const text = this.code.getValue();
    if (text === this.props.text) return;
    this.props.onText(text);
    clearTimeout(this.timer);
    if (this.props.check && text.trim() !== '') this.timer = setTimeout(() => this.check(text), CHECK_AFTER);
  }

  async check(text) {
    const found = await this.props.check(text);
    if (!this.gone && this.code.getValue() === text) this.setState({ found });
  }

  async hint(code) {
    const { kind } = this.props;
    const schema = await schemaOf(kind);
    if (!schema) return null;
    const cursor = code.getCursor();
    const fitting = completions(schema, code.getValue().split('\n'), cursor.line, cursor.ch);
    if (!fitting || fitting.items.length === 0) return null;
    const list = fitting.items.map(({ text, label, about }) => ({ text, displayText: label, render: (element) => {
      const name = document.createElement('strong');
      name.textContent = label;
      const more = document.createElement('span');
      more.textContent = about;
      element.append(name, more);
    } }));
    const data = { list, from: { line: cursor.line, ch: fitting.from }, to: cursor };
    // The library gives its list no name, and makes it scroll without a way to reach it.
    this.library.on(data, 'shown', () => {
      const menu = this.place.querySelector('.CodeMirror-hints');
      menu?.setAttribute('aria-label', t('edit.completions'));
      menu?.setAttribute('tabindex', '0');
    });
    return data;
  }

  /// The problems that are shown: those of the last preview, or else of the last check.
  shown() {
    return this.props.problems.length > 0 ? this.props.problems : this.state.found;
  }

  /// Marks the lines and columns of all problems.
  mark() {
    const code = this.code;
    for (const clear of this.marks) clear();
    this.marks = this.shown().map((problem) => {
      const line = code.getLineHandle(Math.min(lineOf(code.getValue(), problem.pointer), code.lastLine()));
      code.addLineClass(line, 'wrap', 'wrong');
      const column = columnOf(problem.pointer);
      const number = code.getLineNumber(line);
      const mark = column === null ? null : code.markText({ line: number, ch: column }, { line: number, ch: line.text.length }, { className: 'wrong-part' });
      return () => { code.removeLineClass(line, 'wrap', 'wrong'); mark?.clear(); };
    });
    const field = code.getInputField();
    if (this.marks.length > 0) field.setAttribute('aria-invalid', 'true');
    else field.removeAttribute('aria-invalid');
    field.setAttribute('aria-describedby', this.marks.length > 0 ? 'text-problems editor-keys' : 'editor-keys');
  }

  /// Selects a line, and has it seen.
  show(line) {
    if (this.code) {
      const at = Math.min(line, this.code.lastLine());
      this.code.focus();
      this.code.setSelection({ line: at, ch: 0 }, { line: at, ch: this.code.getLine(at).length });
      this.code.scrollIntoView({ line: at, ch: 0 }, 60);
      return;
    }
    const lines = this.props.text.split('\n');
    const start = lines.slice(0, line).join('\n').length + (line > 0 ? 1 : 0);
    this.area.focus();
    this.area.setSelectionRange(start, start + (lines[line]?.length ?? 0));
    this.area.scrollTop = Math.max(0, (line - 3) * (this.area.scrollHeight / lines.length));
  }

  /// The plain field, with numbered lines.
  plain(wrong) {
    const { text, problems, locked, onText, label } = this.props;
    const count = text.split('\n').length;
    const scroll = (event) => { this.numbers.scrollTop = event.currentTarget.scrollTop; };
    return html`<div class="editor" key="plain">
      <div class="numbers" aria-hidden="true" ref=${(element) => { if (element) this.numbers = element; }}>
        ${Array.from({ length: count }, (_, line) => html`<span class=${wrong.has(line) ? 'wrong' : ''}>${line + 1}</span>`)}</div>
      <textarea name="text" rows=${Math.min(28, Math.max(6, count + 1))} wrap="off" spellcheck=${false} autocapitalize="off" aria-label=${label} readonly=${locked}
        aria-invalid=${problems.length > 0 ? 'true' : undefined} aria-describedby=${problems.length > 0 ? 'text-problems' : undefined}
        onInput=${(event) => onText(event.currentTarget.value)} onScroll=${scroll} value=${text}
        ref=${(element) => { if (element) this.area = element; }}></textarea></div>`;
  }

  render({ text, problems, locked }, { ready }) {
    const shown = this.shown();
    const placed = shown.map((problem) => ({ problem, line: lineOf(text, problem.pointer ?? '') }));
    return html`${ready
      ? html`<div class="editor code" key="code" ref=${(element) => { if (element) this.place = element; }}></div>
        ${!locked && html`<p class="quiet" id="editor-keys">${t('edit.keys')}</p>`}`
      : this.plain(new Set(placed.map(({ line }) => line)))}
      ${shown.length > 0 && html`<ul class="problems" id="text-problems" aria-live=${problems.length > 0 ? 'assertive' : 'polite'}>${placed.map(({ problem, line }) => html`<${Problem} problem=${problem}
        where=${html`<button type="button" class="to-line" title=${problem.pointer} onClick=${() => this.show(line)}>${t('edit.line', { n: line + 1 })}</button>`} />`)}</ul>`}`;
  }
}
